"""Compares Ebbtide with Debian's redis-server over a socket, with redis-benchmark.

All servers run at once, each with its own data, and take turns: a round runs every load on one server, then on the next, and
every round begins with another server. Between two loads a server comes to rest. Results are medians over the rounds.
redis-server keeps an append-only file, synced every second, without snapshots, as durable as `fsync: everysec`; its other
settings are Debian's defaults. Ebbtide has the shipped YAML.

The data are 1 million keys of 100-byte values, written in random order before the first round. The loads are SET and GET of
random existing keys and GET of absent keys, with 50 clients, at pipeline 1 and 16; and SET with a sync before each reply on both
servers (fewer requests, since a disk makes about a thousand syncs a second).

CPU time per command is the server process's, with all threads and forks, from /proc, with the flushes, merges and rewrites that
the load caused; the measurement waits for their end. System calls are counted in separate runs under strace, which slows a server
down many times over. A figure for SETs means something only if flushes and merges ran meanwhile, so their number is shown.
"""

import argparse
import signal
import sys

from common import load, plots, proc, redis_benchmark, report, servers

WHATS = {"SET": ["-t", "set"], "GET": ["-t", "get"], "GET absent": ["GET", "key:__rand_int__-absent"]}
COUNTED = ("flushes", "compactions", "flush_bytes_written", "compaction_bytes_written", "wal_syncs")


class Load:
    """target: the smallest allowed ratio of Ebbtide's requests a second to redis-server's, or None."""

    def __init__(self, what, pipeline, target, fsync="everysec"):
        self.what, self.pipeline, self.target, self.fsync = what, pipeline, target, fsync
        self.name = f"{what}, pipeline {pipeline}" + (", fsync always" if fsync == "always" else "")
        self.arguments = WHATS[what]

    def requests(self, options):
        return options.always_requests if self.fsync == "always" else options.requests


LOADS = [
    *(Load(what, 1, 1.0) for what in WHATS),
    *(Load(what, 16, 1.6 if what == "SET" else 1.5) for what in WHATS),
    Load("SET", 1, 1.3, "always"),
    Load("SET", 16, None, "always"),
]


def measure(server, load_, options):
    """Runs one load once on one server. Returns its figures, with the server's flushes and merges."""
    requests = load_.requests(options)
    before, cpu = server.counters(), server.cpu_seconds()
    if load_.fsync == "always":
        server.set_fsync("always")
    try:
        result = redis_benchmark.run(
            server, load_.name, load_.arguments, load_.pipeline, requests, options.keys, options.clients, options.benchmark_threads
        )
    finally:
        if load_.fsync == "always":
            server.set_fsync("everysec")
    result["cpu_us_meanwhile"] = (server.cpu_seconds() - cpu) / requests * 1e6
    result["settle_seconds"] = server.settle()
    result["cpu_us"] = (server.cpu_seconds() - cpu) / requests * 1e6
    after = server.counters()
    result.update({name: after[name] - before[name] for name in COUNTED if name in after})
    return result


def count_system_calls(server, load_, options):
    """Returns {name of the system call: calls per command}, which is empty if strace may not attach."""
    requests = min(load_.requests(options), options.strace_requests)
    if load_.fsync == "always":
        server.set_fsync("always")
    with proc.counted_system_calls(server.pid) as calls:
        redis_benchmark.run(server, load_.name, load_.arguments, load_.pipeline, requests, options.keys, options.clients)
    if load_.fsync == "always":
        server.set_fsync("everysec")
    return {name: count / requests for name, count in sorted(calls.items(), key=lambda pair: -pair[1])}


