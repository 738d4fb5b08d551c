"""Compares the server's own TLS port with its plain port: requests a second, latency and CPU time per command, with redis-benchmark.

One server with the shipped YAML listens on both ports. Rounds alternate between them, and every round begins with the other one. Figures
are medians over the rounds. Connections are set up before the measurement; the certificate has a key of the curve P-256.

CPU time per command is the server process's, with all threads. redis-benchmark encrypts, too, on the same machine, so requests a second
say more about both together than about the server.
"""

import argparse
import signal
import sys
import tempfile
from pathlib import Path

from common import redis_benchmark, report, servers
from support.certificates import Authority
from support.server import free_port

LOADS = {"SET": "SET key:__rand_int__ " + "v" * redis_benchmark.VALUE_BYTES, "GET": "GET key:__rand_int__"}
PIPELINES = (1, 16)
MOST = 1.25  # target: CPU time per command to that of the plain port, at pipeline 16


def measure(server, how, arguments, what, pipeline, options):
    cpu = server.cpu_seconds()
    result = redis_benchmark.run(server, f"{how}, {what}, pipeline {pipeline}", arguments, pipeline, options.requests, options.keys, options.clients)
    server.settle()
    result["cpu_us"] = (server.cpu_seconds() - cpu) / options.requests * 1e6
    return result


class Door:
    """One port of the server, as redis_benchmark.run() wants a server."""

    def __init__(self, server, name, port, arguments):
        self.server, self.name, self.port, self.arguments = server, name, port, arguments
        self.info, self.settle, self.cpu_seconds = server.info, server.settle, server.cpu_seconds


def run_all(doors, options):
    """Returns {(load, pipeline): {door: figures of each round}}."""
    runs = {(what, pipeline): {door.name: [] for door in doors} for what in LOADS for pipeline in PIPELINES}
    for turn in range(options.rounds):
        report.progress(f"round {turn + 1} of {options.rounds}")
        for what, command in LOADS.items():
            for pipeline in PIPELINES:
                for door in doors if turn % 2 == 0 else doors[::-1]:
                    figures = measure(door, door.name, [*door.arguments, *command.split()], what, pipeline, options)
                    runs[what, pipeline][door.name].append(figures)
    return runs


def parse_arguments():
    parser = argparse.ArgumentParser(prog="./dev bench tls", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a smoke test: 20,000 requests a point, one round")
    parser.add_argument("--rounds", type=int, help="default 5")
    parser.add_argument("--requests", type=report.count, help="requests of each point; default 1,000,000")
    parser.add_argument("--keys", type=report.count, default=100_000, help="default 100,000")
    parser.add_argument("--clients", type=int, default=50, help="connections; default 50")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of Ebbtide, as for ebbtide-server; may be repeated")
    parser.add_argument("--json", default=str(report.ROOT / "build/bench/tls.json"), help="file for the figures")
    options = parser.parse_args()
    options.rounds = options.rounds or (1 if options.quick else 5)
    options.requests = options.requests or (20_000 if options.quick else 1_000_000)
    return options


def main():
    options = parse_arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # stops the server and removes its directory
    settings = {name: value for name, value in vars(options).items() if name != "json"}
    result = report.Result("tls", options.json, settings, openssl=report.first_line("openssl", "version"))
    with tempfile.TemporaryDirectory() as home:
        authority = Authority(Path(home))
        cert, key = authority.issue("server")
        port = free_port()
        tls = {"server.tls.port": port, "server.tls.auth_clients": "no", "server.tls.cert_file": str(cert), "server.tls.key_file": str(key),
               **servers.pairs_of(options.set)}  # fmt: skip
        with servers.Ebbtide(tls, "ebbtide") as server:
            doors = [Door(server, "plain", server.port, []), Door(server, "TLS", port, ["--tls", "--cacert", str(authority.cert)])]
            runs = run_all(doors, options)
    rows = []
    for (what, pipeline), of_doors in runs.items():
        plain, secure = (report.median_of(of_doors[name]) for name in ("plain", "TLS"))
        ratio = secure["cpu_us"] / plain["cpu_us"]
        result.add(load=what, pipeline=pipeline, cpu_ratio=ratio, median={"plain": plain, "TLS": secure}, rounds=of_doors)
        rows.append([what, pipeline, f"{plain['throughput']:,.0f}", f"{secure['throughput']:,.0f}", report.cell(secure["throughput"] / plain["throughput"]),
                     report.cell(plain["cpu_us"]), report.cell(secure["cpu_us"]), report.cell(ratio)])  # fmt: skip
    print(report.table(rows, ["load", "pipeline", "plain/s", "TLS/s", "ratio", "plain cpu us", "TLS cpu us", "cpu ratio"]))
    print("\ncpu us: the server's CPU time per command. Medians over the rounds.")
    for figure in result.figures:
        if figure["pipeline"] == 16:
            result.target(f"{figure['load']}, pipeline 16: CPU time per command, TLS to plain", figure["cpu_ratio"], MOST)
    result.finish()


if __name__ == "__main__":
    main()
