"""Overwrites for minutes, with a time line of throughput, latency and pending merges: does the server stay steady?

Keys and values of twenty times the memtable's size are written once. Then random keys are overwritten:

    flat out  A sixth of the time, with 50 connections that each wait for their reply (closed loop): the largest throughput, and whether the
              server ever stalls under overload.
    paced     The rest of the time at half of that rate, or at --rate, as an open-loop load. Latency counts from the intended start of each
              request, so a stall counts for all requests that should have started meanwhile.

Targets are: no time over 100 ms without a reply while replies are due, in both parts; p99.9 of at most 5 ms in the paced part.

`lag` is the generator's own lateness. A stall that coincides with a lag of the same length is the machine's, not the server's.
"""

import argparse
import signal
import sys

from common import load, plots, proc, report, servers

STALLS = ("write_stall_usec_memtable", "write_stall_usec_runs", "write_stall_usec_pending_bytes")
COUNTED = ("flushes", "compactions", "user_bytes_written", "wal_bytes_written", "flush_bytes_written", "compaction_bytes_written", *STALLS)
KEY_BYTES = 16


def parse_arguments():
    parser = argparse.ArgumentParser(prog="./dev bench steady", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one minute, memtables of 8 MiB")
    parser.add_argument("--minutes", type=float, help="minutes of both parts together; default 10")
    parser.add_argument("--memtable-size", type=report.size, help="storage.memtable_size; default 64MiB, as shipped")
    parser.add_argument("--times", type=float, default=20, help="size of keys and values, in multiples of the memtable; default 20")
    parser.add_argument("--rate", type=float, help="requests per second of the paced part; default half of flat out")
    parser.add_argument("--gets", type=float, default=0, help="fraction of GETs; default 0: SETs only")
    parser.add_argument("--value-bytes", type=int, default=100)
    parser.add_argument("--connections", type=int, default=50)
    parser.add_argument("--depth", type=int, default=1, help="requests that a connection sends at once in the flat-out part; default 1")
    parser.add_argument("--redis", action="store_true", help="measure redis-server, too, after Ebbtide")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of Ebbtide, as for ebbtide-server; may be repeated")
    parser.add_argument("--json", default=str(report.ROOT / "build/bench/steady.json"), help="file for the figures; the plot goes beside it")
    options = parser.parse_args()
    options.minutes = options.minutes or (1 if options.quick else 10)
    options.memtable_size = options.memtable_size or (8 << 20 if options.quick else 64 << 20)
    options.keys = int(options.times * options.memtable_size / (options.value_bytes + KEY_BYTES))
    return options


class TimeLine:
    """Collects the server's INFO at the end of each second of the load."""

    def __init__(self, server):
        self.server, self.client = server, server.client()
        self.rows = []

    def note(self, interval):
        row = {**interval, "rss": proc.memory(self.server.pid)["rss"]}
        if isinstance(self.server, servers.Ebbtide):
            info, tree = self.client.info("ebbtide"), self.client.pairs("TREE.INFO")
            row |= {name: info[name] for name in COUNTED}
            row |= {"pending_bytes": tree["pending-compaction-bytes"], "frozen_memtables": tree["frozen-memtables"],
                    "runs": len(tree["runs"]), "write_stalled": info["write_stalled"]}  # fmt: skip
        self.rows.append(row)


def phase(server, name, options, seconds, **how):
    """Runs one part. Returns the load's results and the server's INFO."""
    line = TimeLine(server)
    before, cpu = server.counters(), server.cpu_seconds()
    seen = load.run(server, name, on_interval=line.note, gets=options.gets, seconds=seconds, keys=options.keys, value_bytes=options.value_bytes,
                    connections=options.connections, **how)  # fmt: skip
    after = server.counters()
    del seen["intervals"]
    done = max(1, seen["answered"])
    return {
        "server": server.name, "phase": name, **seen, "cpu_us": (server.cpu_seconds() - cpu) / done * 1e6,
        "counters": {name: after[name] - before[name] for name in COUNTED if name in after}, "time_line": line.rows,
    }  # fmt: skip


def run_on(server, options, result):
    seconds = options.minutes * 60
    report.progress(f"{server.name}: filling with {options.keys:,} keys")
    load.fill(server, options.keys, options.value_bytes)
    flat = phase(server, "flat out", options, seconds / 6, rate=0, depth=options.depth, seed=2)
    result.add(**flat)
    rate = options.rate or flat["rate"] / 2
    server.settle()
    result.add(**phase(server, "paced", options, seconds * 5 / 6, rate=round(rate), seed=3))


def show(figures):
    rows = []
    for one in figures:
        counters, latency = one["counters"], one["all"]
        written = sum(counters.get(name, 0) for name in ("wal_bytes_written", "flush_bytes_written", "compaction_bytes_written"))
        rows.append([
            f"{one['server']}, {one['phase']}", f"{one['rate']:,.0f}", *(f"{latency[name] / 1000:.2f}" for name in ("p50_us", "p99_us", "p999_us", "max_us")),
            f"{one['longest_gap_ms']:.1f}", len(one["stalls"]), f"{one['lag']['p999_us'] / 1000:.2f}", f"{one['lag']['max_us'] / 1000:.1f}",
            f"{one['cpu_us']:.1f}", report.cell(counters.get("flushes"), ",.0f"), report.cell(counters.get("compactions"), ",.0f"),
            report.cell(written / counters["user_bytes_written"] if counters.get("user_bytes_written") else None, ".1f"),
            report.cell(sum(counters[name] for name in STALLS) / 1e6 if counters else None),
        ])  # fmt: skip
    print(report.table(rows, ["", "per second", "p50 ms", "p99", "p99.9", "max", "gap ms", "stalls", "lag p99.9", "max", "cpu us", "flushes", "merges",
                              "write amp", "delayed s"]))  # fmt: skip
    print("\ngap: the longest time without a reply while replies were due; stalls: such times over 100 ms. delayed: by the server itself.")
    for one in figures:
        for stall in one["stalls"][:10]:
            print(f"  {one['server']}, {one['phase']}: stalled for {stall['ms']:.0f} ms at {stall['at']:.1f} s")


def judge(result):
    for one in result.figures:
        if one["server"] == "redis":
            continue
        result.target(f"longest time without a reply, {one['phase']}", one["longest_gap_ms"], 100, unit="ms")
        if one["phase"] == "paced":
            result.target("p99.9, paced", one["all"]["p999_us"] / 1000, 5, unit="ms")


def plot(figures, path):
    panels = [plots.Panel("requests/s"), plots.Panel("p99.9 ms", log_y=True, limit=5), plots.Panel("longest gap ms", log_y=True, limit=100),
              plots.Panel("pending MiB"), plots.Panel("resident MiB")]  # fmt: skip
    begins = {}
    for one in figures:
        begin = begins.get(one["server"], 0)
        name = f"{one['server']}, {one['phase']}"
        at = [(begin + row["at"], row) for row in one["time_line"]]
        begins[one["server"]] = at[-1][0] + 5 if at else begin
        at = at[:-1] or at  # the last interval is shorter than a second
        panels[0].lines[name] = [(x, row["done"]) for x, row in at]
        panels[1].lines[name] = [(x, row["p999_us"] / 1000 or None) for x, row in at]
        panels[2].lines[name] = [(x, row["longest_gap_ms"] or None) for x, row in at]
        panels[4].lines[name] = [(x, row["rss"] / 2**20) for x, row in at]
        if at and "pending_bytes" in at[0][1]:
            panels[3].lines[name] = [(x, row["pending_bytes"] / 2**20) for x, row in at]
    plots.draw(path, "Overwriting, minute after minute", "seconds", panels)


def main():
    options = parse_arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    result = report.Result("steady", options.json, vars(options), redis=report.first_line("redis-server", "--version"))
    servers.need_disk(4 * options.times * options.memtable_size + (4 << 30))
    settings = {"storage.memtable_size": f"{options.memtable_size}B", **servers.pairs_of(options.set)}
    with servers.Ebbtide(settings) as server:
        run_on(server, options, result)
    if options.redis:
        with servers.Redis() as server:
            run_on(server, options, result)
    show(result.figures)
    judge(result)
    plot(result.figures, result.path.with_suffix(""))
    result.finish()


if __name__ == "__main__":
    main()
