"""Measures CPU time per command as the data grows and as event loops are added.

For each number of keys, a server is filled in random order and comes to rest. Then SET and GET of random keys and GET of absent
keys run with 50 clients, at pipeline 1 and 16, with each number of event loops. The server restarts in between and its cache is
warmed. The cost is the server's CPU time per command, with the flushes and merges that the load caused. The program prints
slopes: the additional cost for ten times the keys, and for twice the loops.

redis-server runs the same loads where its data fits into memory (about 200 bytes a key of 100-byte values, and its fork). Larger
sizes are left out for it, with a message. Servers take turns: each size is measured on all of them before the next size is
filled.

Other axes measure the engine in one process. `--axes records,tombstones`: a GET, a scan, a flush of one key and an idle database, beside up
to a million live deletes by stamp or by key range. `--axes tables`: a flush of one key and ingest in key order beside up to 100,000 tables.
`--axes databases`: puts, GETs, flushes and an idle engine with up to 1,024 databases. EBBTIDE_BENCH_DIR is the folder of their data.
"""

import argparse
import math
import os
import signal
import sys

from common import engine_axes, load, plots, redis_benchmark, report, servers
from wire import COUNTED, LOADS

REDIS_BYTES_PER_KEY = 220
KEYS_PER_PAGE = 30
POINTS = [one for one in LOADS if one.fsync != "always"]


def parse_arguments():
    parser = argparse.ArgumentParser(prog="./dev bench growth", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="sizes 10k,100k, loops 1,2, 20,000 requests a point, one round")
    parser.add_argument("--sizes", type=report.count_list, metavar="N,N", help="numbers of keys; default 1M,10M,100M (100M: 25 GB of disk)")
    parser.add_argument("--threads", type=report.count_list, metavar="N,N", help="event loops; default 1,2,4")
    parser.add_argument("--requests", type=report.count, help="requests of each point, four times as many for SETs; default 1,000,000")
    parser.add_argument("--rounds", type=int, help="default 3")
    parser.add_argument("--order", choices=["shuffled", "sequential"], default="shuffled", help="order of the fill; sequential is faster and leaves less to merge")
    parser.add_argument("--no-redis", action="store_true", help="Ebbtide only")
    parser.add_argument("--only", default="", help="only points with this text in their name, for instance 'GET, pipeline 16'")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of Ebbtide, as for ebbtide-server; may be repeated")
    parser.add_argument("--axes", default="keys", metavar="AXIS,AXIS", help=f"keys, {', '.join(engine_axes.AXES)}; default keys")
    parser.add_argument("--json", default=str(report.ROOT / "build/bench/growth.json"), help="file for the figures; the plot goes beside it")
    options = parser.parse_args()
    options.sizes = sorted(options.sizes or ([10_000, 100_000] if options.quick else [1_000_000, 10_000_000, 100_000_000]))
    options.threads = sorted(options.threads or ([1, 2] if options.quick else [1, 2, 4]))
    options.requests = options.requests or (20_000 if options.quick else 1_000_000)
    options.rounds = options.rounds or (1 if options.quick else 3)
    options.axes = options.axes.split(",")
    if unknown := [one for one in options.axes if one not in ("keys", *engine_axes.AXES)]:
        parser.error(f"there is no axis '{unknown[0]}'; there are: keys, {', '.join(engine_axes.AXES)}")
    options.points = [one for one in POINTS if options.only in one.name]
    if not options.points:
        parser.error(f"no point has '{options.only}' in its name; there are: {'; '.join(one.name for one in POINTS)}")
    return options


