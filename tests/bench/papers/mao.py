"""Mao's thesis (2023): stack-based merge policies on the engine's disk and simulated (chapter 3), an index of places (chapter 4), and
partitioned merges (chapter 5).

    3.3   write amplification over time, by policy: 3,000 flushes (--full 24,000), k = 5, on the engine; the order of policies
    3.11  the same simulated, and how much of the observed curve the simulation explains (R2)
    3.12  simulated: k = 6 and 100,000 flushes; TIERED and LEVELED beside the stacks
    4     an index of 1,000,000 places (--full 100,000,000), uniform and clustered like OpenStreetMap, by policy and order of keys: write
          amplification, inserts, and searches of boxes of 360 by 180 degrees times 1e-3 and 1e-5; beside SQLite's R*Tree
    5     stacks with files that end at range borders: the time of all writes and their merges with entries of 1 KiB, by
          tree.partitioning. Keys are random (--full: also semi-sequential, skewed and strings). Exploring merges runs of similar size,
          bigtable by the total size of newer runs. The thesis' merges without partitions have one thread: `none, 1 thread`. The merges
          of `none` are cut into parts for all threads, like any merge, so that comparison shows what common ends gain.

In 3.3 each flush waits for its merges. In 5, "write s" is the time until the last merge is done; "parts" is the number of parts of
the merges. "moves" counts files that became part of an output without a rewrite. "merged" is the bytes written by merges, divided
by the bytes of the entries. Each run is a process of its own; variants take turns, and each round begins with another one.
"""

import csv
import io
import subprocess
from concurrent.futures import ThreadPoolExecutor

from common import headlines, plots, programs, report
from common.headlines import judged
from papers import places
from support.server import binary

FIGURES = ("3.3", "3.11", "3.12", "4", "5")
K = 5
STACKS = ("min_latency", "binomial", "exploring", "bigtable", "constant")
POLICIES = {**{policy: {"k": K} for policy in STACKS}, "tiering": {"size_ratio": 4}, "leveling": {"size_ratio": 4}}
# Figure 3.12 a: k = 6, with size ratios that give TIERED and LEVELED a similar number of runs.
SIMULATED = {**{policy: {"k": 6} for policy in STACKS}, "tiering": {"size_ratio": 2}, "leveling": {"size_ratio": 9}}

KEYS = ("random", "semi", "skewed", "strings")
VARIANTS = {
    "none, 1 thread": {"partitioning": "none", "background": 1},
    "none": {"partitioning": "none"},
    "size": {"partitioning": "size"},
    "local_range": {"partitioning": "local_range"},
    "global_range": {"partitioning": "global_range"},
}
# The thesis' gain of global ranges with random keys, relative to `none, 1 thread`.
GAINS = {"exploring": 0.18, "bigtable": 0.07}


def run(options, result):
    found = []
    observed = {}
    if options.only in (None, "3.3", "3.11"):
        observed = observe(options, result)
    parts = {"3.3": lambda: order(observed, result), "3.11": lambda: explained(observed, result), "3.12": lambda: simulated(options, result),
             "4": lambda: places.run(options, result), "5": lambda: partitioning(options, result)}  # fmt: skip
    for name, part in parts.items():
        if options.only in (None, name):
            found += part()
    print()
    headlines.show(found, result)


def draw(result, figure, title, x_label, *panels):
    plots.draw(result.path.with_name(f"{result.path.stem}-{figure.replace('.', '-')}"), f"Mao, {title}", x_label, list(panels))


def settings(parameters):
    return ",".join(f"{name}={value}" for name, value in parameters.items())


# --- chapter 3


def observe(options, result):
    """Returns {policy: [(flushes, write amplification)]} on the engine."""
    flushes = report.sized(options, quick=300, default=3_000, full=24_000)

    def one(policy):
        return programs.figures("stacks", f"3.3, {policy}", policy=policy, set=settings(POLICIES[policy]), flushes=flushes)[0]

    with ThreadPoolExecutor(2) as pool:
        figures = dict(zip(POLICIES, pool.map(one, POLICIES)))
    for policy, figure in figures.items():
        result.add(part="3.3", policy=policy, flushes=flushes, parameters=POLICIES[policy], **figure)
    rows = [[policy, settings(POLICIES[policy]), f"{figure['rows'][-1][1]:.2f}", f"{figure['avg_runs']:.2f}"] for policy, figure in figures.items()]
    print(f"\nFigures 3.3 to 3.5: {flushes:,} flushes on the engine")
    print(report.table(rows, ["", "parameter", "write amplification", "runs on average"]))
    observed = {policy: [(row[0], row[1]) for row in figure["rows"]] for policy, figure in figures.items()}
    draw(result, "3.3", f"Figure 3.3: write amplification on the engine, k = {K}", "flushes", plots.Panel("write amplification", lines=dict(observed), log_x=True))
    return observed


