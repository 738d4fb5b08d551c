"""Measures whether deletes are purged on time and their cost: the engine beside RocksDB, as in Lethe's evaluation (section 5.1).

    ingest  Keys of 1 KB in random order at a fixed rate, into an empty database; --deletes percent of the writes delete an existing key.
            The delete deadlines are 16.7, 25 and 50 % of the run. At the end merges stop, and every version in every table is checked.
            Then lookups of inserted keys read from the disk; a tenth of the data is cached.
    mixed   The same, but half of the writes overwrite existing keys (--full).
    long    A run of fifteen deadlines: bytes written over time, relative to RocksDB (the paper's figure 6 F).
    cold    9 % of the keys of one half of a database at rest are deleted; then only the other half is written.
    empty   Every key of a database at rest is deleted; then nothing is written.

RocksDB runs twice: plain and at its best. At its best it has level_compaction_dynamic_level_bytes and CompactOnDeletionCollector
(half of 1024 neighbours, or a twentieth of a file). Its ttl and periodic_compaction_seconds are half the deadline, since its work
begins only when they are over. Both are whole seconds; with a run below 12 seconds they are rounded. Ebbtide runs with each
deadline and without a deadline. Both engines have memtables of 1 MiB, size ratio 10, level 0 of four runs, 10 bits a key, no
compression, two merge threads, and a log.

    space amp  bytes of all versions in tables, by bytes of the existing keys, less 1 (as in the paper)
    disk       bytes on the disk, by bytes of the existing keys
    written    bytes written by flushes and merges
    late       tombstones and values of deleted keys that were older than the deadline at the end; for plain RocksDB, and for Ebbtide
               without a deadline, older than each of the deadlines
    used       the largest part of its deadline that the oldest delete used, of sixty observations
"""

import argparse
import signal
import sys
from dataclasses import dataclass, field

from common import plots, programs, report

PARTS = ("ingest", "mixed", "long", "cold", "empty")
FRACTIONS = (1 / 6, 1 / 4, 1 / 2)
LONG_FRACTION = 1 / 15


@dataclass
class Variant:
    """An engine and its configuration. fraction: the deadline as a part of the run, or None."""

    name: str
    engine: str
    fraction: float = None
    options: dict = field(default_factory=dict)


PLAIN = Variant("rocksdb", "rocksdb")
WITHOUT = Variant("ebbtide, no deadline", "ebbtide")


def best(deadline, fraction):
    half = max(1, round(deadline / 2))
    options = {"ttl": half, "periodic": half, "collector": True, "dynamic_levels": True}
    return Variant(f"rocksdb, best for {percent(fraction)}", "rocksdb", fraction, options)


def ours(fraction):
    return Variant(f"ebbtide, {percent(fraction)}", "ebbtide", fraction)


def percent(fraction):
    return f"{fraction * 100:.3g} %"


def number_list(text):
    try:
        numbers = [float(word) for word in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}' is no list of numbers; lists look like 2,5,10") from None
    if not all(0 < number <= 40 for number in numbers):
        raise argparse.ArgumentTypeError(f"'{text}': percentages are above 0 and at most 40")
    return numbers


def parse_arguments():
    parser = argparse.ArgumentParser(prog="./dev bench deletes", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="six seconds a run: to check that everything works")
    size.add_argument("--full", action="store_true", help="1 GB a run as in the paper, three parts of deletes; under two hours")
    parser.add_argument("--only", choices=PARTS, action="append", help="parts to run; default all but mixed")
    parser.add_argument("--seconds", type=float, help="duration of an ingest; default 15, --full 120")
    parser.add_argument("--long-seconds", type=float, help="duration of the long run; default 30, --full 450")
    parser.add_argument("--watch", type=float, metavar="SECONDS", help="deadline in cold and empty; default 8, --full 60")
    parser.add_argument("--rate", type=int, default=8000, help="writes a second; default 8000")
    parser.add_argument("--hot-rate", type=int, default=1000, help="writes a second beside the cold half; default 1000")
    parser.add_argument("--deletes", type=number_list, metavar="PERCENT,...", help="percentages of the writes; default 10, --full 2,5,10")
    parser.add_argument("--entries", type=report.count, help="entries of the databases of cold and empty; default 64k, --full 500k")
    parser.add_argument("--reads", type=report.count, help="lookups at the end; default 20k, --full 200k")
    parser.add_argument("--json", default=str(report.ROOT / "build/bench/deletes.json"), help="file for the figures; plots go beside it")
    options = parser.parse_args()

    default = report.defaults_by_size(options)
    default("only", [part for part in PARTS if part != "mixed"], [part for part in PARTS if part != "mixed"], list(PARTS))
    default("seconds", 6, 15, 120)
    default("long_seconds", 15, 30, 450)
    default("watch", 4, 8, 60)
    default("deletes", [10], [10], [2, 5, 10])
    default("entries", 16_000, 64_000, 500_000)
    default("reads", 5_000, 20_000, 200_000)
    if min(options.seconds / 6, options.long_seconds / 15, options.watch) < 1:
        parser.error("the shortest deadline that Ebbtide takes is a second: --seconds from 6, --long-seconds from 15, --watch from 1")
    return options


