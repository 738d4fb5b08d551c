"""Counts pages read by lookups of absent and existing keys at 0 to 16 filter bits a key, while the data doubles several times
(Monkey, TODS 2018, section 5). The variants distribute the filters' memory in these ways:

    monkey            by Monkey, for lookups of absent keys
    monkey, measured  by Monkey, for the measured lookups
    uniform           the same bits for every key
    rocksdb           the same bits for every key, RocksDB's filters

With --navigate, the program instead measures trees with given policies and size ratios, with Monkey for the measured lookups,
beside leveling with T = 10 and uniform filters. The paper's navigation chooses policy, size ratio and memory by its model. Here
you choose the trees, and the table shows the cost of each, writes included.

The size ratio is 2 and memtables have 1 MiB, as in the paper; level 0 is empty, and the block cache is tiny; filters are always
in memory. An existing key costs one page at least. Pages beyond that, and all pages of an absent key, are false positives. "bits"
is the configured number per key, "in memory" the actual number.
"""

import argparse
import signal
import sys

from common import plots, programs, report

VARIANTS = {
    "monkey": {"engine": "ebbtide", "monkey": True},
    "monkey, measured": {"engine": "ebbtide", "monkey": True, "measured": True},
    "uniform": {"engine": "ebbtide"},
    "rocksdb": {"engine": "rocksdb"},
}
BITS = (0, 2, 4, 5, 6, 8, 10, 12, 14, 16)
UNNAVIGATED = "leveling T=10, uniform"


def trees(text):
    found = []
    for item in text.split(","):
        policy, _, ratio = item.partition(":")
        if not policy or not ratio.isdigit():
            raise argparse.ArgumentTypeError(f"{item}: not a policy and its size ratio, such as leveling:4")
        found.append((policy, int(ratio)))
    return found


def navigated(chosen):
    variants = {UNNAVIGATED: {"engine": "ebbtide", "policy": "leveling", "size_ratio": 10}}
    for policy, ratio in chosen:
        variants[f"{policy} T={ratio}, monkey"] = {"engine": "ebbtide", "policy": policy, "size_ratio": ratio, "monkey": True, "measured": True}
    return variants


def parse_arguments():
    parser = argparse.ArgumentParser(prog="./dev bench filters", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="200 thousand entries, 0, 5 and 10 bits: to check that everything works")
    parser.add_argument("--entries", type=report.count, help="entries of 116 bytes at the end; default 2M")
    parser.add_argument("--doublings", type=int, help="doublings of the data, with lookups counted before each; default 4")
    parser.add_argument("--reads", type=report.count, help="lookups of each kind after each doubling; default 100k")
    parser.add_argument("--bits", type=lambda text: report.count_list(text, least=0), metavar="N,...", help="filter bits per key; default " + ",".join(map(str, BITS)))
    parser.add_argument("--size-ratio", type=int, default=2, help="default 2")
    parser.add_argument("--only", choices=list(VARIANTS), action="append", help="variants; default all")
    parser.add_argument("--navigate", type=trees, metavar="POLICY:T,...", help="compare these trees instead, for instance leveling:4,lazy_leveling:8")
    parser.add_argument("--json", default=str(report.ROOT / "build/bench/filters.json"), help="file for the figures; plots go beside it")
    options = parser.parse_args()
    options.entries = options.entries or (200_000 if options.quick else 2_000_000)
    options.doublings = options.doublings if options.doublings is not None else (2 if options.quick else 4)
    options.reads = options.reads or (10_000 if options.quick else 100_000)
    options.bits = options.bits or ([0, 5, 10] if options.quick else list(BITS))
    if options.navigate and options.only:
        parser.error("--only does not apply to --navigate")
    options.variants = navigated(options.navigate) if options.navigate else VARIANTS
    options.only = options.only or list(options.variants)
    return options


