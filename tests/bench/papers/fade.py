"""Deletes on time (Lethe, section 5.1): whether deletes are purged on time, and their cost, beside RocksDB.

    6A  Lethe's mix: half of the writes overwrite, some delete (10 %; --full 2, 5 and 10 %), keys of 1 KB at a fixed rate, 1 GB of writes.
        Deadlines are 16.7, 25 and 50 % of the run. At the end merges stop, and every version in every table is checked. Then lookups of
        inserted keys read from the disk; a tenth of the data is cached. Figures 6 A to E.
    6F  the same mix for fifteen deadlines: bytes written over time
    cold   9 % of the keys of one half of a database at rest are deleted; then only the other half is written
    empty  every key of a database at rest is deleted; then nothing is written

RocksDB runs plain and, in 6A with the shortest deadline, at its best: level_compaction_dynamic_level_bytes, CompactOnDeletionCollector
(half of 1024 neighbours, or a twentieth of a file), ttl and periodic_compaction_seconds of half the deadline. Ebbtide runs with each
deadline and without a deadline. Both engines have memtables of 1 MiB, size ratio 10, level 0 of four runs, 10 bits a key, no
compression, two merge threads, and a log.

    space amp  bytes of all versions in tables, by bytes of the existing keys, less 1 (as in the paper)
    written    bytes written by flushes and merges
    late       tombstones and values of deleted keys that were older than the deadline at the end; for plain RocksDB, and for Ebbtide
               without a deadline, older than each of the deadlines
    used       the largest part of its deadline that the oldest delete used, of sixty observations
"""

from dataclasses import dataclass, field

from common import plots, programs, report
from common.headlines import judged

PARTS = ("6A", "6F", "cold", "empty")
FRACTIONS = (1 / 6, 1 / 4, 1 / 2)
LONG_FRACTION = 1 / 15
RATE = 12_000  # writes a second
HOT_RATE = 1_000  # beside the cold half


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
    return Variant(f"rocksdb, best for {percent(fraction)}", "rocksdb", fraction, {"ttl": half, "periodic": half, "collector": True, "dynamic_levels": True})


def ours(fraction):
    return Variant(f"ebbtide, {percent(fraction)}", "ebbtide", fraction)


def percent(fraction):
    return f"{fraction * 100:.3g} %"


class Sizes:
    def __init__(self, options):
        self.seconds = report.sized(options, quick=6, default=85, full=85)
        self.long_seconds = report.sized(options, quick=15, default=120, full=900)
        self.watch = report.sized(options, quick=4, default=8, full=60)
        self.deletes = report.sized(options, quick=[10], default=[10], full=[2, 5, 10])
        self.entries = report.sized(options, quick=16_000, default=64_000, full=500_000)
        self.reads = report.sized(options, quick=5_000, default=20_000, full=200_000)
        self.rate = report.sized(options, quick=4_000, default=RATE, full=RATE)


def run(wanted, options, result):
    """Runs these parts, shows their tables, and returns the headlines."""
    sizes, found = Sizes(options), []
    if "6A" in wanted:
        for deletes in sizes.deletes:
            found += mixed(deletes, sizes, result)
        draw_mixed(result)
    if "6F" in wanted:
        found += long_run(sizes, result)
    for part in ("cold", "empty"):
        if part in wanted:
            found += watched(part, sizes, result)
    return found


def measure(part, variant, sizes, result, **how):
    """Runs one engine once and adds its figures to the result."""
    what = f"{part}, {variant.name}" + (f", {how['deletes'] * 100:g} % deletes" if part == "6A" else "")
    report.progress(what)
    (figure,) = programs.figures("deletes", what, engine=variant.engine, reads=sizes.reads, **variant.options, **how)
    result.add(part=part, variant=variant.name, engine=variant.engine, fraction=variant.fraction, asked=how, **figure)
    return result.figures[-1]


def of(result, part, **wanted):
    """Returns the figures of a part whose settings are equal to `wanted`."""
    return [one for one in result.figures if one.get("part") == part and all(one["asked"].get(name) == value for name, value in wanted.items())]


# --- Figures 6 A to E


