"""Monkey (Dayan et al., TODS 2018), section 5: pages that lookups read with filters by Monkey, with uniform filters, and in RocksDB.

Trees are leveling with size ratio 2 and a small memtable, so that they have 8 to 12 levels: with filter memory by Monkey, levels save
reads, bytes do not. Entries have 116 bytes, or 1 KB where the paper's update cost matters; filters have 5 bits a key where nothing
else is said; there is hardly any block cache. Monkey's and the uniform filters are compared on one tree. RocksDB has level 0, which
the others do not have, and its own levels.

A lookup of an absent key reads only false positives. One of an existing key reads a page more.
"""

import json
import math
import subprocess
from concurrent.futures import ThreadPoolExecutor

from common import headlines, plots, programs, report
from common.headlines import judged
from support.server import binary

FIGURES = ("12A", "12B", "12C", "12E", "13A", "13B", "13C", "13E", "14")
ENTRY_BYTES = 116
BITS = (0, 4, 5, 6, 8, 10)
MIXES = (0, 0.2, 0.5, 0.7, 0.9, 1)
VALUES = (48, 112, 240, 496, 1008)
VARIANTS = {
    "monkey": {"monkey": True},
    "monkey, measured": {"monkey": True, "measured": True},
    "uniform": {},
    "rocksdb": {"engine": "rocksdb"},
}
# Trees of Figure 13 C, from few reads to few writes.
TREES = (("leveling", 8), ("leveling", 4), ("leveling", 2), ("tiering", 3), ("tiering", 4), ("tiering", 8))


class Bench:
    """Measures trees, each once: several figures use the same tree."""

    def __init__(self, options, result):
        self.options, self.result, self.done = options, result, {}
        self.entries = report.sized(options, quick=30_000, default=300_000, full=2_400_000)
        self.reads = report.sized(options, quick=5_000, default=30_000, full=100_000)
        self.memtable = 16 << 10
        self.doublings = 1 if options.quick else 3
        self.levels = range(int(math.log2(self.entries * ENTRY_BYTES / self.memtable)) + 1)
        self.ages = ",".join(f"age:{level}" for level in self.levels)

    def setup(self, variant, **setup):
        return {"entries": self.entries, "reads": self.reads, "memtable": self.memtable, "bits": 5, "doublings": 0, **VARIANTS[variant], **setup}

    def measure(self, wanted):
        """Measures the trees [(variant, setup)] that are not measured yet, two at a time: pages do not depend on what else runs."""
        missing = {}
        for variant, changes in wanted:
            setup = self.setup(variant, **changes)
            if (key := json.dumps(setup, sort_keys=True)) not in self.done:
                missing[key] = variant, setup, changes
        with ThreadPoolExecutor(2) as pool:
            for (key, (variant, setup, changes)), found in zip(missing.items(), pool.map(self.tree, missing.values())):
                self.done[key] = found
                for figure in found:
                    self.result.add(variant=variant, **{name: setup[name] for name in setup if name not in figure and name != "lookups"}, **figure)

    @staticmethod
    def tree(wanted):
        variant, setup, changes = wanted
        said = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in changes.items() if name not in ("lookups", "doublings"))
        return programs.figures("monkey", f"{variant}, {said}", **setup)

    def figures(self, variant, **setup):
        """Returns the figures of a tree with the filters of a variant."""
        self.measure([(variant, setup)])
        return self.done[json.dumps(self.setup(variant, **setup), sort_keys=True)]

    # --- the trees of Figures 12 A, C, E and 13 A, B

    def by_bits(self, bits):
        """Returns the set-up of the trees with filters for absent keys or uniform ones: one for each number of bits."""
        more = {"last_lookups": f"{','.join(f'mix:{share}' for share in MIXES)},{self.ages}"} if bits == 5 else {}
        return {"bits": bits, "lookups": "absent,existing", "doublings": self.doublings if bits in (5, 10) else 0, **more}

    def for_mix(self, share, bits=5):
        """Returns the set-up of a tree with filters for a mix: it has only such lookups. Files get the filters that fitted the lookups
        before, so there are some after each doubling."""
        more = {"last_lookups": self.ages} if (share, bits) == (1, 5) else {}
        return {"bits": bits, "lookups": f"mix:{share}", "doublings": self.doublings, **more}

    def last(self, variant, setup):
        """Returns the figures of the largest tree by kind of lookup."""
        return {figure["lookups"]: figure for figure in self.figures(variant, **setup)}

    def false_positives(self, variant, bits, lookups):
        return self.last(variant, self.by_bits(bits))[lookups]["pages"] - (lookups == "existing")


