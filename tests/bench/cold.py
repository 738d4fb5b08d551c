"""Measures GETs from the disk with data of ten times the memory budget, and compares them with the drive's own rate.

Ebbtide gets a small budget (256 MiB) and ten times as much data of random bytes. It reads tables past the system's page cache
(storage.direct_io), so every page that its cache lacks comes from the drive. Then it serves GETs of random keys, at several
numbers of GETs at a time: one GET on each connection, or several on fewer connections (4x16: 4 connections, 16 GETs on each). In
turn with Ebbtide, fio makes the same number of 4 KiB random reads at a time over the same files, past the page cache.

The output has GETs per second, their latency, pages and 4 KiB blocks read per GET, and the ratio of GETs per second to the
drive's reads per second. It also has the latency at half of that rate under an open-loop load, from the intended start of each
request.

A memory cgroup that you have made can limit the system's page cache as well: --cgroup /sys/fs/cgroup/NAME. Without io_uring (or
with --set storage.io_uring=false), a server reads as many pages at a time as it has fetch threads (storage.fetch_threads).
"""

import argparse
import signal
import sys

from common import fio, load, plots, proc, report, servers

ENTRY_OVERHEAD = 16  # bytes of the key


class Point:
    """A load: the number of connections, and the number of GETs at a time on each."""

    def __init__(self, text):
        connections, _, pipeline = text.partition("x")
        self.connections, self.pipeline = report.count(connections), report.count(pipeline or "1")
        self.depth = self.connections * self.pipeline

    def __str__(self):
        return f"{self.connections} at a time" if self.pipeline == 1 else f"{self.connections} x {self.pipeline} at a time"

    @staticmethod
    def list_of(text):
        return [Point(part) for part in text.split(",")]


COUNTED = ("gets", "pages_read", "cache_hits", "cache_misses", "filter_negatives", "filter_false_positives")


