"""Autumn (Zhao et al., 2023), section 4: fewer levels by Garnering, with c = 1 (leveling), 0.8 and 0.4, beside RocksDB.

    2   db_bench, T = 2, 2 million entries with values of 50 bytes (--full 50, 100, 200): a fill in random order, then point reads without
        filters, seeks and short scans
    3   the same by c and T: fill, and seeks with 10 steps
    4   YCSB, T = 5, 1 KB values: a load, then the workloads A to F; Table 3 has the latencies. RocksDB also runs with Garnering's
        capacities for c = 0.4 (max_bytes_for_level_multiplier_additional, whole numbers only): what the policy gains there.
    5   db_bench by the size of the database, with filters of 2 bits, Ebbtide's by Monkey

There is no compression, and the block cache is tiny, so that every level costs each read. Each variant runs in a process of its
own. Level 0 is emptied before each part, since its random number of runs would cost reads more than the compared levels do.

The columns "to c = 1" and "to rocksdb" are ratios of speed: a rate divided by the other variant's rate, or the other variant's
latency divided by this latency, so more than 1 is better. L is the number of levels below level 0 that have files.
"""

from common import headlines, plots, programs, report
from common.headlines import judged

FIGURES = ("2", "3", "4", "5")
CONTROL = "rocksdb, c = 0.4"
VARIANTS = {
    "rocksdb": {"engine": "rocksdb"},
    CONTROL: {"engine": "rocksdb", "multipliers": "6,3,1"},
    **{f"c = {c:g}": {"engine": "ebbtide", "scaling_ratio": c} for c in (1, 0.8, 0.6, 0.4)},
}
READS = ("read", "read absent", "seek", "seek and 10 next", "seek and 100 next")
KINDS = (("read", "read"), ("update", "update"), ("insert", "insert"), ("scan", "scan"), ("read_modify_write", "read-modify-write"))
# Latencies of Table 3: workload, kind, statistic, RocksDB, c = 0.8, c = 0.4.
TABLE_3 = (("A", "read", "mean", 157, 148, 140), ("A", "read", "p99", 640, 612, 536), ("C", "read", "mean", 149, 143, 117), ("C", "read", "p99", 595, 579, 459),
           ("E", "scan", "mean", 846, 822, 773), ("E", "scan", "p99", 2229, 2141, 2006))  # fmt: skip


class Bench:
    def __init__(self, options, result):
        self.options, self.result = options, result
        self.operations = report.sized(options, quick=20_000, default=100_000, full=1_000_000)

    def measure(self, figure, variant, part, entries, memtable, **setup):
        """Runs one variant and stores its figures. Memtables are in proportion to the paper's data, so that the levels are the same."""
        what = f"{figure}, {variant}" + "".join(f", {name.replace('_', ' ')} {value}" for name, value in setup.items())
        report.progress(what)
        done = programs.figures("garnering", what, part=part, operations=self.operations, entries=entries, memtable=max(memtable, 64 << 10), **VARIANTS[variant], **setup)
        for one in done:
            self.result.add(figure=figure, variant=variant, loaded=entries, **setup, **one)

    def of(self, figure, **wanted):
        """Returns {variant: figures} of one kind."""
        return {one["variant"]: one for one in self.result.figures if one.get("figure") == figure and all(one.get(name) == value for name, value in wanted.items())}


def run(options, result):
    bench = Bench(options, result)
    parts = {"2": micro, "3": grid, "4": ycsb, "5": sizes}
    found = [one for name, part in parts.items() if options.only in (None, name) for one in part(bench)]
    print()
    headlines.show(found, result)


def draw(bench, figure, title, x_label, *panels):
    plots.draw(bench.result.path.with_name(f"{bench.result.path.stem}-{figure}"), f"Autumn, Figure {figure}: {title}", x_label, list(panels))


# --- Figure 2