def run(part, variant, options, result, **how):
    """Runs one engine once and adds its figures to the result."""
    what = f"{part}, {variant.name}" + (f", {how['deletes'] * 100:g} % deletes" if part in ("ingest", "mixed") else "")
    report.progress(what)
    figure = programs.figures("deletes", what, engine=variant.engine, reads=options.reads, **variant.options, **how)[0]
    result.add(part=part, variant=variant.name, engine=variant.engine, fraction=variant.fraction, asked=how, **figure)
    return result.figures[-1]


def run_ingest(part, deletes, updates, options, result):
    variants = [PLAIN, *(best(options.seconds * f, f) for f in FRACTIONS), WITHOUT, *(ours(f) for f in FRACTIONS)]
    for variant in variants:
        run(part, variant, options, result, scenario="ingest", seconds=options.seconds, rate=options.rate, deletes=deletes / 100, updates=updates,
            deadline=options.seconds * (variant.fraction or 0))  # fmt: skip


def run_long(options, result):
    for variant in (PLAIN, WITHOUT, ours(LONG_FRACTION)):
        run("long", variant, options, result, scenario="ingest", seconds=options.long_seconds, rate=options.rate, deletes=0.1,
            deadline=options.long_seconds * (variant.fraction or 0))  # fmt: skip


def run_watched(part, options, result):
    for variant in (PLAIN, best(options.watch, 1), ours(1)):
        run(part, variant, options, result, scenario=part, entries=options.entries, rate=options.hot_rate, deletes=0.09, deadline=options.watch)


# --- output


def of(figures, part, **wanted):
    """Returns the figures of a part whose settings are equal to `wanted`."""
    return [one for one in figures if one["part"] == part and all(one["asked"].get(name) == value for name, value in wanted.items())]


def late_after(figure, seconds):
    """Returns the number of tombstones that were older than `seconds` at the end."""
    return next((count for age, count in figure["tombstones_by_age"] if age >= seconds * (1 - 1e-6)), 0)


def written(figure):
    return figure["flushed_bytes"] + figure["merged_bytes"]


def late_cells(figure, fractions):
    """Returns a cell for each deadline: late tombstones and their share of all deletes, or a dash if the run had another
    deadline."""
    cells = []
    for fraction in fractions:
        own = figure["fraction"]
        if own is not None and own != fraction:
            cells.append("-")
            continue
        late = late_after(figure, figure["asked"]["seconds"] * fraction) if own is None else figure["tombstones_late"]
        cells.append(f"{late:,.0f} ({late / max(1, figure['deletes']):.0%})")
    return cells


def show_ingest(figures, title, fractions):
    plain = next(one for one in figures if one["variant"] == PLAIN.name)
    rows = []
    for one in figures:
        rows.append([
            one["variant"], f"{one['space_amplification']:.4f}", f"{one['table_bytes'] / one['live_bytes']:.3f}", f"{written(one) / 1e6:,.0f}",
            f"{written(one) / written(plain):.2f}", f"{one['reads_per_second']:,.0f}", f"{one['reads_per_second'] / plain['reads_per_second']:.2f}",
            f"{one['pages_per_read']:.2f}", f"{one['tombstones']:,}", *late_cells(one, fractions),
            f"{one['deleted_values_late']:,}" if one["fraction"] else "-", report.cell(one["deadline_used"]),
            f"{one['latency']['p99_ms']:.3f}", f"{one['latency']['max_ms']:.0f}", f"{one['cpu_seconds']:.1f}",
        ])  # fmt: skip
    heading = ["", "space amp", "disk", "written MB", "ratio", "reads/s", "ratio", "pages", "tombstones", *(f"older than {percent(f)}" for f in fractions),
               "late values", "used", "p99 ms", "max ms", "cpu s"]  # fmt: skip
    print(f"\n{title}")
    print(report.table(rows, heading))


