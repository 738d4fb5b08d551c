"""Ebbtide beside Debian's redis-server, over a socket, with redis-benchmark.

Both servers run at once, each with data of its own, and take turns: a round runs every load on one server, then on the other, and
the next round begins with the other one. What is shown is the median over the rounds. redis-server keeps an append-only file,
synced every second, and no snapshots, which is what `fsync: everysec` promises; all else is as Debian delivers it.

Loads: 1 million keys of 100-byte values, written in key order before the first round; then SET and GET of random keys of those
and GET of absent ones, 50 clients, pipeline 1 and 16.

CPU time per command is the server process's own, all its threads and what it forked, from /proc. System calls are counted in runs
of their own under strace, since that slows a server down many times over.
"""

import argparse
import csv
import io
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import report
from support.server import Server, free_port

TICKS = os.sysconf("SC_CLK_TCK")
VALUE_BYTES = 100
# name, arguments of redis-benchmark, pipeline
LOADS = [
    (f"{what}, pipeline {pipeline}", arguments, pipeline)
    for pipeline in (1, 16)
    for what, arguments in (
        ("SET", ["-t", "set"]),
        ("GET", ["-t", "get"]),
        ("GET absent", ["GET", "absent:__rand_int__"]),
    )
]


def progress(text):
    print(f"[{time.strftime('%H:%M:%S')}] {text}", file=sys.stderr, flush=True)


class Redis:
    """Debian's redis-server with an append-only file, on a free port and a directory of its own."""

    name = "redis"

    def __init__(self):
        self.port = free_port()
        self.home = tempfile.mkdtemp(prefix="redis-bench-")
        self.process = subprocess.Popen(
            ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--dir", self.home, "--appendonly", "yes",
             "--appendfsync", "everysec", "--save", "", "--daemonize", "no", "--logfile", os.path.join(self.home, "log")]
        )  # fmt: skip
        while b"PONG" not in subprocess.run(["redis-cli", "-p", str(self.port), "ping"], capture_output=True, check=False).stdout:
            if self.process.poll() is not None:
                raise SystemExit(f"redis-server did not start; its log is {self.home}/log")
            time.sleep(0.05)

    @property
    def pid(self):
        return self.process.pid

    def close(self):
        self.process.terminate()
        self.process.wait()
        shutil.rmtree(self.home, ignore_errors=True)


class Ebbtide:
    name = "ebbtide"

    def __init__(self, settings):
        self.server = Server(settings=settings).start()
        self.port = self.server.port

    @property
    def pid(self):
        return self.server.pid

    def close(self):
        self.server.close()


