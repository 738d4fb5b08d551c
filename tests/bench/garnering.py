"""Measures what fewer levels gain: Garnering with c = 1 (leveling), 0.8 and 0.4 beside RocksDB's leveled compaction, as in
Autumn's evaluation (Zhao et al., section 4).

    db_bench   T = 2: a fill in random order, then point reads without filters, seeks and short scans
    ycsb       T = 5, 1 KB values: a load, then YCSB's workloads A to F, with percentiles

There is no compression, there are no filters, and the block cache is tiny, so that every level costs each read. Each variant runs
in a process of its own. Level 0 is emptied before each part, since its random number of runs would cost reads more than the
compared levels do.

The columns "to c = 1" and "to rocksdb" are ratios of speed: a rate divided by the other variant's rate, or the other variant's
latency divided by this latency, so more than 1 is better. L is the number of levels below level 0 that have files.
"""

import argparse
import signal
import sys

from common import plots, programs, report

VARIANTS = (("rocksdb", None), ("c = 1", 1.0), ("c = 0.8", 0.8), ("c = 0.4", 0.4))
READS = ("read", "read absent", "seek", "seek and 10 next", "seek and 100 next")
KINDS = (("read", "read"), ("update", "update"), ("insert", "insert"), ("scan", "scan"), ("read_modify_write", "read-modify-write"))


def parse_arguments():
    parser = argparse.ArgumentParser(prog="./dev bench garnering", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="a tenth of everything: to check that everything works")
    size.add_argument("--full", action="store_true", help="ten times the data of ycsb, a million operations; an hour and more, 60 GB of disk")
    parser.add_argument("--only", choices=["db_bench", "ycsb"], help="one of the two parts")
    parser.add_argument("--entries", type=report.count, help="entries of db_bench; default 2M, as in the paper")
    parser.add_argument("--ycsb-entries", type=report.count, help="entries of ycsb; default 1M, --full 10M; the paper has 80M")
    parser.add_argument("--operations", type=report.count, help="operations of each kind of read and workload; default 200k, --full 1M, as in the paper")
    parser.add_argument("--value-bytes", type=report.count_list, help="value sizes of db_bench; default 50, --full 50,100,200, as in the paper")
    parser.add_argument("--rounds", type=int, default=1, help="rounds; medians are shown; default 1")
    parser.add_argument("--json", default=str(report.ROOT / "build/bench/garnering.json"), help="file for the figures; plots go beside it")
    options = parser.parse_args()

    default = report.defaults_by_size(options)
    default("entries", 200_000, 2_000_000, 2_000_000)
    default("ycsb_entries", 50_000, 1_000_000, 10_000_000)
    default("operations", 20_000, 200_000, 1_000_000)
    default("value_bytes", [50], [50], [50, 100, 200])
    return options


