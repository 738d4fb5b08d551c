"""Measures stacks with files that end at range borders: what partitioning gains, as in Mao's thesis (section 5.5). The figure is
the time of all writes and their merges with entries of 1 KiB, by tree.partitioning.

    keys      semi (ascending, some come late), random, skewed (a quarter of the range has half of them), strings (4 to 32 bytes)
    policies  exploring merges runs of similar size; bigtable merges by the total size of newer runs
    files     one per merge (none), or ended by size, by local ranges, by global ranges

The thesis' merges without partitions have one thread, and its targets are relative to those merges: `none, 1 thread`. The merges
of `none` are cut into parts for all threads, like any merge. The comparison with `none` shows whether ranges gain from parts or
from common ends.

"write s" is the time until the last merge is done. "parts" is the number of parts of the merges. "moves" counts files that became
part of an output without a rewrite. "merged" is the bytes written by merges, divided by the bytes of the entries. Each run is a
process of its own. Variants take turns, and each round begins with another variant.
"""

import argparse
import signal
import sys

from common import plots, programs, report

KEYS = ("semi", "random", "skewed", "strings")
VARIANTS = {
    "none, 1 thread": {"partitioning": "none", "background": 1},
    "none": {"partitioning": "none"},
    "size": {"partitioning": "size"},
    "local_range": {"partitioning": "local_range"},
    "global_range": {"partitioning": "global_range"},
}
# This is the thesis' gain of global ranges with random keys, relative to `none, 1 thread`.
TARGETS = {"exploring": 0.18, "bigtable": 0.07}


def parse_arguments():
    parser = argparse.ArgumentParser(prog="./dev bench partitioning", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="60 thousand entries, one round: to check that everything works")
    parser.add_argument("--entries", type=report.count, help="entries of 1 KiB; default 1M")
    parser.add_argument("--rounds", type=int, help="default 3")
    parser.add_argument("--keys", choices=KEYS, action="append", help="kinds of keys; default all four")
    parser.add_argument("--policy", choices=list(TARGETS), action="append", help="policies; default both")
    parser.add_argument("--background", type=int, default=2, help="merge threads; default 2")
    parser.add_argument("--json", default=str(report.ROOT / "build/bench/partitioning.json"), help="file for the figures; plots go beside it")
    options = parser.parse_args()
    options.entries = options.entries or (60_000 if options.quick else 1_000_000)
    options.rounds = options.rounds or (1 if options.quick else 3)
    options.keys = options.keys or list(KEYS)
    options.policy = options.policy or list(TARGETS)
    return options


def run_all(options, result):
    # Memtables and files are proportional to the data, so that stacks stay the same.
    size = max(options.entries * 8 // 1_000_000, 1) << 20
    names = list(VARIANTS)
    for number in range(options.rounds):
        first = number % len(names)
        for policy in options.policy:
            for keys in options.keys:
                for name in names[first:] + names[:first]:
                    what = f"round {number + 1} of {options.rounds}: {policy}, {keys}, {name}"
                    settings = {"background": options.background, **VARIANTS[name]}
                    (figure,) = programs.figures("partitioning", what, entries=options.entries, reads=max(options.entries // 10, 1000),
                                                 memtable=size, file=size, keys=keys, policy=policy, **settings)  # fmt: skip
                    result.add(keys=keys, policy=policy, variant=name, **figure)


def medians(figures, policy, keys):
    """Returns {variant: medians over the rounds} of the measured variants."""
    found = {}
    for name in VARIANTS:
        runs = [one for one in figures if (one["policy"], one["keys"], one["variant"]) == (policy, keys, name)]
        if runs:
            found[name] = report.median_of(runs) | {
                kind: report.median_of([run[kind] for run in runs]) for kind in ("gets", "scans")
            }  # fmt: skip
    return found


def show(figures, options):
    for policy in options.policy:
        rows = []
        for keys in options.keys:
            found = medians(figures, policy, keys)
            for name, one in found.items():
                rows.append([keys, name, f"{one['write_seconds']:.2f}", report.cell(one["write_seconds"] / found["none, 1 thread"]["write_seconds"]),
                             report.cell(one["write_seconds"] / found["none"]["write_seconds"]), f"{one['write_cpu_seconds']:.2f}",
                             f"{one['merges']:,.0f}", f"{one['sub_merges']:,.0f}", f"{one['moves']:,.0f}", f"{one['merged_by_written']:.2f}",
                             f"{one['runs']:.0f}", f"{one['files']:,.0f}", f"{one['gets']['per_second']:,.0f}", f"{one['scans']['per_second']:,.0f}"])  # fmt: skip
        print(f"\n{policy}")
        print(report.table(rows, ["keys", "files", "write s", "to 1 thread", "to none", "cpu s", "merges", "parts", "moves", "merged", "runs", "files",
                                  "gets/s", "scans/s"]))  # fmt: skip


def judge(figures, options, result):
    for policy in options.policy:
        found = medians(figures, policy, "random")
        if not {"global_range", "none, 1 thread"} <= set(found):
            continue
        ranges = found["global_range"]["write_seconds"]
        most = 1 - TARGETS[policy]
        result.target(f"{policy}, random keys: time of global ranges to none with one thread", ranges / found["none, 1 thread"]["write_seconds"], most)
        result.target(f"{policy}, random keys: time of global ranges to none", ranges / found["none"]["write_seconds"], most)


def plot(figures, options, path):
    panels = []
    for policy in options.policy:
        panel = plots.Panel(f"{policy}, write s", joined=False, ticks=dict(enumerate(options.keys)))
        for at, keys in enumerate(options.keys):
            for name, one in medians(figures, policy, keys).items():
                panel.lines.setdefault(name, []).append((at, one["write_seconds"]))
        panels.append(panel)
    plots.draw(path, f"{options.entries:,} entries of 1 KiB, by where files end", "", panels)


def main():
    options = parse_arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    result = report.Result("partitioning", options.json, vars(options))
    run_all(options, result)
    show(result.figures, options)
    print()
    judge(result.figures, options, result)
    plot(result.figures, options, result.path.with_suffix(""))
    result.finish()


if __name__ == "__main__":
    main()