def snapshots(figure, count=15):
    """Returns (seconds, bytes written until then) at the end of each deadline of a long run."""
    rows = figure["timeline"]
    points = []
    for number in range(1, count + 1):
        at = figure["asked"]["seconds"] * number / count
        row = min(rows, key=lambda one: abs(one[0] - at))
        points.append((at, row[1]))
    return points


def relative(figure, plain):
    return [(at, ours_ / theirs if theirs else None) for (at, ours_), (_, theirs) in zip(snapshots(figure), snapshots(plain))]


def show_long(figures):
    plain, without, deadline = (next(one for one in figures if one["variant"] == name) for name in (PLAIN.name, WITHOUT.name, ours(LONG_FRACTION).name))
    rows = []
    for index in (0, 2, 5, 8, 11, 14):
        at, _ = snapshots(plain)[index]
        rows.append([f"{at:.0f} s", *(f"{snapshots(one)[index][1] / 1e6:,.0f}" for one in figures), f"{relative(deadline, plain)[index][1]:.3f}",
                     f"{relative(deadline, without)[index][1]:.3f}"])  # fmt: skip
    print(f"\nLong run, 10 % deletes, deadline {figures[0]['asked']['seconds'] / 15:g} s: MB written until then")
    print(report.table(rows, ["after", *(one["variant"] for one in figures), "to rocksdb", "to no deadline"]))


def clean_at(figure, column):
    """Returns the seconds after the last delete from which a column of the time line stays 0, or None if it never does."""
    rows = figure["timeline"]
    dirty = max((index for index, row in enumerate(rows) if row[column] > 0), default=-1)
    return rows[dirty + 1][0] if dirty + 1 < len(rows) else None


def show_watched(part, figures, options):
    rows = []
    for one in figures:
        first = one["timeline"][0]
        rows.append([
            one["variant"].split(",")[0] + (", best" if "best" in one["variant"] else ""), f"{one['deletes']:,}", f"{first[3]:,.0f}", f"{one['tombstones']:,}",
            report.cell(clean_at(one, 3), ".1f"), f"{one['tombstones_late']:,}", f"{one['deleted_values_late']:,}", f"{first[2] / 1e6:,.1f}",
            f"{one['table_bytes'] / 1e6:,.1f}", f"{one['live_bytes'] / 1e6:,.1f}",
        ])  # fmt: skip
    what = "Cold half with 9 % deleted, the other half written to" if part == "cold" else "All keys deleted, then nothing"
    print(f"\n{what}; deadline {options.watch:g} s, checked after {1.25 * options.watch:g} s")
    print(report.table(rows, ["", "deletes", "tombstones at first", "at the end", "none after s", "late", "late values", "MB at first", "at the end", "live"]))


def show(result, options):
    figures = result.figures
    for part, title in (("ingest", "inserts and deletes"), ("mixed", "half of the writes overwrite")):
        for deletes in sorted({one["asked"]["deletes"] for one in of(figures, part)}):
            show_ingest(of(figures, part, deletes=deletes), f"{title}: {deletes * 100:g} % deletes, {options.seconds:g} s at {options.rate:,}/s", FRACTIONS)
    if of(figures, "long"):
        show_long(of(figures, "long"))
    for part in ("cold", "empty"):
        if of(figures, part):
            show_watched(part, of(figures, part), options)