def settings_of(part, value_bytes, options):
    """Returns the arguments of the program: the paper's settings of each part. Memtables have 2 MiB for 2 million entries and 1
    MiB for a million of 1 KB (the paper has 64 MiB for 80 million). For other numbers they are proportional, so that the levels
    stay the same."""
    if part == "db_bench":
        return {"size_ratio": 2, "entries": options.entries, "value_bytes": value_bytes, "memtable": max(options.entries * (2 << 20) // 2_000_000, 64 << 10)}
    return {"size_ratio": 5, "entries": options.ycsb_entries, "value_bytes": 1000, "memtable": max(options.ycsb_entries * (1 << 20) // 1_000_000, 64 << 10)}


def run_all(options, result):
    parts = [("db_bench", value_bytes) for value_bytes in options.value_bytes] + [("ycsb", 1000)]
    for number in range(options.rounds):
        for part, value_bytes in parts:
            if options.only not in (None, part):
                continue
            for variant, c in VARIANTS if number % 2 == 0 else reversed(VARIANTS):
                what = f"{part}, {value_bytes} bytes, {variant}"
                report.progress(what)
                engine = {"engine": "rocksdb"} if c is None else {"engine": "ebbtide", "scaling_ratio": c}
                done = programs.figures("garnering", what, part=part, operations=options.operations, **engine, **settings_of(part, value_bytes, options))
                for figure in done:
                    result.add(part=part, value_bytes=value_bytes, variant=variant, **figure)


# --- output


def depth(figure):
    return sum(1 for level, *_ in figure["levels"] if level > 0)


def middle(runs):
    """Returns the median of each key over dictionaries, nested ones included."""
    return {key: middle([run[key] for run in runs]) if isinstance(value, dict) else value for key, value in report.median_of(runs).items()}


def medians(figures, **wanted):
    """Returns {variant: medians over the rounds} of the figures whose settings are equal to `wanted`."""
    found = {}
    for one in figures:
        if all(one.get(key) == value for key, value in wanted.items()):
            found.setdefault(one["variant"], []).append(one)
    return {variant: middle(found[variant]) for variant, _ in VARIANTS if variant in found}


def ratio(values, variant, other, rate=True):
    if variant not in values or not values.get(other) or not values[variant]:
        return None
    return values[variant] / values[other] if rate else values[other] / values[variant]


def show_loads(figures, part, value_bytes):
    rows = []
    loads = medians(figures, part=part, value_bytes=value_bytes, what="load")
    rates = {variant: one["per_second"] for variant, one in loads.items()}
    for variant, one in loads.items():
        entry = 16 + value_bytes
        rows.append([variant, f"{one['per_second']:,.0f}", report.cell(ratio(rates, variant, "c = 1")), report.cell(ratio(rates, variant, "rocksdb")),
                     f"{one['at_rest_per_second']:,.0f}", f"{one['put']['p99_us']:,.1f}", f"{one['put']['p999_us']:,.1f}", depth(one),
                     f"{one['table_bytes'] / one['entries'] / entry:.4f}", f"{one['written_bytes'] / one['entries'] / entry:.2f}"])  # fmt: skip
    print(f"\n{part}, load, {value_bytes} bytes")
    print(report.table(rows, ["", "/s", "to c = 1", "to rocksdb", "at rest /s", "p99 us", "p99.9 us", "L", "space", "written"]))


def show_reads(figures, value_bytes):
    rows = []
    for what in READS:
        found = medians(figures, part="db_bench", value_bytes=value_bytes, what=what)
        means = {variant: one["latency"]["mean_us"] for variant, one in found.items()}
        for variant, one in found.items():
            latency = one["latency"]
            cpu = {other: figure["cpu_ns"] for other, figure in found.items()}
            rows.append([f"{what}, {variant}", f"{latency['mean_us']:.2f}", report.cell(ratio(means, variant, "c = 1", rate=False)),
                         report.cell(ratio(means, variant, "rocksdb", rate=False)), f"{latency['p50_us']:.2f}", f"{latency['p99_us']:.2f}",
                         f"{one['cpu_ns']:,.0f}", report.cell(ratio(cpu, variant, "c = 1", rate=False)), f"{one['pages']:.2f}" if "read" in what else "-",
                         depth(one)])  # fmt: skip
    print(f"\ndb_bench, {value_bytes} bytes, no filters")
    print(report.table(rows, ["", "mean us", "to c = 1", "to rocksdb", "p50 us", "p99 us", "cpu ns", "to c = 1", "pages", "L"]))


def show_ycsb(figures):
    rows, tails = [], []
    for workload in "ABCDEF":
        found = medians(figures, part="ycsb", what="ycsb", workload=workload)
        rates = {variant: one["per_second"] for variant, one in found.items()}
        for variant, one in found.items():
            rows.append([f"{workload}, {variant}", f"{one['per_second']:,.0f}", report.cell(ratio(rates, variant, "c = 1")),
                         report.cell(ratio(rates, variant, "rocksdb")), f"{one['cpu_ns']:,.0f}", depth(one)])  # fmt: skip
        for kind, label in KINDS:
            for variant, one in found.items():
                if kind in one:
                    cells = [one[kind][field] for field in ("mean_us", "p50_us", "p95_us", "p99_us", "p999_us", "max_us")]
                    tails.append([f"{workload}, {label}, {variant}", *(f"{cell:,.1f}" for cell in cells)])
    print("\nYCSB, operations")
    print(report.table(rows, ["", "/s", "to c = 1", "to rocksdb", "cpu ns", "L"]))
    print("\nYCSB, latencies in us")
    print(report.table(tails, ["", "mean", "p50", "p95", "p99", "p99.9", "max"]))


def judge(figures, result):
    for what in ("read", "seek"):
        found = medians(figures, part="db_bench", value_bytes=50, what=what)
        means = {variant: one["latency"]["mean_us"] for variant, one in found.items()}
        for other in ("c = 1", "rocksdb"):
            if other in means and "c = 0.8" in means:
                result.target(f"{what}, T = 2, c = 0.8: latency to {other}", means["c = 0.8"] / means[other], 0.81)
    reads = {variant: one["per_second"] for variant, one in medians(figures, part="ycsb", what="ycsb", workload="C").items()}
    loads = medians(figures, part="ycsb", what="load")
    rates = {variant: one["per_second"] for variant, one in loads.items()}
    for other in ("c = 1", "rocksdb"):
        if {other, "c = 0.4"} <= set(reads):
            result.target(f"YCSB C, T = 5, c = 0.4: rate to {other}", ratio(reads, "c = 0.4", other), 1.24, at_most=False)
            result.target(f"YCSB load, T = 5, c = 0.4: rate to {other}", ratio(rates, "c = 0.4", other), 1.15, at_most=False)
    for variant in ("c = 0.8", "c = 0.4"):
        if {variant, "c = 1"} <= set(loads):
            space = {name: one["table_bytes"] / one["entries"] for name, one in loads.items()}
            result.target(f"YCSB load, {variant}: space to c = 1", space[variant] / space["c = 1"], 1.003)


def plot(figures, options, path):
    if any(one["part"] == "db_bench" for one in figures):
        panel = plots.Panel("mean latency, us", joined=False, ticks=dict(enumerate(READS)))
        for at, what in enumerate(READS):
            for variant, one in medians(figures, part="db_bench", value_bytes=options.value_bytes[0], what=what).items():
                panel.lines.setdefault(variant, []).append((at, one["latency"]["mean_us"]))
        plots.draw(path.with_name(f"{path.name}-db_bench"), f"Reads without filters, T = 2, values of {options.value_bytes[0]} bytes", "", [panel])
    if any(one["part"] == "ycsb" for one in figures):
        panel = plots.Panel("operations a second", joined=False, ticks=dict(enumerate("ABCDEF")))
        for at, workload in enumerate("ABCDEF"):
            for variant, one in medians(figures, part="ycsb", what="ycsb", workload=workload).items():
                panel.lines.setdefault(variant, []).append((at, one["per_second"]))
        plots.draw(path.with_name(f"{path.name}-ycsb"), "YCSB, T = 5, values of 1000 bytes", "", [panel])


def main():
    options = parse_arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    result = report.Result("garnering", options.json, vars(options), rocksdb=report.package_version("librocksdb-dev"))
    run_all(options, result)
    figures = result.figures
    for value_bytes in options.value_bytes:
        if options.only != "ycsb":
            show_loads(figures, "db_bench", value_bytes)
            show_reads(figures, value_bytes)
    if options.only != "db_bench":
        show_loads(figures, "ycsb", 1000)
        show_ycsb(figures)
    print()
    judge(figures, result)
    plot(figures, options, result.path.with_suffix(""))
    result.finish()


if __name__ == "__main__":
    main()