def parse_arguments():
    parser = argparse.ArgumentParser(prog="./dev bench cold", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a budget of 64 MiB, 640 MiB of data, 3 s a point, one round")
    parser.add_argument("--budget", type=report.size, help="storage.memory_budget; default 256MiB")
    parser.add_argument("--times", type=float, default=10, help="size of keys and values, in multiples of the budget; default 10")
    parser.add_argument(
        "--depths", type=Point.list_of, default="1,4,16,1x16,4x16,16x16", metavar="N,NxN", help="requests at a time; default 1,4,16,1x16,4x16,16x16"
    )
    parser.add_argument("--seconds", type=int, help="duration of each point; default 15")
    parser.add_argument("--rounds", type=int, help="default 3")
    parser.add_argument("--value-bytes", type=int, default=100)
    parser.add_argument("--fio-engine", default="libaio", help="default libaio; psync reads only one block at a time")
    parser.add_argument("--cgroup", help="folder of a memory cgroup for the server; you set its limit")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of Ebbtide, for instance storage.fetch_threads=16; may be repeated")
    parser.add_argument("--json", default=str(report.ROOT / "build/bench/cold.json"), help="file for the figures; the plot goes beside it")
    options = parser.parse_args()
    options.budget = options.budget or (64 << 20 if options.quick else 256 << 20)
    options.seconds = options.seconds or (3 if options.quick else 15)
    options.rounds = options.rounds or (1 if options.quick else 3)
    options.keys = int(options.budget * options.times / (options.value_bytes + ENTRY_OVERHEAD))
    return options


def start(options):
    settings = {"storage.memory_budget": f"{options.budget}B", "storage.direct_io": "true"}
    if options.quick:
        settings["storage.memtable_size"] = "8MiB"  # an eighth of the budget
    server = servers.Ebbtide({**settings, **servers.pairs_of(options.set)})
    if options.cgroup:
        group = proc.MemoryCgroup(options.cgroup)
        group.take(server.pid)
        report.progress(f"the server is in {options.cgroup}, limit {report.human(group.limit) if group.limit else 'none'}")
    else:
        report.progress("no memory cgroup: only direct I/O bypasses the page cache")
    return server


def gets(server, point, options, seed):
    """Measures GETs in a closed loop: a connection sends its next GETs after its replies. Returns a dictionary of figures."""
    before, cpu, read = server.counters(), server.cpu_seconds(), proc.disk_read_bytes(server.pid)
    seen = load.run(
        server, f"GET, {point}", rate=0, connections=point.connections, depth=point.pipeline, gets=1, seconds=options.seconds,
        warmup=min(2, options.seconds / 3), keys=options.keys, value_bytes=options.value_bytes, verify=True, seed=seed
    )  # fmt: skip
    after = server.counters()
    done = max(1, after["gets"] - before["gets"])
    blocks = None if read is None else (proc.disk_read_bytes(server.pid) - read) / 4096 / done
    pages = (after["pages_read"] - before["pages_read"]) / done
    if pages == 0 and blocks:
        pages = None  # data came from the drive, so the server's count of 0 must be wrong
    return {
        "rate": seen["rate"], **{name: seen["get"][name] for name in ("p50_us", "p90_us", "p99_us", "p999_us", "max_us")},
        "misses": seen["misses"], "pages_per_get": pages, "blocks_per_get": blocks,
        "cpu_us": (server.cpu_seconds() - cpu) / done * 1e6, "counters": {name: after[name] - before[name] for name in COUNTED},
    }  # fmt: skip


def paced(server, rate, options, seed):
    """Measures GETs in an open loop at a rate that the server can serve. Returns a dictionary of figures."""
    seen = load.run(server, f"GET at {rate:,.0f}/s", rate=round(rate), connections=50, gets=1, seconds=options.seconds, warmup=1,
                    keys=options.keys, value_bytes=options.value_bytes, verify=True, seed=seed)  # fmt: skip
    return {"rate": seen["rate"], "lag_p999_us": seen["lag"]["p999_us"], "curve": seen["get"]["curve"],
            **{name: seen["get"][name] for name in ("p50_us", "p90_us", "p99_us", "p999_us", "max_us")}}  # fmt: skip


def drive(server, depth, options):
    """Returns the drive's rate with the same files, measured while the server is idle."""
    server.settle()
    return fio.random_reads(sorted(server.data.glob("**/*.data")), depth, options.seconds, engine=options.fio_engine)


def run_all(server, options, result):
    rounds = [{"drive": [], "ebbtide": [], "paced": []} for _ in options.depths]
    for number in range(options.rounds):
        for point, taken in zip(options.depths, rounds):
            report.progress(f"round {number + 1} of {options.rounds}: {point}")
            if number % 2 == 0:
                taken["drive"].append(drive(server, point.depth, options))
            taken["ebbtide"].append(gets(server, point, options, seed=10 * number + point.depth))
            taken["paced"].append(paced(server, taken["ebbtide"][-1]["rate"] / 2, options, seed=1000 + 10 * number + point.depth))
            if number % 2 == 1:
                taken["drive"].append(drive(server, point.depth, options))
    for point, taken in zip(options.depths, rounds):
        median = {name: report.median_of(runs) for name, runs in taken.items()}
        ratio = median["ebbtide"]["rate"] / median["drive"]["iops"]
        result.add(point=str(point), depth=point.depth, pipeline=point.pipeline, ratio=ratio, median=median, rounds=taken)


def show(figures):
    rows = []
    for figure in figures:
        drive, ebbtide, paced_ = figure["median"]["drive"], figure["median"]["ebbtide"], figure["median"]["paced"]
        milli = lambda run: [report.cell(run[name] / 1000 if name in run else None) for name in ("p50_us", "p99_us", "p999_us")]  # noqa: E731
        rows.append([figure["point"], "drive", f"{drive['iops']:,.0f}", "", *milli(drive), "", "", ""])
        rows.append(["", "GET", f"{ebbtide['rate']:,.0f}", f"{figure['ratio']:.2f}", *milli(ebbtide), report.cell(ebbtide["pages_per_get"]),
                     report.cell(ebbtide["blocks_per_get"]), f"{ebbtide['cpu_us']:.1f}"])  # fmt: skip
        rows.append(["", "GET, half the rate", f"{paced_['rate']:,.0f}", "", *milli(paced_), "", "", ""])
    print(report.table(rows, ["", "what", "per second", "ratio", "p50 ms", "p99 ms", "p99.9 ms", "pages/GET", "blocks/GET", "cpu us"]))
    print(
        "\nratio: GETs per second to the drive's own 4 KiB random reads per second. pages: by the server's count. blocks: of 4 KiB, by the kernel's "
        "count of the process's reads from the drive. Half the rate: open loop, from the intended start."
    )


def main():
    options = parse_arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    servers.need_disk(3 * options.budget * options.times)
    result = report.Result("cold", options.json, {**vars(options), "depths": [str(point) for point in options.depths]}, fio=report.first_line("fio", "--version"))
    with start(options) as server:
        load.fill(server, options.keys, options.value_bytes)
        shape = server.counters()
        result.save(data={"keys": options.keys, "table_bytes": shape["table_live_bytes"], "memory": proc.memory(server.pid)})
        print(f"{options.keys:,} keys, {report.human(shape['table_live_bytes'])} of tables, budget {report.human(options.budget)}")
        run_all(server, options, result)
        result.save(memory_after=proc.memory(server.pid), budget=options.budget)
    show(result.figures)
    for figure in result.figures:
        result.target(f"GETs to reads of the drive, {figure['point']}", figure["ratio"], 0.7, at_most=False)
    figures = sorted(result.figures, key=lambda one: one["depth"])
    single, pipelined = [one for one in figures if one["pipeline"] == 1], [one for one in figures if one["pipeline"] > 1]
    lines = lambda of: {"drive, 4 KiB reads": [(one["depth"], of(one["median"]["drive"])) for one in figures],  # noqa: E731
                              "GET": [(one["depth"], of(one["median"]["ebbtide"])) for one in single],
                              "GET, pipelined": [(one["depth"], of(one["median"]["ebbtide"])) for one in pipelined]}  # fmt: skip
    plots.draw(result.path.with_suffix(""), "GETs from the disk", "requests at a time", [
        plots.Panel("per second", lines(lambda run: run.get("iops", run.get("rate"))), log_x=True, log_y=True),
        plots.Panel("p99 ms", lines(lambda run: run.get("p99_us", 0) / 1000), log_y=True,
                    ticks={one["depth"]: str(one["depth"]) for one in figures}),
    ])  # fmt: skip
    result.finish()


if __name__ == "__main__":
    main()
