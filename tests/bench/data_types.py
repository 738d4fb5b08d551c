"""Compares hashes, lists, sets, sorted sets and places with Debian's redis-server over a socket, with redis-benchmark.

Both servers run at once, each with its own data, and take turns: a round runs every load on one server, then on the other, and every
round begins with another server. Between two loads a server comes to rest. Results are medians over the rounds. redis-server keeps an
append-only file, synced every second; Ebbtide has the shipped YAML.

The data: hashes of 10 fields with 20-byte values; one set and one sorted set of 1,000 members; the same with --members (a million); --places
(100,000) random places on the whole earth, of which a circle of 100 km has about six. GEOADD moves others along one parallel. Each
load names random elements, with 50 clients, at pipeline 1 and 16. LPUSH and RPOP fill and empty one list, so it is a queue as long as
--requests. ZRANK and searches of places have a quarter of the requests. The first ZRANK of a sorted set walks over its members, the others do not.

CPU time per command is the server process's, with all threads and forks, and with the flushes, merges and rewrites that the load caused; the
measurement waits for their end.
"""

import argparse
import math
import random
import signal
import sys

from common import plots, redis_benchmark, report, servers

FIELDS, FEW = 10, 1000
PIPELINES = (1, 16)


class Load:
    """One command. `names`: the number of different keys, fields or members. `targets`: by pipeline, the smallest allowed ratio of
    Ebbtide's requests a second to redis-server's."""

    def __init__(self, what, command, names, targets=None, slowness=1):
        self.what, self.command, self.names = what, command.split(), names
        self.targets, self.slowness = targets or {}, slowness

    def requests(self, options):
        return max(50, options.requests // self.slowness)


def loads_of(options):
    """Returns the loads in the order in which they run."""
    small, large = {1: 0.8, 16: 1.0}, {16: 0.6}
    few, many, places = f"{FEW:,}", f"{options.members:,}", f"{options.places:,}"
    return [
        Load("HSET, 10 fields", "HSET hash:__rand_int__ field:5 value-of-twenty-byte", options.hashes, small),
        Load("HGET, 10 fields", "HGET hash:__rand_int__ field:5", options.hashes, small),
        Load("HGETALL, 10 fields", "HGETALL hash:__rand_int__", options.hashes, small),
        Load("LPUSH", "LPUSH queue value-of-twenty-byte", 1, large),
        Load("RPOP", "RPOP queue", 1, large),
        Load(f"SADD, {few}", "SADD set:few member:__rand_int__", FEW, large),
        Load(f"SISMEMBER, {few}", "SISMEMBER set:few member:__rand_int__", FEW, large),
        Load(f"ZADD, {few}", "ZADD zset:few __rand_int__ member:__rand_int__", FEW, large),
        Load(f"ZRANGEBYSCORE, {few}", "ZRANGEBYSCORE zset:few __rand_int__ +inf LIMIT 0 10", FEW),
        Load(f"ZRANK, {few}", "ZRANK zset:few member:__rand_int__", FEW, slowness=4),
        Load(f"HSET, {many}", "HSET hash:many member:__rand_int__ value-of-twenty-byte", options.members, large),
        Load(f"HGET, {many}", "HGET hash:many member:__rand_int__", options.members, large),
        Load(f"SADD, {many}", "SADD set:many member:__rand_int__", options.members, large),
        Load(f"SISMEMBER, {many}", "SISMEMBER set:many member:__rand_int__", options.members, large),
        Load(f"ZADD, {many}", "ZADD zset:many __rand_int__ member:__rand_int__", options.members, large),
        Load(f"ZRANGEBYSCORE, {many}", "ZRANGEBYSCORE zset:many __rand_int__ +inf LIMIT 0 10", options.members),
        Load(f"ZRANK, {many}", "ZRANK zset:many member:__rand_int__", options.members, slowness=4),
        Load(f"GEOPOS, {places}", "GEOPOS places member:__rand_int__", options.places, large),
        Load(f"GEODIST, {places}", "GEODIST places member:__rand_int__ member:__rand_int__ km", options.places, large),
        Load(f"GEOSEARCH BYRADIUS, {places}", "GEOSEARCH places FROMMEMBER member:__rand_int__ BYRADIUS 100 km ASC", options.places, large, 4),
        Load(f"GEOSEARCH BYBOX, {places}", "GEOSEARCH places FROMMEMBER member:__rand_int__ BYBOX 200 200 km WITHDIST", options.places, large, 4),
        Load(f"GEOADD, {places}", "GEOADD moving __rand_int__e-3 38.1 member:__rand_int__", options.places, large),
    ]


def number(i):
    """Returns a number as redis-benchmark writes __rand_int__."""
    return f"{i:012d}"


def fill(server, options):
    """Writes all elements that the loads name."""
    ticker = report.Ticker(f"filling {server.name}")
    with server.client() as client:
        fields = [word for i in range(FIELDS) for word in (f"field:{i}", "value-of-twenty-byte")]
        for start in range(0, options.hashes, 1000):
            client.pipeline([["HSET", f"hash:{number(i)}", *fields] for i in range(start, min(start + 1000, options.hashes))])
            ticker.tick(f"{start:,} hashes")
        for name, members in (("few", FEW), ("many", options.members)):
            for start in range(0, members, 500):
                part = [f"member:{number(i)}" for i in range(start, min(start + 500, members))]
                client.pipeline([
                    ["SADD", f"set:{name}", *part],
                    ["HSET", f"hash:{name}", *[word for member in part for word in (member, "value-of-twenty-byte")]],
                    ["ZADD", f"zset:{name}", *[word for i, member in enumerate(part) for word in (start + i, member)]],
                ])  # fmt: skip
                ticker.tick(f"{start:,} members")
        randoms = random.Random(1)
        for start in range(0, options.places, 500):
            places = []
            for i in range(start, min(start + 500, options.places)):
                latitude = math.degrees(math.asin(randoms.uniform(-0.99, 0.99)))  # equally many on equal areas; GEOADD refuses the poles
                places += [f"{randoms.uniform(-180, 180):.6f}", f"{latitude:.6f}", f"member:{number(i)}"]
            client.pipeline([["GEOADD", "places", *places]])
            ticker.tick(f"{start:,} places")
    ticker.done()
    server.settle()


def measure(server, load, pipeline, options):
    """Runs one load once on one server. Returns its figures."""
    requests = load.requests(options)
    cpu = server.cpu_seconds()
    name = f"{load.what}, pipeline {pipeline}"
    result = redis_benchmark.run(server, name, load.command, pipeline, requests, load.names, options.clients)
    server.settle()
    result["cpu_us"] = (server.cpu_seconds() - cpu) / requests * 1e6
    return result


def run_all(running, options):
    """Returns {(load, pipeline): {server: figures of each round}}."""
    runs = {(load.what, pipeline): {server.name: [] for server in running} for load in options.loads for pipeline in PIPELINES}
    for turn in range(options.rounds):
        first = turn % len(running)
        for server in running[first:] + running[:first]:
            report.progress(f"round {turn + 1} of {options.rounds}: {server.name}")
            for pipeline in PIPELINES:
                for load in options.loads:
                    runs[load.what, pipeline][server.name].append(measure(server, load, pipeline, options))
    return runs


def figure_of(load, pipeline, runs):
    redis, ours = (report.median_of(runs[server]) for server in ("redis", "ebbtide"))
    return {
        "load": load.what, "pipeline": pipeline, "target": load.targets.get(pipeline),
        "throughput_ratio": ours["throughput"] / redis["throughput"],
        "cpu_ratio": ours["cpu_us"] / redis["cpu_us"] if redis["cpu_us"] else None,
        "median": {"redis": redis, "ebbtide": ours}, "rounds": runs,
    }  # fmt: skip


def show(figures):
    rows = []
    for figure in figures:
        redis, ours = figure["median"]["redis"], figure["median"]["ebbtide"]
        rows.append([
            figure["load"], figure["pipeline"], f"{redis['throughput']:,.0f}", f"{ours['throughput']:,.0f}", report.cell(figure["throughput_ratio"]),
            report.cell(redis["p99_ms"]), report.cell(ours["p99_ms"]), report.cell(redis["cpu_us"]), report.cell(ours["cpu_us"]),
            report.cell(figure["cpu_ratio"]),
        ])  # fmt: skip
    heading = ["load", "pipeline", "redis/s", "ebbtide/s", "ratio", "redis p99 ms", "ebbtide p99 ms", "redis cpu us", "ebbtide cpu us", "cpu ratio"]
    print(report.table(rows, heading))
    print("\nRatios: Ebbtide to redis. cpu us: the server's CPU time per command. Medians over the rounds.")


def plot(figures, path):
    panels = []
    for pipeline in PIPELINES:
        some = [figure for figure in figures if figure["pipeline"] == pipeline]
        ticks = {i: figure["load"].replace(", ", "\n") for i, figure in enumerate(some)}
        lines = {name: [(i, figure["median"][name]["throughput"]) for i, figure in enumerate(some)] for name in ("redis", "ebbtide")}
        panels.append(plots.Panel(f"requests/s, pipeline {pipeline}", lines, log_y=True, joined=False, ticks=ticks))
    plots.draw(path, "Hashes, lists, sets, sorted sets and places", "load", panels)


def parse_arguments():
    parser = argparse.ArgumentParser(
        prog="./dev bench data-types", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a smoke test: 1,000 hashes, 5,000 members, 2,000 places, 20,000 requests a point, one round")
    parser.add_argument("--rounds", type=int, help="default 3")
    parser.add_argument("--hashes", type=report.count, help="small hashes; default 100,000")
    parser.add_argument("--members", type=report.count, help="members of the large set and sorted set, fields of the large hash; default 1,000,000")
    parser.add_argument("--places", type=report.count, help="members of the sorted set of places; default 100,000")
    parser.add_argument("--requests", type=report.count, help="requests of each point; default 1,000,000")
    parser.add_argument("--clients", type=int, default=50, help="connections; default 50")
    parser.add_argument("--only", default="", help="only loads with this text in their name, for instance ZADD")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of Ebbtide, as for ebbtide-server; may be repeated")
    parser.add_argument("--json", default=str(report.ROOT / "build/bench/data-types.json"), help="file for the figures; the plot goes beside it")
    options = parser.parse_args()
    options.rounds = options.rounds or (1 if options.quick else 3)
    options.hashes = options.hashes or (1000 if options.quick else 100_000)
    options.members = options.members or (5000 if options.quick else 1_000_000)
    options.places = options.places or (2000 if options.quick else 100_000)
    options.requests = options.requests or (20_000 if options.quick else 1_000_000)
    options.loads = [load for load in loads_of(options) if options.only in load.what]
    if not options.loads:
        parser.error(f"no load has '{options.only}' in its name; there are: {'; '.join(load.what for load in loads_of(options))}")
    return options


def main():
    options = parse_arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # stops the servers and removes their directories
    settings = {name: value for name, value in vars(options).items() if name not in ("loads", "json")}
    result = report.Result("data-types", options.json, settings, redis=report.first_line("redis-server", "--version"))
    servers.need_disk(1000 * options.members + 1000 * options.hashes + 500 * options.requests * options.rounds)
    running = []
    try:
        for make in (servers.Redis, lambda: servers.Ebbtide(servers.pairs_of(options.set), "ebbtide")):
            running.append(make())
            fill(running[-1], options)
        runs = run_all(running, options)
    finally:
        for server in running:
            server.close()
    for load in options.loads:
        for pipeline in PIPELINES:
            result.add(**figure_of(load, pipeline, runs[load.what, pipeline]))
    show(result.figures)
    for figure in result.figures:
        if figure["target"] is not None:
            result.target(f"{figure['load']}, pipeline {figure['pipeline']}: to redis", figure["throughput_ratio"], figure["target"], at_most=False)
    plot(result.figures, result.path.with_suffix(""))
    result.finish()


if __name__ == "__main__":
    main()
