"""Measures latency at fixed rates on redis-server and Ebbtide.

The load is an open loop: requests start by a schedule on 50 connections, even if earlier requests have no reply yet, and latency
counts from the intended start. So a stalled server is late for every request that should have started meanwhile. A client that
waits for each reply before its next request, like redis-benchmark, leaves that out. bench_load --help explains more.

Both servers hold the same keys and take turns: at each rate, each mix of GET and SET runs on one server, then on the other, and
rounds begin with each server in turn. Results are medians over the rounds. `lag` is the generator's own lateness (p99.9):
latencies below it are not the server's.
"""

import argparse
import signal
import sys

from common import load, plots, report, servers

MIXES = {"GET": 1.0, "SET": 0.0, "mixed": 0.5}
SHOWN = ("p50_us", "p90_us", "p99_us", "p999_us", "p9999_us", "max_us")


def parse_arguments():
    parser = argparse.ArgumentParser(prog="./dev bench latency", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="100,000 keys, rates 5,000 and 20,000, 3 s each, one round")
    parser.add_argument("--rates", type=report.count_list, metavar="N,N", help="requests per second; default 10k,30k,60k")
    parser.add_argument("--mixes", default="GET,SET,mixed", help="default GET,SET,mixed; mixed is half and half")
    parser.add_argument("--seconds", type=float, help="duration of each point; default 20, after 2 s of warm-up")
    parser.add_argument("--rounds", type=int, help="default 3")
    parser.add_argument("--keys", type=report.count, help="default 1,000,000")
    parser.add_argument("--value-bytes", type=int, default=100)
    parser.add_argument("--connections", type=int, default=50)
    parser.add_argument("--arrivals", choices=["poisson", "constant"], default="poisson", help="random or equal gaps between requests")
    parser.add_argument("--generator-threads", type=int, default=1)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of Ebbtide, as for ebbtide-server; may be repeated")
    parser.add_argument("--json", default=str(report.ROOT / "build/bench/latency.json"), help="file for the figures; plots go beside it")
    options = parser.parse_args()
    options.keys = options.keys or (100_000 if options.quick else 1_000_000)
    options.rates = options.rates or ([5_000, 20_000] if options.quick else [10_000, 30_000, 60_000])
    options.seconds = options.seconds or (3 if options.quick else 20)
    options.warmup = 0.5 if options.quick else 2
    options.rounds = options.rounds or (1 if options.quick else 3)
    options.mixes = options.mixes.split(",")
    for mix in options.mixes:
        if mix not in MIXES:
            parser.error(f"there is no mix '{mix}'; there are: {', '.join(MIXES)}")
    return options


def measure(server, mix, rate, options, seed):
    cpu = server.cpu_seconds()
    seen = load.run(
        server, f"{mix} at {rate:,}/s", rate=rate, arrivals=options.arrivals, gets=MIXES[mix], seconds=options.seconds, warmup=options.warmup,
        keys=options.keys, value_bytes=options.value_bytes, connections=options.connections, threads=options.generator_threads, verify=True,
        seed=seed, interval=min(1, options.seconds / 10)
    )  # fmt: skip
    cpu = server.cpu_seconds() - cpu
    server.settle()
    return {
        **{name: seen["all"][name] for name in SHOWN}, "rate": seen["rate"], "lag_p999_us": seen["lag"]["p999_us"],
        "longest_gap_ms": seen["longest_gap_ms"], "overloaded": seen["overloaded"], "unanswered": seen["unanswered"],
        "cpu_us": cpu / max(1, sum(one["done"] for one in seen["intervals"])) * 1e6, "get": seen["get"], "set": seen["set"],
        "curve": seen["all"]["curve"],
    }  # fmt: skip


def run_all(running, options, result):
    points = [(mix, rate) for mix in options.mixes for rate in options.rates]
    rounds = {point: {server.name: [] for server in running} for point in points}
    for number in range(options.rounds):
        for mix, rate in points:
            for server in running if number % 2 == 0 else running[::-1]:
                report.progress(f"round {number + 1} of {options.rounds}: {mix} at {rate:,}/s, {server.name}")
                rounds[mix, rate][server.name].append(measure(server, mix, rate, options, seed=number + 1))
    for mix, rate in points:
        taken = rounds[mix, rate]
        result.add(mix=mix, rate=rate, median={name: report.median_of(runs) for name, runs in taken.items()}, rounds=taken)


def show(figures):
    rows = []
    for figure in figures:
        for name, median in figure["median"].items():
            kept_up = "" if median["rate"] > 0.98 * figure["rate"] and not median["overloaded"] else f"only {median['rate']:,.0f}/s"
            rows.append([f"{figure['mix']} at {figure['rate']:,}/s", name, *(f"{median[key] / 1000:.2f}" for key in SHOWN),
                         f"{median['longest_gap_ms']:.1f}", f"{median['cpu_us']:.1f}", f"{median['lag_p999_us'] / 1000:.2f}", kept_up])  # fmt: skip
    print(report.table(rows, ["load", "server", "p50 ms", "p90", "p99", "p99.9", "p99.99", "max", "gap ms", "cpu us", "lag ms", ""]))
    print("\ngap: the longest time without a reply while replies were due. cpu us: the server's, per request. lag: the generator's own, p99.9.")


def plot(figures, path):
    """Draws the latency by percentile. x: one in x requests waits that long."""
    panels = []
    for mix in dict.fromkeys(figure["mix"] for figure in figures):
        panel = plots.Panel(f"{mix}: ms", log_x=True, log_y=True)
        panel.ticks = {2: "50 %", 10: "90 %", 100: "99 %", 1000: "99.9 %", 10_000: "99.99 %", 100_000: "99.999 %"}
        for figure in figures:
            if figure["mix"] != mix:
                continue
            for name, median in figure["median"].items():
                panel.lines[f"{name}, {figure['rate']:,}/s"] = [(1 / (1 - q), us / 1000) for q, us in median["curve"] if 0.5 <= q <= 0.99999]
        panels.append(panel)
    plots.draw(path, "Latency from the intended start", "percentile", panels)


def main():
    options = parse_arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    result = report.Result("latency", options.json, vars(options), redis=report.first_line("redis-server", "--version"))
    servers.need_disk(20 * (options.value_bytes + 100) * options.keys)
    running = []
    try:
        running.append(servers.Redis())
        running.append(servers.Ebbtide(servers.pairs_of(options.set)))
        for server in running:
            load.fill(server, options.keys, options.value_bytes)
        run_all(running, options, result)
    finally:
        for server in running:
            server.close()
    show(result.figures)
    plot(result.figures, result.path.with_suffix(""))
    result.finish()


if __name__ == "__main__":
    main()