def run(options, result):
    bench = Bench(options, result)
    parts = {"12A": growth, "12B": entry_sizes, "12C": absent_keys, "12E": existing_keys, "13A": mixes, "13B": ages, "13C": trade_off,
             "13E": navigation, "14": caches}  # fmt: skip
    found = [one for name, part in parts.items() if options.only in (None, name) for one in part(bench)]
    print()
    headlines.show(found, result)


def draw(bench, figure, title, x_label, *panels):
    plots.draw(bench.result.path.with_name(f"{bench.result.path.stem}-{figure}"), f"Monkey, Figure {figure}: {title}", x_label, list(panels))


def growth(bench):
    names = ("monkey", "uniform", "rocksdb")
    bench.measure([(name, bench.by_bits(bits)) for bits in (5, 10) for name in names])
    for bits in (5, 10):
        absent = {name: [one for one in bench.figures(name, **bench.by_bits(bits)) if one["lookups"] == "absent"] for name in names}
        grown = {name: found[-1]["pages"] / found[0]["pages"] for name, found in absent.items()}
        runs = f"{absent['monkey'][0]['runs']} to {absent['monkey'][-1]['runs']} runs"
        yield judged(f"absent keys, {bits} bits: pages after {bench.doublings} doublings / before, {runs}", "5, Fig. 12A", 1, grown["monkey"],
                     grown["monkey"] <= 1.1, f"uniform filters: {grown['uniform']:.2f}, RocksDB: {grown['rocksdb']:.2f}")  # fmt: skip
        if bits == 5:
            lines = {name: [(one["entries"], one["pages"]) for one in found] for name, found in absent.items()}
            draw(bench, "12A", "as data grow", "entries", plots.Panel("pages, absent keys, 5 bits", lines=lines, log_x=True))


def entry_sizes(bench):
    entries = bench.entries // 5
    panel = plots.Panel(f"pages, absent keys, {entries:,} entries")
    setups = {size: {"entries": entries, "value_bytes": size, "lookups": "absent"} for size in VALUES}
    bench.measure([(name, setup) for name in ("monkey", "uniform") for setup in setups.values()])
    for name in ("monkey", "uniform"):
        panel.lines[name] = [(size + 16, bench.figures(name, **setup)[0]["pages"]) for size, setup in setups.items()]
    saved = [1 - mine / theirs for (_, mine), (_, theirs) in zip(panel.lines["monkey"], panel.lines["uniform"])]
    yield judged("absent keys: the saving is larger with larger entries: at 1 KB / at 64 bytes", "5, Fig. 12B", None, saved[-1] / saved[0], saved[-1] > saved[0], f"savings: {saved}")
    draw(bench, "12B", "by the size of an entry", "bytes of an entry", panel)


def absent_keys(bench):
    panel = plots.Panel("pages, absent keys", log_y=True)
    bench.measure([(name, bench.by_bits(bits)) for bits in BITS for name in ("monkey", "uniform", "rocksdb")])
    for name in ("monkey", "uniform", "rocksdb"):
        panel.lines[name] = [(bits, bench.false_positives(name, bits, "absent")) for bits in BITS]
    mine, uniform, rocksdb = (dict(panel.lines[name]) for name in ("monkey", "uniform", "rocksdb"))
    why = f"{bench.last('monkey', bench.by_bits(5))['absent']['runs']} runs"
    for name, theirs in (("uniform filters", uniform), ("RocksDB", rocksdb)):
        saved = {bits: 1 - mine[bits] / theirs[bits] for bits in BITS if 4 <= bits <= 10}
        best = max(saved, key=saved.get)
        yield judged(f"absent keys: pages fewer than {name}, at most ({best} bits)", "5, up to 60 %", 0.6, saved[best], saved[best] >= 0.595, why)
    yield fewest_bits(mine, uniform, "absent keys: bits for the pages of 10 uniform bits", 6, why)
    yield fewest_bits(mine, rocksdb, "absent keys: bits for the pages of RocksDB with 10", 6, why)
    draw(bench, "12C", "by memory of filters", "bits a key", panel)