def run_all(options, result):
    memtable = max(options.entries * (1 << 20) // 2_000_000, 256 << 10)
    for bits in options.bits:
        for variant in options.only:
            setup = {"size_ratio": options.size_ratio, **options.variants[variant]}
            done = programs.figures("filters", f"{bits} bits, {variant}", bits=bits, entries=options.entries, reads=options.reads, memtable=memtable,
                                    doublings=options.doublings, **setup)  # fmt: skip
            for step, figure in enumerate(done):
                result.add(variant=variant, bits=bits, step=step, **figure)


def at(figures, variant, bits, step):
    return next((one for one in figures if (one["variant"], one["bits"], one["step"]) == (variant, bits, step)), None)


def pages(figures, kind, variant, bits, step):
    """Returns the false-positive pages that a lookup reads."""
    one = at(figures, variant, bits, step)
    return None if one is None else one[kind]["pages"] - (kind == "existing")


def show(figures, options):
    rows = []
    last = options.doublings
    for bits in options.bits:
        for variant in options.only:
            one, first = at(figures, variant, bits, last), at(figures, variant, bits, 0)
            rows.append([f"{bits}, {variant}", f"{one['runs']}", f"{one['write_amplification']:.1f}", f"{one['bits_in_memory']:.2f}",
                         f"{first['absent']['pages']:.4f}", f"{one['absent']['pages']:.4f}",
                         f"{first['existing']['pages']:.4f}", f"{one['existing']['pages']:.4f}", f"{one['absent']['cpu_ns']:,.0f}",
                         f"{one['existing']['cpu_ns']:,.0f}"])  # fmt: skip
    few, many = (f"{one['entries']:,}" for one in (at(figures, options.only[0], options.bits[0], step) for step in (0, last)))
    print(f"\nPages read by a lookup, of {few} and of {many} entries")
    print(report.table(rows, ["bits", "runs", "write amp", "in memory", "absent, few", "many", "there, few", "many", "cpu ns, absent", "there"]))


def fewest_bits(figures, options, kind, variant):
    """Returns the fewest bits with which `variant` reads no more false-positive pages than RocksDB with 10 bits."""
    rival = pages(figures, kind, "rocksdb", 10, options.doublings)
    if rival is None:
        return None
    enough = [bits for bits in options.bits if (mine := pages(figures, kind, variant, bits, options.doublings)) is not None and mine <= rival]
    return min(enough, default=None)


def judge(figures, options, result):
    last = options.doublings

    def spared(bits, rival):
        mine, theirs = (pages(figures, "absent", variant, bits, last) for variant in ("monkey", rival))
        return None if mine is None or not theirs else 1 - mine / theirs

    chosen = [variant for variant in options.only if variant != UNNAVIGATED]
    for kind in ("absent", "existing") if options.navigate and UNNAVIGATED in options.only else ():
        for bits in options.bits:
            before = pages(figures, kind, UNNAVIGATED, bits, last)
            costs = {variant: pages(figures, kind, variant, bits, last) for variant in chosen}
            best = min(costs, key=costs.get)
            if before:
                spared_by_best = 1 - costs[best] / before
                result.target(f"{kind} keys, {bits} bits: false-positive pages that {best} saves against {UNNAVIGATED}", spared_by_best, 0.5, at_most=False)
    for rival in ("uniform", "rocksdb"):
        gains = [gain for bits in options.bits if 4 <= bits <= 10 and (gain := spared(bits, rival)) is not None]
        if gains:
            result.target(f"absent keys: pages that monkey saves against {rival}, at best of 4 to 10 bits", max(gains), 0.6, at_most=False)
    if at(figures, "rocksdb", 10, last):
        result.target("absent keys: bits of monkey that equal RocksDB's 10", fewest_bits(figures, options, "absent", "monkey"), 6)
        result.target("existing keys: bits of monkey, measured, that equal RocksDB's 10", fewest_bits(figures, options, "existing", "monkey, measured"), 4)
    for bits in (5, 10):
        first, end = (pages(figures, "absent", "monkey", bits, step) for step in (0, last))
        if first and end:
            result.target(f"absent keys, {bits} bits: pages of monkey after {last} doublings, to before", end / first, 1.1)


def plot(figures, options, path):
    last = options.doublings
    by_bits = {kind: plots.Panel(f"pages, {kind}", log_y=kind == "absent") for kind in ("absent", "existing")}
    growth = plots.Panel("pages, absent, as data grows" + (", 5 bits" if 5 in options.bits else ""), log_x=True)
    for variant in options.only:
        for kind, panel in by_bits.items():
            panel.lines[variant] = [(bits, at(figures, variant, bits, last)[kind]["pages"]) for bits in options.bits]
        if 5 in options.bits:
            growth.lines[variant] = [(one["entries"], one["absent"]["pages"]) for step in range(last + 1) if (one := at(figures, variant, 5, step))]
    plots.draw(path, "Pages read by a lookup, by bits a key", "bits a key", list(by_bits.values()))
    if growth.lines:
        plots.draw(path.with_name(f"{path.name}-growth"), "Pages read by a lookup, as data grows", "entries", [growth])


def main():
    options = parse_arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    result = report.Result("filters", options.json, vars(options), rocksdb=report.package_version("librocksdb-dev"))
    run_all(options, result)
    show(result.figures, options)
    print()
    judge(result.figures, options, result)
    plot(result.figures, options, result.path.with_suffix(""))
    result.finish()


if __name__ == "__main__":
    main()
