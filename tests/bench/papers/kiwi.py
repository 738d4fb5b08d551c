"""Deletes by a second key (Lethe, section 5.2): a part of a database is deleted by its stamp, here and in RocksDB.

For each layout, a database of 1 KB entries is built and comes to rest. Reads are timed on it, cached and from the disk. Then, on
a copy of its files for each selectivity, every entry with a stamp below a bound is deleted. All bytes that the process reads and
writes are counted until no file has any of these entries, and no table's metadata has their keys: then a purge ticket is done.

    ebbtide, h = N   a secondary range delete, purged at once; tiles of N pages (KiWi)
    rocksdb, filter  a compaction of everything with a filter that drops the deleted entries
    rocksdb, scan    a scan of everything, a delete for each key found, and a compaction of everything

Stamps follow the arrival of entries in random key order (uncorrelated), or the keys (correlated). "whole" and "in part" are pages
dropped without being read, and pages of which a part stays, as shares of all pages. "best to it" is the bytes read and written
by RocksDB's better way, divided by Ebbtide's.
"""

import math

from common import plots, programs, report
from common.headlines import judged

PARTS = ("6H", "6L")
SEVENTH = 1 / 7
STAMPS = {"6H": "uncorrelated", "6L": "correlated"}
READS = (("cached_hit", "cached hit"), ("cached_miss", "cached miss"), ("cached_scan_10", "cached, 10 in order"), ("cached_scan_1000", "cached, 1000"),
         ("cold_hit", "cold hit"), ("cold_miss", "cold miss"), ("cold_scan_10", "cold, 10 in order"), ("cold_scan_1000", "cold, 1000"))  # fmt: skip


class Sizes:
    def __init__(self, options):
        self.entries = report.sized(options, quick=32_000, default=512_000, full=4_000_000)
        self.pages_per_tile = report.sized(options, quick=[1, 8], default=[1, 4, 8, 16], full=[1, 2, 4, 8, 16, 32, 64])
        self.selectivity = report.sized(options, quick=[SEVENTH], default=[0.01, 0.05, SEVENTH, 0.5], full=[0.01, 0.05, SEVENTH, 0.25, 0.5])
        self.reads = report.sized(options, quick=20_000, default=100_000, full=500_000)
        self.cold_reads = report.sized(options, quick=2_000, default=10_000, full=50_000)


def run(wanted, options, result):
    """Runs these parts (6H: uncorrelated stamps, with the reads; 6L: correlated), shows their tables, and returns the headlines."""
    sizes, found = Sizes(options), []
    for part in wanted:
        stamps = STAMPS[part]
        for engine, h in (*(("ebbtide", h) for h in sizes.pages_per_tile), ("rocksdb", 1)):
            measure(engine, h, stamps, sizes, result)
        show_deletes(result.figures, stamps, sizes)
        draw_deletes(result, stamps, sizes)
        found += seventh(result.figures, stamps)
        if part == "6H":
            show_reads(result.figures)
            draw_reads(result, sizes)
            found += (*dropped_whole(result.figures), *reads(result.figures), *best_layouts(result.figures, sizes), *whole_workload(result.figures, sizes))
    return found


def layout(engine, h):
    return "rocksdb" if engine == "rocksdb" else f"h = {h}"


def measure(engine, h, stamps, sizes, result):
    """Measures the reads of one database, and its deletes."""
    what = f"{stamps}, {layout(engine, h)}"
    report.progress(what)
    done = programs.figures("secondary_delete", what, engine=engine, entries=sizes.entries, pages_per_tile=h, correlated=stamps == "correlated",
                            selectivity=sizes.selectivity, reads=sizes.reads, cold_reads=sizes.cold_reads)  # fmt: skip
    for figure in done:
        result.add(part="kiwi", engine=engine, h=h, stamps=stamps, layout=layout(engine, h), **figure)


# --- output


def moved(figure):
    return figure["read_bytes"] + figure["written_bytes"]