def mixed(deletes, sizes, result):
    for variant in (PLAIN, best(sizes.seconds * FRACTIONS[0], FRACTIONS[0]), WITHOUT, *map(ours, FRACTIONS)):
        measure("6A", variant, sizes, result, scenario="ingest", seconds=sizes.seconds, rate=sizes.rate, deletes=deletes / 100, updates=0.5,
                deadline=sizes.seconds * (variant.fraction or 0))  # fmt: skip
    figures = of(result, "6A", deletes=deletes / 100)
    show_mixed(figures, f"Half of the writes overwrite, {deletes} % delete: {sizes.seconds:g} s at {sizes.rate:,}/s")
    plain = figures[0]
    for one in (one for one in figures if one["engine"] == "ebbtide" and one["fraction"]):
        half = one["fraction"] == FRACTIONS[-1]
        name = f"{deletes} % deletes, deadline {percent(one['fraction'])}"
        value = plain["space_amplification"] / max(one["space_amplification"], 1e-9)
        paper = 1.92 if half else 2.1
        yield judged(f"{name}: space amplification of RocksDB / ours", "6 A", paper, value, value >= paper, "most garbage is overwritten versions, which no deadline concerns")
        if half:
            value = one["merges"] / plain["merges"]
            yield judged(f"{name}: merges / RocksDB's", "6 B", 0.55, value, value <= 0.55, "a merge is a job here, of any size")
        value, paper = written(one) / written(plain), 1.045 if half else 1.25
        yield judged(f"{name}: bytes written / RocksDB's", "6 C", paper, value, value <= paper, f"without a deadline: {written(figures[2]) / written(plain):.3f}")
        value = plain["pages_per_read"] / one["pages_per_read"]
        yield judged(f"{name}: pages a lookup reads, RocksDB's / ours", "6 D, reads/s", 1.17, value, value >= 1.17, "both read few pages that hold no key")
        late = one["tombstones_late"] + one["deleted_values_late"]
        yield judged(f"{name}: deletes past the deadline", "6 E", 0, late, late == 0, "")


def late_after(figure, seconds):
    """Returns the number of tombstones that were older than `seconds` at the end."""
    return next((count for age, count in figure["tombstones_by_age"] if age >= seconds * (1 - 1e-6)), 0)


def written(figure):
    return figure["flushed_bytes"] + figure["merged_bytes"]


def late_cells(figure):
    """Returns a cell for each deadline: late tombstones and their share of all deletes, or a dash if the run had another
    deadline."""
    cells = []
    for fraction in FRACTIONS:
        own = figure["fraction"]
        if own is not None and own != fraction:
            cells.append("-")
            continue
        late = late_after(figure, figure["asked"]["seconds"] * fraction) if own is None else figure["tombstones_late"]
        cells.append(f"{late:,.0f} ({late / max(1, figure['deletes']):.0%})")
    return cells


def show_mixed(figures, title):
    plain, rows = figures[0], []
    for one in figures:
        rows.append([
            one["variant"], f"{one['space_amplification']:.4f}", f"{one['table_bytes'] / one['live_bytes']:.3f}", f"{written(one) / 1e6:,.0f}",
            f"{written(one) / written(plain):.2f}", f"{one['merges']:,}", f"{one['reads_per_second']:,.0f}", f"{one['pages_per_read']:.2f}",
            f"{one['tombstones']:,}", *late_cells(one), f"{one['deleted_values_late']:,}" if one["fraction"] else "-", report.cell(one["deadline_used"]),
            f"{one['latency']['p99_ms']:.3f}", f"{one['latency']['max_ms']:.0f}", f"{one['cpu_seconds']:.1f}",
        ])  # fmt: skip
    heading = ["", "space amp", "disk", "written MB", "ratio", "merges", "reads/s", "pages", "tombstones", *(f"older than {percent(f)}" for f in FRACTIONS),
               "late values", "used", "p99 ms", "max ms", "cpu s"]  # fmt: skip
    print(f"\n{title}")
    print(report.table(rows, heading))


def draw_mixed(result):
    figures = of(result, "6A")
    panels = {name: plots.Panel(name) for name in ("space amplification", "written, to rocksdb", "pages a lookup")}
    for one in figures:
        at = one["asked"]["deletes"] * 100
        plain = of(result, "6A", deletes=one["asked"]["deletes"])[0]
        for name, value in zip(panels, (one["space_amplification"], written(one) / written(plain), one["pages_per_read"])):
            panels[name].lines.setdefault(one["variant"], []).append((at, value))
    draw(result, "6A", "Deletes on time", "deletes, % of writes", *panels.values())
    ages = plots.Panel("tombstones of that age or older")
    for one in of(result, "6A", deletes=max(one["asked"]["deletes"] for one in figures)):
        ages.lines[one["variant"]] = [(100 * age / one["asked"]["seconds"], count) for age, count in one["tombstones_by_age"]]
    draw(result, "6E", "Age of tombstones at the end", "age, % of the run", ages)


# --- Figure 6 F