def order(observed, result):
    last = {policy: line[-1][1] for policy, line in observed.items()}
    flushes = observed["binomial"][-1][0]
    best = min(STACKS, key=last.get)
    why = ", ".join(f"{policy} {amplification:.2f}" for policy, amplification in sorted(last.items(), key=lambda one: one[1]))
    yield judged("MinLatency writes the least of the stacks", "3.4, Fig. 3.3", None, last["min_latency"] / last[best], last["min_latency"] <= 1.01 * last[best], why)
    ours = last["binomial"] / last["min_latency"]
    yield judged("Binomial / MinLatency", "3.4: a close second", 1, ours, ours <= 1.1, why)
    for policy in ("exploring", "bigtable"):
        ours = last[policy] / last["binomial"]
        yield judged(f"{policy} / Binomial beyond 4^k flushes ({flushes / 4**K:.1f} x 4^k)", "3.6: more", None, ours, ours > 1, why)
    ours = last["leveling"] / last["binomial"]
    yield judged("Leveled, T = 4 / Binomial", "3.4, Fig. 3.4: higher", None, ours, ours > 1, why)
    ours = last["tiering"] / min(last[policy] for policy in STACKS)
    yield judged("Tiered, T = 4 / the best stack", "3.4, Fig. 3.4: lower", None, ours, ours < 1, why)


def simulate(policy, parameters, moments, *more):
    """Returns {flushes: figures} of a policy, as the engine works."""
    command = [str(binary("ebbtide-simulate")), "--policy", f"{policy}:{settings(parameters)}", "--flushes", str(max(moments)), "--at", ",".join(map(str, moments)),
               "--as-engine", "--format", "csv", "--quiet", *more]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: {done.stderr.strip()}")
    return {int(row["flushes"]): {name: float(row[name]) for name in row if name != "policy"} for row in csv.DictReader(io.StringIO(done.stdout))}


def r_squared(observed, expected):
    mean = sum(observed) / len(observed)
    return 1 - sum((seen - said) ** 2 for seen, said in zip(observed, expected)) / sum((seen - mean) ** 2 for seen in observed)


def explained(observed, result):
    panels = []
    for policy, line in observed.items():
        moments = [int(flushes) for flushes, _ in line]
        found = simulate(policy, POLICIES[policy], moments, "--cells", "1")  # a run has one file
        expected = [found[flushes]["write_amp"] for flushes in moments]
        result.add(part="3.11", policy=policy, simulated=[[flushes, value] for flushes, value in zip(moments, expected)])
        panels.append(plots.Panel(policy, lines={"observed": line, "simulated": list(zip(moments, expected))}, log_x=True))
        ours = r_squared([value for _, value in line], expected)
        yield judged(f"{policy}: R2 of simulated to observed write amplification", "3.5, Fig. 3.11", 0.99, ours, ours >= 0.99, f"at the end {line[-1][1]:.2f}, simulated {expected[-1]:.2f}")
    draw(result, "3.11", "Figures 3.10 and 3.11: observed and simulated write amplification", "flushes", *panels)


def simulated(options, result):
    flushes = report.sized(options, quick=2_000, default=100_000, full=100_000)
    moments = [round(flushes ** (i / 12)) for i in range(4, 13)]
    found = {}
    for policy, parameters in SIMULATED.items():
        report.progress(f"3.12, {policy}")
        found[policy] = simulate(policy, parameters, moments)
        result.add(part="3.12", policy=policy, parameters=parameters, rows=[[at, one["write_amp"], one["avg_runs"]] for at, one in found[policy].items()])
    lines = {policy: [(at, one["write_amp"]) for at, one in by_flushes.items()] for policy, by_flushes in found.items()}
    rows = [[policy, settings(SIMULATED[policy]), f"{one[flushes]['write_amp']:.2f}", f"{one[flushes]['avg_runs']:.2f}", f"{one[flushes]['transient_space_amp']:.2f}"] for policy, one in found.items()]
    print(f"\nFigure 3.12 a: {flushes:,} flushes, simulated")
    print(report.table(rows, ["", "parameter", "write amplification", "runs on average", "transient space"]))
    draw(result, "3.12", "Figure 3.12 a: simulated write amplification, k = 6", "flushes", plots.Panel("write amplification", lines=lines, log_x=True, log_y=True))
    last = {policy: line[-1][1] for policy, line in lines.items()}
    ours = last["leveling"] / last["binomial"]
    yield judged("simulated: Leveled / Binomial", "3.5, Fig. 3.12: 3 to 4", 3, ours, ours >= 2.9, "")
    ours = last["tiering"] / last["binomial"]
    yield judged("simulated: Tiered, T = 2 / Binomial", "3.5, Fig. 3.12: more", None, ours, ours > 1, "")
    for policy in ("bigtable", "exploring"):
        ours = last["tiering"] / last[policy]
        why = "cascades are merged in one go here, at 1 + log2(n) / 2"
        yield judged(f"simulated: Tiered, T = 2 / {policy}", "3.5, Fig. 3.12: less", None, ours, ours < 1, why)