def deletes_of(figures, stamps, selectivity):
    return [one for one in figures if one.get("what") == "delete" and one["stamps"] == stamps and math.isclose(one["selectivity"], selectivity, rel_tol=1e-6)]


def best_of_rocksdb(figures):
    return min((one for one in figures if one["engine"] == "rocksdb"), key=moved)


def pages_of(figure):
    """Returns the approximate number of pages of the tables. Tiles of several pages pad them to 4 KiB."""
    return max(1, figure["table_bytes"] / 4096)


def show_deletes(figures, stamps, sizes):
    for selectivity in sizes.selectivity:
        found = deletes_of(figures, stamps, selectivity)
        best = best_of_rocksdb(found)
        rows = []
        for one in found:
            ours = one["engine"] == "ebbtide"
            rows.append([
                f"ebbtide, {one['layout']}" if ours else f"rocksdb, {one['way']}",
                report.cell(100 * one["pages_whole"] / pages_of(one) if ours else None, ".1f"), report.cell(100 * one["pages_in_part"] / pages_of(one) if ours else None, ".1f"),
                f"{one['read_bytes'] / 1e6:,.1f}", f"{one['written_bytes'] / 1e6:,.1f}", f"{moved(one) / 1e6:,.1f}", f"{moved(best) / moved(one):.1f}",
                report.cell(one["rewritten_bytes"] / 1e6 if ours else None, ",.1f"), report.cell(one["logical_us"] if ours else None, ",.0f"),
                f"{one['seconds']:.2f}", f"{one['cpu_seconds']:.2f}", f"{one['table_bytes'] / 1e6:,.0f}", f"{one['table_bytes_after'] / 1e6:,.0f}",
            ])  # fmt: skip
        print(f"\n{stamps} stamps, {selectivity * 100:.3g} % of {sizes.entries:,} entries")
        print(report.table(rows, ["", "whole %", "in part %", "read MB", "written MB", "I/O MB", "best to it", "merged MB", "logical us", "s", "cpu s", "MB before", "after"]))


def reads_of(figures, name):
    """Returns {layout: figure} of one kind of read; those of uncorrelated stamps."""
    return {one["layout"]: one[name] for one in figures if one.get("what") == "reads" and one["stamps"] == "uncorrelated"}


def show_reads(figures):
    rows = []
    for name, label in READS:
        found = reads_of(figures, name)
        unit = "pages" if label.startswith("cold") else "cpu ns"
        rows.append([f"{label}, {unit}", *(f"{one['pages']:.3f}" if unit == "pages" else f"{one['cpu_ns']:,.0f}" for one in found.values())])
        rows.append([f"{label}, per second", *(f"{one['per_second']:,.0f}" for one in found.values())])
    print("\nReads before any delete")
    print(report.table(rows, ["", *reads_of(figures, "cached_hit")]))


# --- headlines


def seventh(figures, stamps):
    found = deletes_of(figures, stamps, SEVENTH)
    best = moved(best_of_rocksdb(found))
    for one in found:
        if one["engine"] == "ebbtide" and one["h"] >= 8:
            value = best / moved(one)
            why = "every page that the bound crosses is read, and what is left of it is written to the metadata"
            yield judged(f"{stamps}, a seventh, {one['layout']}: I/O of RocksDB's best / ours", "our bar", 10, value, value >= 10, why)


def whole_share(one):
    return one["pages_whole"] / pages_of(one)


def dropped_whole(figures):
    found = {one["h"]: whole_share(one) for one in deletes_of(figures, "uncorrelated", SEVENTH) if one["engine"] == "ebbtide"}
    most = max(found)
    yield judged(f"a seventh, pages dropped whole at h = {most} / at h = 1", "6 H, more with h", None, found[most] / max(found[1], 1e-9), sorted(found.values()) == list(found.values()), "")