def long_run(sizes, result):
    deadline = sizes.long_seconds * LONG_FRACTION
    for variant in (PLAIN, WITHOUT, ours(LONG_FRACTION)):
        measure("6F", variant, sizes, result, scenario="ingest", seconds=sizes.long_seconds, rate=sizes.rate, deletes=0.1, updates=0.5,
                deadline=deadline if variant.fraction else 0)  # fmt: skip
    plain, without, timely = figures = of(result, "6F")
    rows = []
    for index in (0, 2, 5, 8, 11, 14):
        at, _ = snapshots(plain)[index]
        rows.append([f"{at:.0f} s", *(f"{snapshots(one)[index][1] / 1e6:,.0f}" for one in figures), f"{relative(timely, plain)[index][1]:.3f}",
                     f"{relative(timely, without)[index][1]:.3f}"])  # fmt: skip
    print(f"\nFifteen deadlines of {deadline:g} s, half of the writes overwrite, 10 % delete: MB written until then")
    print(report.table(rows, ["after", *(one["variant"] for one in figures), "to rocksdb", "to no deadline"]))
    panel = plots.Panel("bytes written, to rocksdb", limit=1)
    panel.lines = {one["variant"]: relative(one, plain) for one in (without, timely)}
    draw(result, "6F", "Bytes written over fifteen deadlines", "seconds", panel)
    # Within each deadline each file gets deletes, and about half of the live data has to be rewritten for them.
    floor = 15 / 2 * timely["live_bytes"]
    why = f"the floor of what deadlines rewrite, half of the live bytes in each, is {floor / 1e6:,.0f} MB of {written(plain) / 1e6:,.0f} MB"
    value = written(timely) / written(plain)
    yield judged("long run: bytes written / RocksDB's", "6 F", 1.007, value, value <= 1.01, why)
    value = written(timely) / written(without)
    yield judged("long run: bytes written / without a deadline", "6 F", 1.007, value, value <= 1.01, why)


def snapshots(figure, count=15):
    """Returns (seconds, bytes written until then) at the end of each deadline of a long run."""
    points = []
    for number in range(1, count + 1):
        at = figure["asked"]["seconds"] * number / count
        row = min(figure["timeline"], key=lambda one: abs(one[0] - at))
        points.append((at, row[1]))
    return points


def relative(figure, plain):
    return [(at, mine / theirs if theirs else None) for (at, mine), (_, theirs) in zip(snapshots(figure), snapshots(plain))]


# --- cold data, and an emptied database


def watched(part, sizes, result):
    for variant in (PLAIN, best(sizes.watch, 1), ours(1)):
        measure(part, variant, sizes, result, scenario=part, entries=sizes.entries, rate=HOT_RATE, deletes=0.09, deadline=sizes.watch)
    figures = of(result, part)
    show_watched(part, figures, sizes)
    panel = plots.Panel("tombstones" if part == "cold" else "MB of tables")
    column, scale = (3, 1) if part == "cold" else (2, 1e6)
    panel.lines = {one["variant"]: [(row[0], row[column] / scale) for row in one["timeline"]] for one in figures}
    draw(result, part, "Cold data" if part == "cold" else "Everything deleted", "seconds after the deletes", panel)
    timely = figures[-1]
    late = timely["tombstones_late"] + timely["deleted_values_late"]
    yield judged(f"{part}: deletes past the deadline", "5.1, none", 0, late, late == 0, "")
    if part == "empty":
        left = timely["table_bytes"] / 1e6
        yield judged("empty: MB of tables after the deadline", "-", 0, left, left <= 0.1, "")


def clean_at(figure, column):
    """Returns the seconds after the last delete from which a column of the time line stays 0, or None if it never does."""
    rows = figure["timeline"]
    dirty = max((index for index, row in enumerate(rows) if row[column] > 0), default=-1)
    return rows[dirty + 1][0] if dirty + 1 < len(rows) else None


def show_watched(part, figures, sizes):
    rows = []
    for one in figures:
        first = one["timeline"][0]
        rows.append([
            one["variant"].split(",")[0] + (", best" if "best" in one["variant"] else ""), f"{one['deletes']:,}", f"{first[3]:,.0f}", f"{one['tombstones']:,}",
            report.cell(clean_at(one, 3), ".1f"), f"{one['tombstones_late']:,}", f"{one['deleted_values_late']:,}", f"{first[2] / 1e6:,.1f}",
            f"{one['table_bytes'] / 1e6:,.1f}", f"{one['live_bytes'] / 1e6:,.1f}",
        ])  # fmt: skip
    what = "Cold half with 9 % deleted, the other half written to" if part == "cold" else "All keys deleted, then nothing"
    print(f"\n{what}; deadline {sizes.watch:g} s, checked after {1.25 * sizes.watch:g} s")
    print(report.table(rows, ["", "deletes", "tombstones at first", "at the end", "none after s", "late", "late values", "MB at first", "at the end", "live"]))


def draw(result, figure, title, x_label, *panels):
    plots.draw(result.path.with_name(f"{result.path.stem}-{figure}"), title, x_label, list(panels))
