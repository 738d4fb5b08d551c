"""Measures the cost of a delete by a second key, here and in RocksDB: a part of a database is deleted by its stamp (Lethe's
evaluation, section 5.2).

For each layout, a database of 1 KB entries is built and comes to rest. Reads are timed on it, cached and from the disk. Then, on
a copy of its files for each selectivity, every entry with a stamp below a bound is deleted. All bytes that the process reads and
writes are counted until no file has any of these entries, and no table's metadata has their keys: then a purge ticket is done.

    ebbtide, h = N   a secondary range delete, purged at once; tiles of N pages (KiWi)
    rocksdb, filter  a compaction of everything with a filter that drops the deleted entries
    rocksdb, scan    a scan of everything, a delete for each key found, and a compaction of everything

Stamps follow the arrival of entries in random key order (uncorrelated), or the keys (correlated). "whole" and "in part" are pages
dropped without being read, and pages of which a part stays, as shares of all pages. "I/O to best" is the bytes read and written
by RocksDB's better way, divided by Ebbtide's.
"""

import argparse
import math
import signal
import sys

from common import plots, programs, report

SEVENTH = 1 / 7
READS = (("cached_hit", "cached hit"), ("cached_miss", "cached miss"), ("cached_scan_10", "cached, 10 in order"), ("cached_scan_1000", "cached, 1000"),
         ("cold_hit", "cold hit"), ("cold_miss", "cold miss"), ("cold_scan_10", "cold, 10 in order"), ("cold_scan_1000", "cold, 1000"))  # fmt: skip


def parts(text):
    try:
        numbers = [SEVENTH if word.strip() == "1/7" else float(word) / 100 for word in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}' is no list of percentages; lists look like 1,1/7,50") from None
    if not all(0 < number < 1 for number in numbers):
        raise argparse.ArgumentTypeError(f"'{text}': percentages are above 0 and below 100")
    return sorted(numbers)


def parse_arguments():
    parser = argparse.ArgumentParser(prog="./dev bench secondary-delete", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="32 MB, one layout: to check that everything works")
    size.add_argument("--full", action="store_true", help="4 GB, all layouts and selectivities; about two hours, 20 GB of disk, 10 GB of memory")
    parser.add_argument("--entries", type=report.count, help="entries of 1000 bytes; default 128k, --full 4M")
    parser.add_argument("--pages-per-tile", type=report.count_list, metavar="H,...", help="default 1,8,16, --full 1,2,4,8,16,32,64")
    parser.add_argument("--selectivity", type=parts, metavar="PERCENT,...", help="default 1,1/7,50, --full 1,5,1/7,25,50")
    parser.add_argument("--stamps", choices=["both", "uncorrelated", "correlated"], default="both")
    parser.add_argument("--reads", type=report.count, help="cached reads of each kind; default 100k, --full 500k")
    parser.add_argument("--cold-reads", type=report.count, help="reads of each kind from the disk; default 10k, --full 50k")
    parser.add_argument("--rounds", type=int, help="rounds of building and reading each layout, in turn; only the first has deletes. Default 1, --full 2")
    parser.add_argument("--json", default=str(report.ROOT / "build/bench/secondary-delete.json"), help="file for the figures; plots go beside it")
    options = parser.parse_args()

    default = report.defaults_by_size(options)
    default("entries", 32_000, 128_000, 4_000_000)
    default("pages_per_tile", [1, 8], [1, 8, 16], [1, 2, 4, 8, 16, 32, 64])
    default("selectivity", [SEVENTH], [0.01, SEVENTH, 0.5], [0.01, 0.05, SEVENTH, 0.25, 0.5])
    default("reads", 20_000, 100_000, 500_000)
    default("cold_reads", 2_000, 10_000, 50_000)
    default("rounds", 1, 1, 2)
    return options


def layout(engine, h):
    return "rocksdb" if engine == "rocksdb" else f"h = {h}"


def measure(engine, h, stamps, first, options, result):
    """Measures the reads of one database, and in the first round also its deletes."""
    what = f"{stamps}, {layout(engine, h)}"
    report.progress(what)
    done = programs.figures("secondary_delete", what, engine=engine, entries=options.entries, pages_per_tile=h, correlated=stamps == "correlated",
                            selectivity=options.selectivity if first else None, reads=options.reads, cold_reads=options.cold_reads)  # fmt: skip
    for figure in done:
        if figure["what"] == "reads" or first:
            result.add(engine=engine, h=h, stamps=stamps, layout=layout(engine, h), **figure)


def run_all(options, result):
    for number in range(options.rounds):
        for stamps in ("uncorrelated", "correlated") if options.stamps == "both" else (options.stamps,):
            if number > 0 and stamps == "correlated":
                continue  # reads do not depend on the selectivity
            for h in options.pages_per_tile if number % 2 == 0 else reversed(options.pages_per_tile):
                measure("ebbtide", h, stamps, number == 0, options, result)
            if number == 0:
                measure("rocksdb", 1, stamps, True, options, result)


# --- output


def moved(figure):
    return figure["read_bytes"] + figure["written_bytes"]