def reads(figures):
    cold = {one["h"]: one["cold_hit"]["pages"] for one in figures if one.get("what") == "reads" and one["stamps"] == "uncorrelated" and one["engine"] == "ebbtide"}
    if 16 in cold:
        value = cold[16] - cold[1]
        yield judged("cold read: pages at h = 16 more than at h = 1", "6 I; our bar", 0.02, value, value <= 0.02, "a lookup asks the filter of each page of a tile")
        value = reads_of(figures, "cached_hit")["h = 16"]["cpu_ns"] / reads_of(figures, "cached_hit")["h = 1"]["cpu_ns"]
        yield judged("cached read: CPU at h = 16 / at h = 1", "our bar", 1.1, value, value <= 1.1, "")


def pages_of_workload(figures, sizes, one, lookups):
    """Returns the pages of I/O of a delete and so many lookups, on one layout."""
    return moved(one) / 4096 + lookups * reads_of(figures, "cold_hit")[one["layout"]]["pages"]


def best_layouts(figures, sizes):
    """The layout with the least I/O for a delete and 100,000 lookups, by selectivity."""
    best = {}
    for selectivity in sizes.selectivity:
        found = [one for one in deletes_of(figures, "uncorrelated", selectivity) if one["engine"] == "ebbtide"]
        best[selectivity] = min(found, key=lambda one: pages_of_workload(figures, sizes, one, 100_000))["h"]
    said = ", ".join(f"{selectivity * 100:.3g} %: {h}" for selectivity, h in best.items())
    if 0.05 in best:
        yield judged("best h at 5 % deleted, 100,000 lookups a delete", "6 J", 8, best[0.05], best[0.05] == 8, said)
        yield judged("best h at 1 % deleted", "6 J", 1, best[0.01], best[0.01] == 1, said)


def whole_workload(figures, sizes):
    """A lookup for each entry, and one delete of a seventh, as in the paper's day of 2^10 inserts a second."""
    found = deletes_of(figures, "uncorrelated", SEVENTH)
    theirs = pages_of_workload(figures, sizes, best_of_rocksdb(found), sizes.entries)
    for one in found:
        if one["engine"] == "ebbtide" and one["h"] == 8:
            value = 1 - pages_of_workload(figures, sizes, one, sizes.entries) / theirs
            lookups = sizes.entries * reads_of(figures, "cold_hit")["rocksdb"]["pages"] / theirs
            yield judged("a delete of a seventh and a lookup for each entry: I/O less than RocksDB's at h = 8", "6 K", 0.76, value, value >= 0.755, f"lookups are {lookups:.0%} of RocksDB's pages")


# --- plots


def draw_deletes(result, stamps, sizes):
    whole, moved_mb = plots.Panel("pages dropped whole, %"), plots.Panel("read and written, MB", log_y=True)
    for selectivity in sizes.selectivity:
        for one in deletes_of(result.figures, stamps, selectivity):
            name = f"ebbtide, {one['layout']}" if one["engine"] == "ebbtide" else f"rocksdb, {one['way']}"
            moved_mb.lines.setdefault(name, []).append((selectivity * 100, moved(one) / 1e6))
            if one["engine"] == "ebbtide":
                whole.lines.setdefault(name, []).append((selectivity * 100, 100 * whole_share(one)))
    plots.draw(result.path.with_name(f"{result.path.stem}-{'6H' if stamps == 'uncorrelated' else '6L'}"), f"Deletes by stamp, {stamps}", "selectivity, %", [whole, moved_mb])


def draw_reads(result, sizes):
    hit, pages = plots.Panel("cached hit, CPU ns"), plots.Panel("pages read by a cold hit")
    for panel, name, part in ((hit, "cached_hit", "cpu_ns"), (pages, "cold_hit", "pages")):
        found = reads_of(result.figures, name)
        panel.lines["ebbtide"] = [(h, found[layout("ebbtide", h)][part]) for h in sizes.pages_per_tile]
        panel.log_x, panel.ticks = True, {h: str(h) for h in sizes.pages_per_tile}
    plots.draw(result.path.with_name(f"{result.path.stem}-6I"), "Point reads by pages per tile", "h", [hit, pages])