def existing_keys(bench):
    panel = plots.Panel("pages beyond the key's own, existing keys", log_y=True)
    names = ("monkey", "uniform", "rocksdb")
    bench.measure([(name, bench.by_bits(bits)) for bits in BITS for name in names] + [("monkey, measured", bench.for_mix(1, bits)) for bits in BITS])
    for name in names:
        panel.lines[name] = [(bits, bench.false_positives(name, bits, "existing")) for bits in BITS]
    panel.lines["monkey, measured"] = [(bits, bench.last("monkey, measured", bench.for_mix(1, bits))["mix:1"]["pages"] - 1) for bits in BITS]
    general, zero, uniform, rocksdb = (dict(panel.lines[name]) for name in ("monkey, measured", "monkey", "uniform", "rocksdb"))
    yield fewest_bits(general, uniform, "existing keys: bits for the pages of 10 uniform bits", 4, "")
    yield fewest_bits(general, rocksdb, "existing keys: bits for the pages of RocksDB with 10", 4, "")
    saved = {bits: 1 - (1 + general[bits]) / (1 + zero[bits]) for bits in BITS if bits > 0}
    best = max(saved, key=saved.get)
    why = "filters for absent keys leave little to save"
    yield judged(f"existing keys: pages fewer than with filters for absent keys, at most ({best} bits)", "5, about 10 %", 0.1, saved[best], saved[best] >= 0.095, why)
    draw(bench, "12E", "existing keys by memory of filters", "bits a key", panel)


def fewest_bits(mine, theirs, what, paper, why):
    """Judges the number of bits with which `mine` reads as few pages as `theirs` reads with 10. The number is interpolated between
    measured numbers of bits, on a logarithmic scale of pages."""
    wanted, ours = theirs[10], None
    for (few, before), (more, after) in zip(sorted(mine.items()), sorted(mine.items())[1:]):
        if ours is None and after <= wanted < before:
            ours = few + (more - few) * math.log(before / wanted) / math.log(before / after)
    return judged(what, "5, Fig. 12", paper, ours, ours is not None and ours <= paper, why)


def mixes(bench):
    panel = plots.Panel("pages")
    names = ("monkey", "uniform", "rocksdb")
    bench.measure([(name, bench.by_bits(5)) for name in names] + [("monkey, measured", bench.for_mix(share)) for share in MIXES])
    for name in names:
        panel.lines[name] = [(share, bench.last(name, bench.by_bits(5))[f"mix:{share}"]["pages"]) for share in MIXES]
    panel.lines["monkey, measured"] = [(share, bench.last("monkey, measured", bench.for_mix(share))[f"mix:{share}"]["pages"]) for share in MIXES]
    general, zero, uniform = (dict(panel.lines[name]) for name in ("monkey, measured", "monkey", "uniform"))
    dominated = [share for share in MIXES if max(general[share], zero[share]) <= uniform[share]]
    yield judged("mixes of absent and existing keys where Monkey reads fewer pages than uniform filters, of 6", "5, Fig. 13A", 6, len(dominated), len(dominated) == 6, "")
    saved = {share: 1 - general[share] / zero[share] for share in MIXES}
    best = max(saved, key=saved.get)
    why = "filters for absent keys leave little to save"
    yield judged(f"filters for the mix: pages fewer than with filters for absent keys, at most (mix {best})", "4.4, up to 20 %", 0.2, saved[best], saved[best] >= 0.195, why)
    draw(bench, "13A", "by the share of existing keys", "share of existing keys", panel)