# --- chapter 5


def partitioning(options, result):
    entries = report.sized(options, quick=60_000, default=250_000, full=20_000_000)
    rounds = report.sized(options, quick=1, default=3, full=5)
    keys = report.sized(options, quick=KEYS[:1], default=KEYS[:1], full=KEYS)
    # Memtables and files are proportional to the data, so that stacks stay the same.
    size = max(entries * 8 // 1_000_000, 1) << 20
    names = list(VARIANTS)
    for number in range(rounds):
        first = number % len(names)
        for policy in GAINS:
            for kind in keys:
                for name in names[first:] + names[:first]:
                    what = f"5, round {number + 1} of {rounds}: {policy}, {kind}, {name}"
                    (figure,) = programs.figures("partitioning", what, entries=entries, reads=max(entries // 10, 1000), memtable=size, file=size, keys=kind,
                                                 policy=policy, **{"background": 2, **VARIANTS[name]})  # fmt: skip
                    result.add(part="5", keys=kind, policy=policy, variant=name, **figure)
    show(result.figures, keys)
    draw(result, "5", f"section 5.5: {entries:,} entries of 1 KiB, by where files end", "", *[panel_of(result.figures, policy, keys) for policy in GAINS])
    for policy, gain in GAINS.items():
        found = medians(result.figures, policy, "random")
        ranges = found["global_range"]["write_seconds"]
        ours = ranges / found["none, 1 thread"]["write_seconds"]
        yield judged(f"{policy}, random keys: time of global ranges / of none with one thread", "5.5", 1 - gain, ours, ours <= 1 - gain, "")
        ours = ranges / found["none"]["write_seconds"]
        yield judged(f"{policy}, random keys: time of global ranges / of none", "5.5", 1 - gain, ours, ours <= 1 - gain, "merges without partitions are cut by key into parts, too")
        ours = found["global_range"]["gets"]["cpu_ns"] / found["none"]["gets"]["cpu_ns"]
        yield judged(f"{policy}, random keys: CPU of a get, global ranges / none", "5.5: the same", 1, ours, 0.9 <= ours <= 1.1, "")


def medians(figures, policy, keys):
    """Returns {variant: medians over the rounds} of the measured variants."""
    found = {}
    for name in VARIANTS:
        runs = [one for one in figures if one.get("part") == "5" and (one["policy"], one["keys"], one["variant"]) == (policy, keys, name)]
        if runs:
            found[name] = report.median_of(runs) | {
                kind: report.median_of([run[kind] for run in runs]) for kind in ("gets", "scans")
            }  # fmt: skip
    return found


def show(figures, kinds):
    for policy in GAINS:
        rows = []
        for keys in kinds:
            found = medians(figures, policy, keys)
            for name, one in found.items():
                rows.append([keys, name, f"{one['write_seconds']:.2f}", report.cell(one["write_seconds"] / found["none, 1 thread"]["write_seconds"]),
                             report.cell(one["write_seconds"] / found["none"]["write_seconds"]), f"{one['write_cpu_seconds']:.2f}",
                             f"{one['merges']:,.0f}", f"{one['sub_merges']:,.0f}", f"{one['moves']:,.0f}", f"{one['merged_by_written']:.2f}",
                             f"{one['runs']:.0f}", f"{one['files']:,.0f}", f"{one['gets']['per_second']:,.0f}", f"{one['scans']['per_second']:,.0f}"])  # fmt: skip
        print(f"\n{policy}")
        print(report.table(rows, ["keys", "files", "write s", "to 1 thread", "to none", "cpu s", "merges", "parts", "moves", "merged", "runs", "files",
                                  "gets/s", "scans/s"]))  # fmt: skip


def panel_of(figures, policy, kinds):
    panel = plots.Panel(f"{policy}, write s", joined=False, ticks=dict(enumerate(kinds)))
    for at, keys in enumerate(kinds):
        for name, one in medians(figures, policy, keys).items():
            panel.lines.setdefault(name, []).append((at, one["write_seconds"]))
    return panel
