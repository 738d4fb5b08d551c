"""Computes the cost of merge policies over many flushes with the simulator, beside theory and Mao's thesis (chapter 3).

    large n    MinLatency and Binomial beyond 4^k flushes are within 2 % of each other. MinLatency follows the curve k m / (k + 1), where
               C(m + k, k) = n + 1, exactly if m is whole; for large n this is k n^(1/k) / c_k, c_k = (k + 1) / (k!)^(1/k) (Eq. 3.1).
               Binomial's trees are full a little earlier, and then it merges everything. So just before MinLatency's trees are full,
               Binomial is a whole write ahead; these moments are not compared.
    growth     Tiered and Leveled grow with log n, Constant with n. The check is the part of the variance that such a line explains.
               Tiered grows in steps, one for each T times as many flushes, so a line does not explain all of it.
    million    k = 10 and a million flushes, with the time of each policy (target: 2 minutes), beside the thesis' figure 3.12

The only measured time is the simulator's own.
"""

import argparse
import csv
import io
import math
import subprocess
import sys
import time

from common import plots, report
from support.server import binary

PAIR = ("min_latency", "binomial")


def parse_arguments():
    parser = argparse.ArgumentParser(prog="./dev bench policies", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a fiftieth of the flushes: to check that everything works")
    parser.add_argument("--only", choices=["large", "growth", "million"], help="one of the three parts")
    parser.add_argument("--json", default=str(report.ROOT / "build/bench/policies.json"), help="file for the figures; plots go beside it")
    return parser.parse_args()


def simulate(policy, moments):
    """Simulates one policy, "name:parameter=value,...". Returns {flushes: figures}, and the seconds that it took."""
    begin = time.monotonic()
    command = [str(binary("ebbtide-simulate")), "--policy", policy, "--flushes", str(max(moments)), "--at", ",".join(map(str, moments)), "--format", "csv", "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: {done.stderr.strip()}")
    rows = {int(row["flushes"]): {name: float(row[name]) for name in row if name != "policy"} for row in csv.DictReader(io.StringIO(done.stdout))}
    return rows, time.monotonic() - begin


# --- theory


def full_tree(k, n):
    """Returns the real number m with C(m + k, k) = n + 1."""
    low, high = 0.0, float(n)
    for _ in range(200):
        middle = (low + high) / 2
        too_small = math.lgamma(middle + k + 1) - math.lgamma(middle + 1) - math.lgamma(k + 1) < math.log(n + 1)
        low, high = (middle, high) if too_small else (low, middle)
    return low


def curve(k, n):
    return k * full_tree(k, n) / (k + 1)


def first_order(k, n):
    return k * n ** (1 / k) * math.exp(math.lgamma(k + 1) / k) / (k + 1)


def explained(points):
    """Returns the part of the variance of y that the best line through (x, y) explains."""
    count = len(points)
    mean_x, mean_y = sum(x for x, _ in points) / count, sum(y for _, y in points) / count
    both = sum((x - mean_x) * (y - mean_y) for x, y in points)
    return both**2 / sum((x - mean_x) ** 2 for x, _ in points) / sum((y - mean_y) ** 2 for _, y in points)


# --- parts


def large(options, result):
    rows = []
    shrink = 50 if options.quick else 1
    for k in (4, 5, 6, 7, 8):
        # Moments are the last full tree within a million flushes, beyond 4^k, where the curve is the exact cost, and moments in
        # between.
        m = int(full_tree(k, 1_000_000 // shrink))
        full = math.comb(m + k, k) - 1
        moments = sorted({full, *(int(full * part) for part in (0.4, 0.6, 0.8))})
        found = {policy: simulate(f"{policy}:k={k}", moments)[0] for policy in PAIR}
        for n in moments:
            lazy, binomial = (found[policy][n]["write_amp"] for policy in PAIR)
            rows.append([f"k = {k}, n = {n:,}", f"{lazy:.3f}", f"{binomial:.3f}", f"{binomial / lazy:.4f}", f"{curve(k, n):.3f}", f"{lazy / curve(k, n):.4f}",
                         f"{lazy / first_order(k, n):.4f}", f"{found[PAIR[0]][n]['avg_runs']:.2f}", f"{found[PAIR[1]][n]['avg_runs']:.2f}"])  # fmt: skip
            result.add(what="large", k=k, flushes=n, full=n == full, min_latency=lazy, binomial=binomial, curve=curve(k, n), first_order=first_order(k, n))
    print(report.table(rows, ["write amplification", "min_latency", "binomial", "ratio", "curve", "to it", "to n^(1/k)", "runs", "runs"]))
    past = [one for one in result.figures if one["what"] == "large" and one["flushes"] > 4 ** one["k"]]
    full = [one for one in past if one["full"]]
    between = [one for one in past if not one["full"]]
    result.target("MinLatency and Binomial, most apart past 4^k flushes", max(abs(one["binomial"] / one["min_latency"] - 1) for one in between), 0.02)
    result.target("MinLatency, most off the curve where a tree is full", max(abs(one["min_latency"] / one["curve"] - 1) for one in full), 0.02)


def growth(options, result):
    print()
    flushes = 20_000 if options.quick else 100_000
    moments = [round(flushes ** (i / 24)) for i in range(8, 25)]
    rows, panel = [], plots.Panel("write amplification", log_x=True, log_y=True)
    for policy, axis in (("tiering:size_ratio=4", math.log), ("tiering:size_ratio=8", math.log), ("leveling:size_ratio=4", math.log),
                         ("leveling:size_ratio=8", math.log), ("constant:k=6", float)):  # fmt: skip
        found, _ = simulate(policy, moments)
        part = explained([(axis(n), one["write_amp"]) for n, one in found.items()])
        rows.append([policy, "log n" if axis is math.log else "n", *(f"{found[n]['write_amp']:,.2f}" for n in moments[4::4]), f"{part:.4f}"])
        result.add(what="growth", policy=policy, explained=part, write_amp=[[n, one["write_amp"]] for n, one in found.items()])
        panel.lines[policy] = [(n, one["write_amp"]) for n, one in found.items()]
    print(report.table(rows, ["write amplification", "grows with", *(f"n = {n:,}" for n in moments[4::4]), "explained"]))
    for one in result.figures:
        if one["what"] == "growth":
            result.target(f"{one['policy']}: explained by its line", one["explained"], 0.95, at_most=False)
    plots.draw(result.path.with_name("policies-growth"), "Tiered, Leveled, Constant", "flushes", [panel])


def million(options, result):
    print()
    flushes = 20_000 if options.quick else 1_000_000
    moments = [round(flushes ** (i / 12)) for i in range(4, 13)]
    rows, panel = [], plots.Panel("write amplification", log_x=True)
    for policy in ("min_latency:k=10", "binomial:k=10", "bigtable:k=10", "exploring:k=10", "concurrent:k=10", "tiering:size_ratio=2", "leveling:size_ratio=4",
                   "one_leveling", "lazy_leveling", "klsm", "garnering"):  # fmt: skip
        report.progress(policy)
        found, seconds = simulate(policy, moments)
        last = found[flushes]
        rows.append([policy, *(f"{last[name]:,.2f}" for name in ("write_amp", "avg_runs", "max_runs", "transient_space_amp")), f"{seconds:.1f}"])
        result.add(what="million", policy=policy, flushes=flushes, seconds=seconds, **{name: last[name] for name in last if name != "flushes"})
        panel.lines[policy] = [(n, one["write_amp"]) for n, one in found.items()]
    print(report.table(rows, [f"{flushes:,} flushes", "write amp", "runs", "at worst", "transient space", "s"]))
    for one in result.figures:
        if one["what"] == "million" and "k=10" in one["policy"]:
            result.target(f"{one['policy']}, {flushes:,} flushes", one["seconds"], 120, unit="s")
    plots.draw(result.path.with_name("policies-million"), "k = 10 (the thesis, figure 3.12c)", "flushes", [panel])


def main():
    options = parse_arguments()
    sys.stdout.reconfigure(line_buffering=True)
    result = report.Result("policies", options.json, vars(options))
    for part in (large, growth, million):
        if options.only in (None, part.__name__):
            part(options, result)
    result.finish()


if __name__ == "__main__":
    main()
