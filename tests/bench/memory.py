"""Measures the server's memory against its budget, and its start time.

A server with a budget (storage.memory_budget) is filled with many times as much data, in random order, and then read and
overwritten. Its resident size is sampled five times a second; the highest sample may exceed the budget by 10 %. The output also
has the server's own count of its memory (INFO memory) at that sample.

Then the server is stopped cleanly and restarted several times, with the files in the system's page cache and without. The start
time is from the start of the process to the first reply to a GET. The target after a clean stop is at most 2 s. The last start is
after kill -9, with a log to replay.
"""

import argparse
import signal
import statistics
import sys
import threading
import time

from common import load, plots, proc, report, resp, servers

KEY_BYTES = 16
OWNERS = ("used_memory_memtables", "used_memory_block_cache", "used_memory_tables", "mem_clients_normal")


def parse_arguments():
    parser = argparse.ArgumentParser(prog="./dev bench memory", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="1 GB of data, a budget of 256 MiB, memtables of 16 MiB")
    parser.add_argument("--data", type=report.size, help="size of all keys and values; default 10GiB")
    parser.add_argument("--budget", type=report.size, help="storage.memory_budget; default 1GiB")
    parser.add_argument("--value-bytes", type=int, default=400, help="default 400; 100 takes four times as long and has more filters and indexes")
    parser.add_argument("--seconds", type=int, help="duration of reads and overwrites after the fill; default 120")
    parser.add_argument("--connections", type=int, default=200)
    parser.add_argument("--starts", type=int, default=3, help="starts of each kind; default 3")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of Ebbtide, as for ebbtide-server; may be repeated")
    parser.add_argument("--json", default=str(report.ROOT / "build/bench/memory.json"), help="file for the figures; the plot goes beside it")
    options = parser.parse_args()
    options.data = options.data or (10**9 if options.quick else 10 << 30)
    options.budget = options.budget or (256 << 20 if options.quick else 1 << 30)
    options.seconds = options.seconds or (10 if options.quick else 120)
    options.keys = options.data // (options.value_bytes + KEY_BYTES)
    return options


class Sampler:
    """Samples a server's memory five times a second, in a thread of its own, until closed."""

    def __init__(self, server):
        self.server, self.client = server, server.client()
        self.begin = time.monotonic()
        self.samples = []
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        while not self.stopping.wait(0.2):
            try:
                seen, info = proc.memory(self.server.pid), self.client.info("memory")
            except (OSError, KeyError, resp.ReplyError):
                return
            owners = {name: info[name] for name in OWNERS if name in info}
            self.samples.append({"at": round(time.monotonic() - self.begin, 2), **seen, **owners})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stopping.set()
        self.thread.join()
        self.client.close()


def start_seconds(server):
    """Starts a stopped server. Returns the time from the start of its process to the first reply to a GET."""
    begin = time.monotonic()
    server.server.start(wait=False)
    while time.monotonic() - begin < servers.START_TIMEOUT:
        try:
            with server.client() as client:
                client.call("GET", "key:000000000000")
                return time.monotonic() - begin
        except (OSError, resp.ReplyError):  # the server does not listen yet, or replies LOADING
            if not server.server.running:
                break
            time.sleep(0.002)
    raise SystemExit(f"the server did not start:\n{server.server.log_tail()}")


def starts(server, how, options, result):
    """Stops and starts the server `options.starts` times. Returns medians."""
    taken = []
    for number in range(1 if how == "killed" else options.starts):
        report.progress(f"start {number + 1}, {how}")
        if how == "killed":
            load.run(server, "writes before kill -9", set=True, rate=0, depth=16, requests=max(1000, options.keys // 100), keys=options.keys,
                     value_bytes=options.value_bytes, seed=9)  # fmt: skip
        begin = time.monotonic()
        if how == "killed":
            server.server.kill()
        else:
            server.server.stop(servers.START_TIMEOUT)
        stopped = time.monotonic() - begin
        if how == "not cached":
            proc.forget_cached(server.data)
        seconds = start_seconds(server)
        taken.append({"stop_seconds": stopped, "start_seconds": seconds, "resident": proc.memory(server.pid)["rss"]})
        server.settle()
    figure = {"start": how, **{name: statistics.median(one[name] for one in taken) for name in taken[0]}, "all": taken}
    result.add(**figure)
    return figure


def show(result, options, peak):
    budget = options.budget
    print(f"\n{options.keys:,} keys, {report.human(options.data)} of keys and values, budget {report.human(budget)}")
    rows = [["resident, highest", report.human(peak["rss"]), f"{peak['rss'] / budget:.2f}"],
            *([f"  {name.replace('_', ' ')}", report.human(peak[name]), f"{peak[name] / budget:.2f}"] for name in OWNERS if name in peak),
            ["  heap and stacks (anonymous)", report.human(peak["anonymous"]), f"{peak['anonymous'] / budget:.2f}"],
            ["  the program and mapped files", report.human(peak["file"]), f"{peak['file'] / budget:.2f}"]]  # fmt: skip
    print(report.table(rows, ["memory, at the highest sample", "bytes", "of budget"]))
    rows = [[one["start"], f"{one['stop_seconds']:.2f}", f"{one['start_seconds']:.2f}", report.human(one["resident"])] for one in result.figures if "start" in one]
    print("\n" + report.table(rows, ["start", "stop s", "start s", "resident"]))


def main():
    options = parse_arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    result = report.Result("memory", options.json, vars(options))
    servers.need_disk(3 * options.data)
    settings = {"storage.memory_budget": f"{options.budget}B"}
    if options.quick:
        settings["storage.memtable_size"] = "16MiB"
    with servers.Ebbtide({**settings, **servers.pairs_of(options.set)}) as server:
        empty = proc.memory(server.pid)["rss"]
        with Sampler(server) as sampler:
            load.fill(server, options.keys, options.value_bytes)
            filled = sampler.samples[-1]["at"]
            load.run(server, "reading and overwriting", rate=0, depth=4, gets=0.7, seconds=options.seconds, keys=options.keys,
                     connections=options.connections, value_bytes=options.value_bytes, verify=True, seed=5)  # fmt: skip
            server.settle()
        samples = sampler.samples
        peak = max(samples, key=lambda sample: sample["rss"])
        highest = max(sample["peak"] for sample in samples)  # the kernel's own maximum, which includes times between samples
        result.add(empty=empty, peak=peak, highest=highest, filled_at=filled, tables=server.counters()["table_live_bytes"], samples=samples)
        for how in ("cached", "not cached", "killed"):
            starts(server, how, options, result)
    show(result, options, peak)
    print()
    result.target("highest resident size, of the budget", highest / options.budget, 1.10)
    for figure in result.figures:
        if figure.get("start") in ("cached", "not cached"):
            result.target(f"start after a clean stop, files {figure['start']}", figure["start_seconds"], 2, unit="s")
    mib = lambda name: [(sample["at"], sample.get(name, 0) / 2**20) for sample in samples]  # noqa: E731
    plots.draw(result.path.with_suffix(""), "Memory", "seconds", [
        plots.Panel("MiB", {"resident": mib("rss"), "memtables": mib("used_memory_memtables"), "cache": mib("used_memory_block_cache"),
                            "tables": mib("used_memory_tables")}, limit=1.1 * options.budget / 2**20),
    ])  # fmt: skip
    result.finish()


if __name__ == "__main__":
    main()