def parse_arguments():
    parser = argparse.ArgumentParser(prog="./dev bench wire", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a smoke test: 100,000 keys, 50,000 requests a point, one round")
    parser.add_argument("--rounds", type=int, help="default 3")
    parser.add_argument("--keys", type=report.count, help="default 1,000,000")
    parser.add_argument("--requests", type=report.count, help="requests of each point; default 5,000,000")
    parser.add_argument("--always-requests", type=report.count, help="requests of each point with fsync always; default a fiftieth of --requests")
    parser.add_argument("--clients", type=int, default=50, help="connections; default 50")
    parser.add_argument("--threads", type=report.count_list, default=[0], metavar="N,N",
                        help="event loops of Ebbtide: one server for each number, for instance 1,2,4; default: one server with the shipped setting")  # fmt: skip
    parser.add_argument("--benchmark-threads", type=int, default=1, help="threads of redis-benchmark; with several event loops, one may not keep up")
    parser.add_argument("--memtable-size", help="Ebbtide's memtable, for instance 16MiB, so that a short run has flushes and merges; default: as shipped")
    parser.add_argument("--only", default="", help="only loads with this text in their name, for instance 'GET, pipeline 16'")
    parser.add_argument("--no-strace", action="store_true", help="do not count system calls")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of Ebbtide, as for ebbtide-server; may be repeated")
    parser.add_argument("--json", default=str(report.ROOT / "build/bench/wire.json"), help="file for the figures; plots go beside it")
    options = parser.parse_args()
    options.keys = options.keys or (100_000 if options.quick else 1_000_000)
    options.requests = options.requests or (50_000 if options.quick else 5_000_000)
    options.always_requests = options.always_requests or max(1000, options.requests // 50)
    options.rounds = options.rounds or (1 if options.quick else 3)
    options.strace_requests = 10_000 if options.quick else 50_000
    options.loads = [one for one in LOADS if options.only in one.name]
    if not options.loads:
        parser.error(f"no load has '{options.only}' in its name; there are: {'; '.join(one.name for one in LOADS)}")
    return options


def contestants(options):
    """Starts the servers one by one and yields each. The caller closes the yielded servers."""
    yield servers.Redis()
    settings = servers.pairs_of(options.set)
    if options.memtable_size:
        settings["storage.memtable_size"] = options.memtable_size
    for threads in options.threads:
        own = {**settings, "server.threads": threads} if threads else settings
        yield servers.Ebbtide(own, f"ebbtide, {report.plural(threads, 'loop')}" if threads else "ebbtide")


def run_all(running, options):
    runs = {one.name: {server.name: [] for server in running} for one in options.loads}
    for number in range(options.rounds):
        first = number % len(running)
        for server in running[first:] + running[:first]:
            report.progress(f"round {number + 1} of {options.rounds}: {server.name}")
            for one in options.loads:
                runs[one.name][server.name].append(measure(server, one, options))
    return runs


def figure_of(load_, runs, calls):
    medians = {server: report.median_of(taken) for server, taken in runs.items()}
    redis = medians["redis"]
    ratios = {
        server: {
            "throughput": median["throughput"] / redis["throughput"],
            "cpu": median["cpu_us"] / redis["cpu_us"] if redis["cpu_us"] else None,
        }
        for server, median in medians.items()
        if server != "redis"
    }
    return {
        "load": load_.name, "pipeline": load_.pipeline, "fsync": load_.fsync, "ratio_to_redis": ratios, "median": medians, "rounds": runs,
        "system_calls_per_command": {server: sum(counted.values()) if counted else None for server, counted in calls.items()},
        "system_calls": calls,
    }  # fmt: skip


def show(figures, names):
    rows = []
    for figure in figures:
        for name in names:
            median = figure["median"][name]
            ratio = figure["ratio_to_redis"].get(name, {})
            rows.append([
                figure["load"] if name == names[0] else "", name, f"{median['throughput']:,.0f}", report.cell(ratio.get("throughput")),
                report.cell(median["p50_ms"]), report.cell(median["p99_ms"]), report.cell(median["cpu_us"]), report.cell(ratio.get("cpu")),
                report.cell(figure["system_calls_per_command"].get(name)), report.cell(median.get("flushes"), ",.0f"),
                report.cell(median.get("compactions"), ",.0f"),
            ])  # fmt: skip
    print(report.table(rows, ["load", "server", "requests/s", "ratio", "p50 ms", "p99 ms", "cpu us", "ratio", "calls", "flushes", "merges"]))
    print(
        "\nRatios: to redis. cpu us and calls: the server's CPU time (with flushes and merges that the load left behind) and system calls "
        "per command. Medians over the rounds."
    )


def judge(result, figures, names, options):
    """Checks the ratios, and whether runs of SETs had enough flushes and merges to mean something."""
    targets = {one.name: one.target for one in LOADS}
    for figure in figures:
        for name in names[1:]:
            if targets[figure["load"]] is not None:
                ratio = figure["ratio_to_redis"][name]["throughput"]
                result.target(f"{figure['load']}: {name} to redis", ratio, targets[figure["load"]], at_most=False)
    enough = True
    for figure in figures:
        if not figure["load"].startswith("SET") or figure["fsync"] == "always":
            continue
        for name in names[1:]:
            for what, least in (("flushes", 10), ("compactions", 3)):
                fewest = min(run[what] for run in figure["rounds"][name])
                result.target(f"{figure['load']}: {what} of {name} in each run", fewest, least, at_most=False)
                enough &= fewest >= least
    if not enough:
        print(f"Too few: use more --requests (now {options.requests:,}) or a smaller --memtable-size.")


def plot(figures, names, path):
    ticks = {number: figure["load"].replace(", pipeline ", "\nP").replace(", fsync always", "\nalways") for number, figure in enumerate(figures)}

    def lines(value):
        return {name: [(number, figure["median"][name][value]) for number, figure in enumerate(figures)] for name in names}

    plots.draw(path, "Over a socket", "load", [
        plots.Panel("requests/s", lines("throughput"), log_y=True, joined=False),
        plots.Panel("CPU us per command", lines("cpu_us"), joined=False),
        plots.Panel("p99 ms", lines("p99_ms"), log_y=True, joined=False, ticks=ticks),
    ])  # fmt: skip


def main():
    options = parse_arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # stops the servers and removes their directories
    settings = {name: value for name, value in vars(options).items() if name not in ("loads", "json")}
    result = report.Result("wire", options.json, {**settings, "value_bytes": redis_benchmark.VALUE_BYTES},
                           redis=report.first_line("redis-server", "--version"))  # fmt: skip
    servers.need_disk(20 * 200 * options.keys + 500 * options.requests)
    running = []
    try:
        for server in contestants(options):
            running.append(server)
            load.fill(server, options.keys, redis_benchmark.VALUE_BYTES)
        runs = run_all(running, options)
        for one in options.loads:
            calls = {}
            for server in () if options.no_strace else running:
                report.progress(f"system calls: {one.name}, {server.name}")
                calls[server.name] = count_system_calls(server, one, options)
            result.add(**figure_of(one, runs[one.name], calls))
    finally:
        for server in running:
            server.close()
    names = [server.name for server in running]
    show(result.figures, names)
    judge(result, result.figures, names, options)
    plot(result.figures, names, result.path.with_suffix(""))
    result.finish()


if __name__ == "__main__":
    main()