def judge(result):
    figures = result.figures
    for part in ("ingest", "mixed"):
        for one in of(figures, part):
            if one["engine"] != "ebbtide" or one["fraction"] is None:
                continue
            plain = next(other for other in of(figures, part, deletes=one["asked"]["deletes"]) if other["variant"] == PLAIN.name)
            name = f"{part}, {one['asked']['deletes'] * 100:g} % deletes, {percent(one['fraction'])}"
            space = plain["space_amplification"] / max(one["space_amplification"], 1e-9)
            result.target(f"{name}: space amplification of rocksdb to ebbtide's", space, 2.1, at_most=False)
            result.target(f"{name}: reads per second to rocksdb's", one["reads_per_second"] / plain["reads_per_second"], 1.17, at_most=False)
            result.target(f"{name}: bytes written to rocksdb's", written(one) / written(plain), 1.25)
            result.target(f"{name}: tombstones and values past the deadline", one["tombstones_late"] + one["deleted_values_late"], 0)
    long = of(figures, "long")
    if long:
        plain, _, one = long
        result.target("long: bytes written to rocksdb's", written(one) / written(plain), 1.01)
    for part in ("cold", "empty"):
        for one in of(figures, part):
            if one["engine"] == "ebbtide":
                result.target(f"{part}: tombstones and values past the deadline", one["tombstones_late"] + one["deleted_values_late"], 0)
                if part == "empty":
                    result.target("empty: MB of tables after the deadline", one["table_bytes"] / 1e6, 0.1)


def plot(result):
    figures, base = result.figures, result.path.with_suffix("")
    beside = lambda name: base.with_name(f"{base.name}-{name}")  # noqa: E731
    ingest = of(figures, "ingest")
    if ingest:
        panels = {"space amplification": [], "written, to rocksdb": [], "reads/s, to rocksdb": [], "p99 of a write, ms": []}
        drawn = {name: plots.Panel(name) for name in panels}
        drawn["written, to rocksdb"].limit = 1.25
        for one in ingest:
            at = one["asked"]["deletes"] * 100
            plain = next(other for other in of(figures, "ingest", deletes=one["asked"]["deletes"]) if other["variant"] == PLAIN.name)
            for name, value in (("space amplification", one["space_amplification"]), ("written, to rocksdb", written(one) / written(plain)),
                                ("reads/s, to rocksdb", one["reads_per_second"] / plain["reads_per_second"]), ("p99 of a write, ms", one["latency"]["p99_ms"])):  # fmt: skip
                drawn[name].lines.setdefault(one["variant"], []).append((at, value))
        plots.draw(base, "Deletes on time", "deletes, % of writes", list(drawn.values()))
        most = [one for one in ingest if one["asked"]["deletes"] == max(other["asked"]["deletes"] for other in ingest)]
        ages = plots.Panel("tombstones of that age or older")
        for one in most:
            ages.lines[one["variant"]] = [(100 * age / one["asked"]["seconds"], count) for age, count in one["tombstones_by_age"]]
        plots.draw(beside("ages"), "Age of tombstones at the end", "age, % of the run", [ages])
    long = of(figures, "long")
    if long:
        panel = plots.Panel("bytes written, to rocksdb", limit=1)
        for one in long[1:]:
            panel.lines[one["variant"]] = relative(one, long[0])
        plots.draw(beside("long"), "Bytes written over fifteen deadlines", "seconds", [panel])
    for part, label, column, scale in (("cold", "tombstones", 3, 1), ("empty", "MB of tables", 2, 1e6)):
        if of(figures, part):
            panel = plots.Panel(label)
            for one in of(figures, part):
                panel.lines[one["variant"]] = [(row[0], row[column] / scale) for row in one["timeline"]]
            plots.draw(beside(part), "Cold data" if part == "cold" else "Everything deleted", "seconds after the deletes", [panel])


def main():
    options = parse_arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    result = report.Result("deletes", options.json, vars(options), rocksdb=report.package_version("librocksdb-dev"))
    if "ingest" in options.only:
        for deletes in options.deletes:
            run_ingest("ingest", deletes, 0, options, result)
    if "mixed" in options.only:
        run_ingest("mixed", max(options.deletes), 0.5, options, result)
    if "long" in options.only:
        run_long(options, result)
    for part in ("cold", "empty"):
        if part in options.only:
            run_watched(part, options, result)
    show(result, options)
    print()
    judge(result)
    plot(result)
    result.finish()


if __name__ == "__main__":
    main()