def measure(server, point, keys, options, threads):
    # Flushes and merges are rare and large: a point needs several of them, or its cost is random.
    requests = options.requests * (4 if point.name.startswith("SET") else 1)
    before, cpu = server.counters(), server.cpu_seconds()
    seen = redis_benchmark.run(server, point.name, point.arguments, point.pipeline, requests, keys, threads=max(1, min(threads, (os.cpu_count() or 2) // 2)))
    seen["settle_seconds"] = server.settle()
    seen["cpu_us"] = (server.cpu_seconds() - cpu) / requests * 1e6
    after = server.counters()
    return {**seen, **{name: after[name] - before[name] for name in COUNTED if name in after}}


def warm(server, keys, options):
    """Reads three keys for each page, so that no point pays for a cold cache."""
    redis_benchmark.run(server, "warming", ["-t", "get"], 16, min(keys, max(options.requests, keys // KEYS_PER_PAGE * 3)), keys)


def measure_size(running, keys, options):
    """Returns {(server, loops, point): runs}. `running` has Ebbtide, and a redis-server or None."""
    taken = {}
    for number in range(options.rounds):
        turns = [(server, threads) for server in running for threads in (options.threads if isinstance(server, servers.Ebbtide) else [1])]
        for server, threads in turns if number % 2 == 0 else turns[::-1]:
            report.progress(f"{keys:,} keys, round {number + 1} of {options.rounds}: {server.name}" + (f", {report.plural(threads, 'loop')}" if server.name != "redis" else ""))
            if isinstance(server, servers.Ebbtide):
                server.restart({**servers.pairs_of(options.set), "server.threads": threads})
                server.settle()
            warm(server, keys, options)
            for point in options.points:
                taken.setdefault((server.name, threads, point.name), []).append(measure(server, point, keys, options, threads))
    return taken


def fits_redis(keys):
    pages = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return keys * REDIS_BYTES_PER_KEY * 1.5 < pages


def run_size(keys, options, result):
    running = []
    try:
        if not options.no_redis and fits_redis(keys):
            running.append(servers.Redis())
        elif not options.no_redis:
            report.progress(f"redis-server is left out at {keys:,} keys: about {report.human(keys * REDIS_BYTES_PER_KEY)} do not fit into memory")
        running.append(servers.Ebbtide(servers.pairs_of(options.set)))
        for server in running:
            load.fill(server, keys, redis_benchmark.VALUE_BYTES, order=options.order)
        for (name, threads, point), runs in measure_size(running, keys, options).items():
            result.add(server=name, loops=threads, keys=keys, load=point, median=report.median_of(runs), rounds=runs)
    finally:
        for server in running:
            server.close()


def slope(points):
    """Returns the slope of the straight line through (x, y) by least squares, or None for fewer than two different x."""
    count = len(points)
    if len({x for x, _ in points}) < 2:
        return None
    mean_x, mean_y = sum(x for x, _ in points) / count, sum(y for _, y in points) / count
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / sum((x - mean_x) ** 2 for x, _ in points)


def slopes(figures):
    """Returns [{load, server, by, slope, at_least, relative}]: by keys for each number of loops, and by loops for each number of
    keys."""
    found = []
    for by, fixed, base in (("keys", "loops", 10), ("loops", "keys", 2)):
        for group in dict.fromkeys((one["load"], one["server"], one[fixed]) for one in figures):
            points = [(math.log(one[by], base), one["median"]["cpu_us"]) for one in figures if (one["load"], one["server"], one[fixed]) == group]
            rise = slope(points)
            if rise is not None:
                lowest = min(points)[1]
                found.append({"load": group[0], "server": group[1], "by": by, fixed: group[2], "us_per_step": rise, "at_least": lowest,
                              "relative": rise / lowest if lowest else None})  # fmt: skip
    return found


def show(figures, found, options):
    rows = [[f"{one['load']}", one["server"], f"{one['keys']:,}", one["loops"], f"{one['median']['throughput']:,.0f}",
             f"{one['median']['p99_ms']:.2f}", f"{one['median']['cpu_us']:.2f}"]
            for one in sorted(figures, key=lambda one: (one["load"], one["server"], one["keys"], one["loops"]))]  # fmt: skip
    print(report.table(rows, ["load", "server", "keys", "loops", "requests/s", "p99 ms", "cpu us"]))
    for by, step, fixed in (("keys", "ten times the keys", "loops"), ("loops", "twice the loops", "keys")):
        rows = [[one["load"], one["server"], report.plural(one[fixed], fixed[:-1]), f"{one['us_per_step']:+.2f}", report.cell(one["relative"], "+.0%")]
                for one in found if one["by"] == by]  # fmt: skip
        if rows:
            print(f"\nCPU time per command, more for {step}:\n" + report.table(rows, ["load", "server", "at", "us", "of the first"]))


def plot(figures, path):
    panels = []
    for point in dict.fromkeys(one["load"] for one in figures):
        panel = plots.Panel(f"{point}: us", log_x=True)
        for one in figures:
            if one["load"] == point:
                name = "redis" if one["server"] == "redis" else f"{one['server']}, {report.plural(one['loops'], 'loop')}"
                panel.lines.setdefault(name, []).append((one["keys"], one["median"]["cpu_us"]))
        panels.append(panel)
    plots.draw(path, "CPU time per command", "keys", panels)


def run_keys(options, result):
    servers.need_disk(250 * max(options.sizes) + 2000 * options.requests)
    for keys in options.sizes:
        run_size(keys, options, result)
    figures = [one for one in result.figures if "keys" in one]
    found = slopes(figures)
    show(figures, found, options)
    plot(figures, result.path.with_suffix(""))
    result.finish(slopes=found)


def main():
    options = parse_arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    settings = {name: value for name, value in vars(options).items() if name not in ("points", "json")}
    result = report.Result("growth", options.json, settings, redis=report.first_line("redis-server", "--version"))
    for axis in engine_axes.AXES:
        if axis in options.axes:
            engine_axes.run(axis, options, result)
    if "keys" in options.axes:
        run_keys(options, result)
    else:
        result.finish()


if __name__ == "__main__":
    main()