def micro(bench):
    entries = report.sized(bench.options, quick=200_000, default=2_000_000, full=2_000_000)
    values = report.sized(bench.options, quick=[50], default=[50], full=[50, 100, 200])
    variants = ("rocksdb", "c = 1", "c = 0.8", "c = 0.4")
    for size in values:
        for variant in variants:
            bench.measure("2", variant, "db_bench", entries, entries * (2 << 20) // 2_000_000, size_ratio=2, value_bytes=size)
        show_loads(bench.of("2", what="load", value_bytes=size), f"Figure 2: fill, values of {size} bytes", 16 + size)
        show_reads(bench, size)
    panel = plots.Panel("mean latency, us", joined=False, ticks=dict(enumerate(READS)))
    for variant in variants:
        panel.lines[variant] = [(at, bench.of("2", what=what, value_bytes=values[0])[variant]["latency"]["mean_us"]) for at, what in enumerate(READS)]
    draw(bench, "2", f"reads without filters, T = 2, values of {values[0]} bytes", "", panel)
    means = {what: {variant: one["latency"]["mean_us"] for variant, one in bench.of("2", what=what, value_bytes=values[0]).items()} for what in READS}
    for what, label, paper in (("read", "point read", 0.81), ("seek", "seek", 0.81), ("seek and 10 next", "seek and 10 next", 0.91), ("seek and 100 next", "seek and 100 next", 0.95)):
        for other in ("rocksdb", "c = 1"):
            ours = means[what]["c = 0.8"] / means[what][other]
            yield judged(f"{label}, c = 0.8: latency / {other}'s", "4.2, Fig. 2", paper, ours, ours <= paper * 1.02, "")
    rates = {variant: one["per_second"] for variant, one in bench.of("2", what="load", value_bytes=values[0]).items()}
    ours = rates["c = 0.8"] / rates["c = 1"]
    yield judged("random fill, c = 0.8: rate / that of c = 1", "4.2, Fig. 2a: alike", 1, ours, ours >= 0.95, "")


# --- Figure 3


def grid(bench):
    entries = report.sized(bench.options, quick=50_000, default=1_000_000, full=16_000_000)
    reads, writes = plots.Panel("seek and 10 next, mean us"), plots.Panel("bytes written by the fill, to entries")
    for ratio in (3, 5):
        for variant in ("c = 1", "c = 0.8", "c = 0.6", "c = 0.4"):
            bench.measure("3", variant, "scans", entries, entries * (1 << 20) // 1_000_000, size_ratio=ratio, value_bytes=100)
        scans, loads = bench.of("3", what="seek and 10 next", size_ratio=ratio), bench.of("3", what="load", size_ratio=ratio)
        reads.lines[f"T = {ratio}"] = [(float(variant[4:]), one["latency"]["mean_us"]) for variant, one in scans.items()]
        writes.lines[f"T = {ratio}"] = [(float(variant[4:]), one["written_bytes"] / one["entries"] / 116) for variant, one in loads.items()]
        levels = ", ".join(f"{variant}: {depth(one)}" for variant, one in scans.items())
        ours = scans["c = 0.4"]["latency"]["mean_us"] / scans["c = 1"]["latency"]["mean_us"]
        yield judged(f"T = {ratio}: short scans, c = 0.4 / c = 1 (smaller c reads faster)", "4.2.2, Fig. 3b", None, ours, ours < 1, f"levels {levels}")
        written = dict(writes.lines[f"T = {ratio}"])
        yield judged(f"T = {ratio}: bytes written, c = 0.4 / c = 1 (smaller c writes more)", "4.2.2, Fig. 3a", None, written[0.4] / written[1], written[0.4] > written[1], f"levels {levels}")
    draw(bench, "3", "by c and T", "c", reads, writes)


# --- Figure 4 and Table 3


def ycsb(bench):
    entries = report.sized(bench.options, quick=50_000, default=400_000, full=10_000_000)
    variants = ("rocksdb", CONTROL, "c = 1", "c = 0.8", "c = 0.4")
    for variant in variants:
        bench.measure("4", variant, "ycsb", entries, entries * (1 << 20) // 1_000_000, size_ratio=5, value_bytes=1000)
    loads = bench.of("4", what="load")
    show_loads(loads, "Figure 4: load", 1016)
    show_ycsb(bench)
    panel = plots.Panel("operations a second", joined=False, ticks=dict(enumerate("ABCDEF")))
    for variant in variants:
        panel.lines[variant] = [(at, bench.of("4", what="ycsb", workload=workload)[variant]["per_second"]) for at, workload in enumerate("ABCDEF")]
    draw(bench, "4", "YCSB, T = 5, values of 1000 bytes", "", panel)

    rates = {variant: one["per_second"] for variant, one in loads.items()}
    control = f"RocksDB with these capacities: {rates[CONTROL] / rates['rocksdb']:.2f} of its own rate"
    for other in ("rocksdb", "c = 1"):
        ours = rates["c = 0.4"] / rates[other]
        yield judged(f"load, c = 0.4: rate / {other}'s", "4.3, Fig. 4", 1.15, ours, ours >= 1.15, control)
    ours = rates[CONTROL] / rates["rocksdb"]
    yield judged("control, load: RocksDB with the capacities of c = 0.4 / with its own", "4.3, Fig. 4", 1.15, ours, ours >= 1.15, "fewer levels do not save writes here")
    for workload, variant, paper in (("C", "c = 0.4", 1.24), ("C", "c = 0.8", 1.04), ("D", "c = 0.4", 1.2)):
        by_variant = bench.of("4", what="ycsb", workload=workload)
        for other in ("rocksdb", "c = 1"):
            ours = by_variant[variant]["per_second"] / by_variant[other]["per_second"]
            yield judged(f"YCSB {workload}, {variant}: rate / {other}'s", "4.3, Fig. 4", paper, ours, ours >= paper * 0.98, "")
    ratios = {workload: found["c = 0.8"]["per_second"] / found["c = 1"]["per_second"] for workload in "ABCDEF" for found in (bench.of("4", what="ycsb", workload=workload),)}
    worst = min(ratios, key=ratios.get)
    said = ", ".join(f"{workload} {ours:.2f}" for workload, ours in ratios.items())
    yield judged(f"YCSB A to F, c = 0.8: worst rate / that of c = 1 ({worst})", "4.3, on a par or better", 1, ratios[worst], ratios[worst] >= 0.97, said)
    for workload, kind, part, rocksdb, _, small in TABLE_3:
        found = bench.of("4", what="ycsb", workload=workload)
        ours = found["c = 0.4"][kind][f"{part}_us"] / found["rocksdb"][kind][f"{part}_us"]
        yield judged(f"YCSB {workload}, {kind} {part}, c = 0.4: latency / RocksDB's", "4.3, Table 3", small / rocksdb, ours, ours <= small / rocksdb * 1.02, "")
    space = {variant: one["table_bytes"] / one["entries"] for variant, one in loads.items()}
    ours = space["c = 0.4"] / space["c = 1"]
    yield judged("load, c = 0.4: space / that of c = 1", "4.3, at most 1.003", 1.003, ours, ours <= 1.003, "")


# --- Figure 5


def sizes(bench):
    counts = report.sized(bench.options, quick=[25_000, 50_000], default=[250_000, 500_000, 1_000_000], full=[130_000_000, 260_000_000, 520_000_000])
    panels = [plots.Panel(f"{what}, mean us") for what in ("read", "seek and 10 next")]
    for count in counts:
        for variant in ("rocksdb", "c = 0.8"):
            bench.measure("5", variant, "db_bench", count, counts[0] * (1 << 20) // 1_000_000, size_ratio=2, value_bytes=100, filter_bits=2, monkey=variant != "rocksdb")
    for panel, what in zip(panels, ("read", "seek and 10 next")):
        for variant in ("rocksdb", "c = 0.8"):
            panel.lines[variant] = [(count, bench.of("5", what=what, loaded=count)[variant]["latency"]["mean_us"]) for count in counts]
    draw(bench, "5", "by the size of the database, filters of 2 bits", "entries", *panels)
    found = bench.of("5", what="seek and 10 next", loaded=counts[-1])
    ours = found["rocksdb"]["latency"]["mean_us"] / found["c = 0.8"]["latency"]["mean_us"]
    yield judged("largest database: seek and 10 next, speed / RocksDB's", "4.3, Fig. 5", 1.42, ours, ours >= 1.42, "")
    found = bench.of("5", what="read", loaded=counts[-1])
    ours = found["c = 0.8"]["pages"] / found["rocksdb"]["pages"]
    yield judged("largest database, 2 bits by Monkey: pages of a point read / RocksDB's", "4.3, Fig. 5: fewer", None, ours, ours < 1, "")


# --- output


def depth(figure):
    return sum(1 for level, *_ in figure["levels"] if level > 0)


def ratio(values, variant, other, rate=True):
    if variant not in values or not values.get(other) or not values[variant]:
        return None
    return values[variant] / values[other] if rate else values[other] / values[variant]


def show_loads(loads, title, entry_bytes):
    rows = []
    rates = {variant: one["per_second"] for variant, one in loads.items()}
    for variant, one in loads.items():
        rows.append([variant, f"{one['per_second']:,.0f}", report.cell(ratio(rates, variant, "c = 1")), report.cell(ratio(rates, variant, "rocksdb")),
                     f"{one['at_rest_per_second']:,.0f}", f"{one['put']['p99_us']:,.1f}", f"{one['put']['p999_us']:,.1f}", f"{one['put']['max_us'] / 1000:,.0f}",
                     depth(one), f"{one['table_bytes'] / one['entries'] / entry_bytes:.4f}", f"{one['written_bytes'] / one['entries'] / entry_bytes:.2f}"])  # fmt: skip
    print(f"\n{title}")
    print(report.table(rows, ["", "/s", "to c = 1", "to rocksdb", "at rest /s", "p99 us", "p99.9 us", "max ms", "L", "space", "written"]))


def show_reads(bench, value_bytes):
    rows = []
    for what in READS:
        found = bench.of("2", what=what, value_bytes=value_bytes)
        means = {variant: one["latency"]["mean_us"] for variant, one in found.items()}
        for variant, one in found.items():
            latency = one["latency"]
            cpu = {other: figure["cpu_ns"] for other, figure in found.items()}
            rows.append([f"{what}, {variant}", f"{latency['mean_us']:.2f}", report.cell(ratio(means, variant, "c = 1", rate=False)),
                         report.cell(ratio(means, variant, "rocksdb", rate=False)), f"{latency['p50_us']:.2f}", f"{latency['p99_us']:.2f}",
                         f"{one['cpu_ns']:,.0f}", report.cell(ratio(cpu, variant, "c = 1", rate=False)), f"{one['pages']:.2f}" if "read" in what else "-",
                         depth(one)])  # fmt: skip
    print(f"\nFigure 2: values of {value_bytes} bytes, no filters")
    print(report.table(rows, ["", "mean us", "to c = 1", "to rocksdb", "p50 us", "p99 us", "cpu ns", "to c = 1", "pages", "L"]))


def show_ycsb(bench):
    rows, tails = [], []
    for workload in "ABCDEF":
        found = bench.of("4", what="ycsb", workload=workload)
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