def deletes_of(figures, stamps, selectivity):
    return [one for one in figures if one["what"] == "delete" and one["stamps"] == stamps and math.isclose(one["selectivity"], selectivity, rel_tol=1e-6)]


def best_of_rocksdb(figures):
    return min((one for one in figures if one["engine"] == "rocksdb"), key=moved)


def pages_of(figure):
    """Returns the approximate number of pages of the tables. Tiles of several pages pad them to 4 KiB."""
    return max(1, figure["table_bytes"] / 4096)


def show_deletes(figures, stamps, options):
    for selectivity in options.selectivity:
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
        print(f"\n{stamps} stamps, {selectivity * 100:.3g} % of {options.entries:,} entries")
        print(report.table(rows, ["", "whole %", "in part %", "read MB", "written MB", "I/O MB", "best to it", "merged MB", "logical us", "s", "cpu s", "MB before", "after"]))


def median_reads(figures, name):
    """Returns {layout: medians over the rounds} of one kind of read."""
    taken = {}
    reads = [one for one in figures if one["what"] == "reads"]
    for one in reads:
        if one["stamps"] == reads[0]["stamps"]:
            taken.setdefault(one["layout"], []).append(one[name])
    return {layout_: report.median_of(runs) for layout_, runs in taken.items()}


def show_reads(figures):
    rows = []
    for name, label in READS:
        medians = median_reads(figures, name)
        unit = "pages" if label.startswith("cold") else "cpu ns"
        rows.append([f"{label}, {unit}", *(f"{one['pages']:.3f}" if unit == "pages" else f"{one['cpu_ns']:,.0f}" for one in medians.values())])
        rows.append([f"{label}, per second", *(f"{one['per_second']:,.0f}" for one in medians.values())])
    print("\nReads before any delete (medians over the rounds)")
    print(report.table(rows, ["", *median_reads(figures, "cached_hit")]))


def judge(figures, options, result):
    for stamps in ("uncorrelated", "correlated"):
        for selectivity in options.selectivity:
            found = deletes_of(figures, stamps, selectivity)
            if not found or abs(selectivity - SEVENTH) > 1e-9:
                continue
            best = moved(best_of_rocksdb(found))
            for one in found:
                if one["engine"] == "ebbtide" and one["h"] >= 8:
                    result.target(f"{stamps}, a seventh, {one['layout']}: I/O of rocksdb's best to ours", best / moved(one), 10, at_most=False)
    cached, cold = median_reads(figures, "cached_hit"), median_reads(figures, "cold_hit")
    if {"h = 1", "h = 16"} <= set(cached):
        result.target("cached point read, h = 16 to h = 1", cached["h = 16"]["cpu_ns"] / cached["h = 1"]["cpu_ns"], 1.10)
        result.target("cold point read, more pages at h = 16 than at h = 1", cold["h = 16"]["pages"] - cold["h = 1"]["pages"], 0.02)


def plot(figures, options, path):
    for stamps in ("uncorrelated", "correlated"):
        if not any(one["stamps"] == stamps for one in figures):
            continue
        whole, moved_mb = plots.Panel("pages dropped whole, %"), plots.Panel("read and written, MB", log_y=True)
        for selectivity in options.selectivity:
            for one in deletes_of(figures, stamps, selectivity):
                name = f"ebbtide, {one['layout']}" if one["engine"] == "ebbtide" else f"rocksdb, {one['way']}"
                moved_mb.lines.setdefault(name, []).append((selectivity * 100, moved(one) / 1e6))
                if one["engine"] == "ebbtide":
                    whole.lines.setdefault(name, []).append((selectivity * 100, 100 * one["pages_whole"] / pages_of(one)))
        plots.draw(path.with_name(f"{path.name}-{stamps}"), f"Deletes by stamp, {stamps}", "selectivity, %", [whole, moved_mb])
    hit, pages = plots.Panel("cached hit, CPU ns"), plots.Panel("pages read by a cold hit")
    at = {layout("ebbtide", h): h for h in options.pages_per_tile}
    for panel, name, field in ((hit, "cached_hit", "cpu_ns"), (pages, "cold_hit", "pages")):
        panel.lines["ebbtide"] = [(at[layout_], one[field]) for layout_, one in median_reads(figures, name).items() if layout_ in at]
        panel.lines["ebbtide"].sort()
    hit.log_x = pages.log_x = True
    hit.ticks = pages.ticks = {h: str(h) for h in options.pages_per_tile}
    plots.draw(path.with_name(f"{path.name}-reads"), "Point reads by pages per tile", "h", [hit, pages])


def main():
    options = parse_arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    result = report.Result("secondary-delete", options.json, vars(options), rocksdb=report.package_version("librocksdb-dev"))
    run_all(options, result)
    figures = result.figures
    for stamps in ("uncorrelated", "correlated"):
        if any(one["stamps"] == stamps for one in figures):
            show_deletes(figures, stamps, options)
    show_reads(figures)
    print()
    judge(figures, options, result)
    plot(figures, options, result.path.with_suffix(""))
    result.finish()


if __name__ == "__main__":
    main()