def ages(bench):
    panel = plots.Panel("pages beyond the key's own")
    setups = {name: bench.by_bits(5) for name in ("monkey", "uniform", "rocksdb")} | {"monkey, measured": bench.for_mix(1)}
    bench.measure(list(setups.items()))
    for name, setup in setups.items():
        panel.lines[name] = [(level, max(0, bench.last(name, setup)[f"age:{level}"]["pages"] - 1)) for level in bench.levels]
    middle = {name: line[len(line) // 2][1] for name, line in panel.lines.items()}
    oldest = {name: line[-2][1] for name, line in panel.lines.items()}
    ours = middle["monkey"] / middle["uniform"]
    yield judged("keys of middle age: false positives with Monkey / with uniform filters", "5, Fig. 13B: hardly any", None, ours, ours < 0.2, "")
    ours = oldest["monkey, measured"] / oldest["monkey"]
    yield judged("old keys: false positives with filters for existing keys / for absent keys", "5, Fig. 13B: fewer", None, ours, ours < 1, "")
    draw(bench, "13B", "by the age of a key", "level of that age", panel)


def trade_off(bench):
    entries = bench.entries // 5
    names = ("monkey", "uniform")
    setups = [{"policy": policy, "size_ratio": ratio, "lookups": "absent", "value_bytes": 1008, "entries": entries, "memtable": bench.memtable * 4} for policy, ratio in TREES]
    bench.measure([(name, setup) for name in names for setup in setups])
    lines = {}
    for name in names:
        lines[name] = []
        for setup in setups:
            (one,) = bench.figures(name, **setup)
            lines[name].append((one["write_pages"], one["pages"]))
    saved = [1 - mine / theirs for (_, mine), (_, theirs) in zip(lines["monkey"], lines["uniform"])]
    yield judged("absent keys: pages fewer than uniform filters on the same tree, at most of six trees", "5, Fig. 13C: up to 50 %", 0.5, max(saved), max(saved) >= 0.495, f"savings: {', '.join(f'{one:.2f}' for one in saved)}")
    traded = [1 - write / before for before, pages in lines["uniform"] for write, reads in lines["monkey"] if reads <= pages]
    yield judged("update cost less at the same lookup cost, at most", "5, Fig. 13C: up to 70 %", 0.7, max(traded), max(traded) >= 0.695, "")
    draw(bench, "13C", "lookups and updates of six trees", "pages an update", plots.Panel("pages an absent lookup", lines={name: sorted(line) for name, line in lines.items()}, joined=False))


def advice(bench, entries, memory, absent_share):
    shares = f"{absent_share},0,0,{1 - absent_share}"
    command = [str(binary("ebbtide-tune")), "advise", "--entries", str(entries), "--entry-size", "1KiB", "--memory", str(memory), "--workload", shares,
               "--layouts", "leveling,tiering", "--smallest-buffer", "16KiB", "--size-ratios", "2,32", "--format", "json"]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def navigation(bench):
    entries = bench.entries // 3
    buffer = max(entries, 32 << 10)  # 1 MB for a million entries of 1 KB
    memory = buffer + entries * 5 // 8
    common = {"entries": entries, "value_bytes": 1008, "lookups": "absent"}
    lines = {"fixed, uniform": [], "fixed, monkey": [], "navigated": []}
    for percent in (10, 30, 50, 70, 90):
        share = percent / 100
        best = advice(bench, entries, memory, share)
        chosen = {"policy": best["policy"], "size_ratio": best["size_ratio"], "bits": round(best["filter_bits_per_entry"], 2), "memtable": int(best["buffer_bytes"])}
        report.progress(f"{percent} % lookups: {best['policy']}, T = {best['size_ratio']}, {chosen['bits']} bits, memtable of {chosen['memtable'] >> 10} KiB")
        setups = {"fixed, uniform": ("uniform", {"memtable": buffer, **common}), "fixed, monkey": ("monkey", {"memtable": buffer, **common}),
                  "navigated": ("monkey", {**chosen, **common})}  # fmt: skip
        bench.measure(list(setups.values()))
        for name, (variant, setup) in setups.items():
            (one,) = bench.figures(variant, **setup)
            lines[name].append((percent, 1 / (share * one["pages"] + (1 - share) * one["write_pages"])))
    gains = [after / before for (_, before), (_, after) in zip(lines["fixed, uniform"], lines["navigated"])]
    yield judged("absent keys and updates: operations for the same pages, least of five mixes / fixed tree with uniform filters", "5, Fig. 13E: at least 1.5", 1.5, min(gains),
                 min(gains) >= 1.5, f"by share of lookups from 10 to 90 %: {', '.join(f'{gain:.2f}' for gain in gains)}")  # fmt: skip
    best = 1 - 1 / max(gains)
    yield judged("the same: pages less, at most", "abstract, 50 to 80 %", 0.8, best, best >= 0.5, "")
    draw(bench, "13E", "policy, T and memory by the tuner", "% of operations that are lookups", plots.Panel("operations a page", lines=lines))


def caches(bench):
    hot, names = (0.1, 0.3, 0.5), ("monkey", "uniform")
    setups = {share: {"cache_share": share, "lookups": ",".join(f"hot:{one}" for one in hot), "entries": bench.entries // 2} for share in (0.2, 0.4)}
    bench.measure([(name, setup) for setup in setups.values() for name in names])
    panels = []
    for share, setup in setups.items():
        panel = plots.Panel(f"pages, cache of {share:.0%} of the data")
        for name in names:
            panel.lines[name] = [(part, one["pages"]) for part, one in zip(hot, bench.figures(name, **setup))]
        saved = [1 - mine / theirs for (_, mine), (_, theirs) in zip(panel.lines["monkey"], panel.lines["uniform"])]
        yield judged(f"existing keys, block cache of {share:.0%}: Monkey reads fewer pages at all of three skews: least saving", "E, Fig. 14", None, min(saved), min(saved) > 0, "")
        panels.append(panel)
    draw(bench, "14", "with a block cache", "newest share of keys that the others' share of lookups asks for", *panels)