def cpu_seconds(pid):
    """User and system time of a process, all threads, with that of its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return sum(int(field) for field in fields[11:15]) / TICKS


def fill(server, keys):
    """SETs key:000000000000 and on, in order, as redis-benchmark names them."""
    value = "x" * VALUE_BYTES
    with subprocess.Popen(["redis-cli", "-p", str(server.port), "--pipe"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as cli:
        for start in range(0, keys, 10_000):
            block = "".join(
                f"*3\r\n$3\r\nSET\r\n$16\r\nkey:{number:012d}\r\n${VALUE_BYTES}\r\n{value}\r\n" for number in range(start, min(keys, start + 10_000))
            )
            cli.stdin.write(block.encode())
        cli.stdin.close()
        said = cli.stdout.read()
    if b"errors: 0," not in said:
        raise SystemExit(f"filling {server.name}: {said.decode(errors='replace')}")


def redis_benchmark(server, arguments, pipeline, requests, keys):
    """One run: {throughput, p50_ms, p99_ms}."""
    done = subprocess.run(
        ["redis-benchmark", "-p", str(server.port), "-c", "50", "-P", str(pipeline), "-n", str(requests), "-r", str(keys),
         "-d", str(VALUE_BYTES), "--csv", *arguments], capture_output=True, text=True, check=False
    )  # fmt: skip
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    if done.returncode or len(rows) != 1:
        raise SystemExit(f"redis-benchmark against {server.name}: {done.stdout}{done.stderr}")
    return {"throughput": float(rows[0]["rps"]), "p50_ms": float(rows[0]["p50_latency_ms"]), "p99_ms": float(rows[0]["p99_latency_ms"])}


def measure(server, arguments, pipeline, requests, keys):
    before = cpu_seconds(server.pid)
    result = redis_benchmark(server, arguments, pipeline, requests, keys)
    result["cpu_us"] = (cpu_seconds(server.pid) - before) / requests * 1e6
    return result


def count_system_calls(server, arguments, pipeline, requests, keys):
    """{name of the call: calls per command}, or None where strace may not attach."""
    with tempfile.NamedTemporaryFile("r", prefix="strace-") as output:
        strace = subprocess.Popen(["strace", "-f", "-c", "-U", "name,calls", "-o", output.name, "-p", str(server.pid)],
                                  stderr=subprocess.PIPE, text=True)  # fmt: skip
        said = strace.stderr.readline()
        if "attached" not in said:
            strace.wait()
            progress(f"no count of system calls: {said.strip()}")
            return None
        try:
            redis_benchmark(server, arguments, pipeline, requests, keys)
        finally:
            strace.send_signal(signal.SIGINT)
            strace.wait()
        calls = {}
        for line in output:
            words = line.split()
            if len(words) == 2 and words[1].isdigit() and words[0] != "total":
                calls[words[0]] = int(words[1]) / requests
        return calls


def parse_arguments():
    parser = argparse.ArgumentParser(prog="./dev bench wire", description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a smoke test: 100,000 keys, short runs, one round")
    parser.add_argument("--rounds", type=int, help="default 5")
    parser.add_argument("--keys", type=int, help="default 1,000,000")
    parser.add_argument("--requests", type=int, help="at pipeline 1; four times as many at 16; default 500,000")
    parser.add_argument("--only", default="", help="loads whose name has this in it, for instance 'GET, pipeline 16'")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="settings of Ebbtide's, as the server takes them")
    parser.add_argument("--json", default=str(report.ROOT / "build/bench/wire.json"))
    options = parser.parse_args()
    options.keys = options.keys or (100_000 if options.quick else 1_000_000)
    options.requests = options.requests or (50_000 if options.quick else 500_000)
    options.rounds = options.rounds or (1 if options.quick else 5)
    return options


def median_of(runs):
    return {key: statistics.median(run[key] for run in runs) for key in runs[0]}


def run_all(servers, loads, options):
    runs = {load[0]: {server.name: [] for server in servers} for load in loads}
    for number in range(options.rounds):
        for server in servers if number % 2 == 0 else servers[::-1]:
            progress(f"round {number + 1} of {options.rounds}: {server.name}")
            for name, arguments, pipeline in loads:
                requests = options.requests * (4 if pipeline > 1 else 1)
                runs[name][server.name].append(measure(server, arguments, pipeline, requests, options.keys))
    calls = {name: {} for name in runs}
    for name, arguments, pipeline in loads:
        for server in servers:
            progress(f"system calls: {name}, {server.name}")
            calls[name][server.name] = count_system_calls(server, arguments, pipeline, min(options.requests, 50_000), options.keys)
    return runs, calls


def show(loads, runs, calls):
    """Prints the table and returns the figures behind it."""
    figures, rows = [], []
    for name, _, pipeline in loads:
        medians = {server: median_of(taken) for server, taken in runs[name].items()}
        redis, ebbtide = medians["redis"], medians["ebbtide"]
        totals = {server: sum(counted.values()) if counted else None for server, counted in calls[name].items()}
        figures.append({
            "load": name, "pipeline": pipeline, "ratio": ebbtide["throughput"] / redis["throughput"],
            "cpu_ratio": ebbtide["cpu_us"] / redis["cpu_us"] if redis["cpu_us"] else None,
            "median": medians, "rounds": runs[name], "system_calls_per_command": totals, "system_calls": calls[name],
        })  # fmt: skip
        rows.append([
            name, f"{redis['throughput']:,.0f}", f"{ebbtide['throughput']:,.0f}", f"{figures[-1]['ratio']:.2f}",
            f"{redis['p99_ms']:.2f}", f"{ebbtide['p99_ms']:.2f}", f"{redis['cpu_us']:.2f}", f"{ebbtide['cpu_us']:.2f}",
            *(f"{totals[server]:.2f}" if totals[server] is not None else "-" for server in ("redis", "ebbtide")),
        ])  # fmt: skip
    print(report.table(rows, ["load", "redis /s", "ebbtide /s", "ratio", "p99 ms", "p99 ms", "cpu us", "cpu us", "calls", "calls"]))
    print("\nPairs are redis, ebbtide. cpu us and calls: the server's CPU time and system calls per command. Medians over the rounds.")
    return figures


def main():
    options = parse_arguments()
    loads = [load for load in LOADS if options.only in load[0]]
    if not loads:
        raise SystemExit(f"no load has '{options.only}' in its name; there are: {'; '.join(load[0] for load in LOADS)}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the servers end and their directories go
    servers = [Redis()]
    try:
        servers.append(Ebbtide(dict(pair.split("=", 1) for pair in options.set)))
        for server in servers:
            progress(f"filling {server.name} with {options.keys:,} keys")
            fill(server, options.keys)
        runs, calls = run_all(servers, loads, options)
    finally:
        for server in servers:
            server.close()
    figures = show(loads, runs, calls)
    settings = {"keys": options.keys, "requests": options.requests, "rounds": options.rounds, "clients": 50, "value_bytes": VALUE_BYTES, "set": options.set}
    report.write_json(options.json, "wire", figures, versions=report.versions(redis=report.first_line("redis-cli", "--version")), settings=settings)
    print(f"written to {options.json}")


if __name__ == "__main__":
    main()
