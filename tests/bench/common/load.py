"""Runs bench_load, the load generator."""

import json
import os
import subprocess

from common import programs, report
from support.server import binary


def program():
    return os.environ.get("EBBTIDE_BENCH_LOAD") or str(binary("bench_load"))


def arguments_of(port, **options):
    """Returns the command line of bench_load."""
    return [program(), *programs.arguments_of(port=port, **options)]


def run(server, what, on_interval=None, **options):
    """Runs bench_load once against a server. Returns its summary, with the time line under "intervals".

    on_interval(interval) is called at the end of each interval. Error replies end the program, since the figures would mean
    nothing. With verify, wrong values and missing keys end it, too.
    """
    ticker = report.Ticker(f"{server.name}, {what}")
    intervals, summary = [], None
    command = arguments_of(server.port, **options)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            for line in process.stdout:
                entry = json.loads(line)
                if "summary" in entry:
                    summary = entry["summary"]
                    continue
                intervals.append(entry["interval"])
                done = sum(interval["done"] for interval in intervals)
                ticker.tick(f"{done:,} requests, p99 {intervals[-1]['p99_us'] / 1000:.2f} ms")
                if on_interval:
                    on_interval(intervals[-1])
        except BaseException:
            process.kill()
            raise
    ticker.done()
    if process.returncode or summary is None:
        raise SystemExit(f"bench_load against {server.name} ended with status {process.returncode}; the reason is printed above")
    if summary["errors"] or summary["wrong"]:
        raise SystemExit(
            f"{server.name}, {what}: {summary['errors']} error replies ({summary['first_error']}), {summary['wrong']} wrong values; {' '.join(command)}"
        )
    if options.get("verify") and summary["misses"] and not options.get("absent"):
        raise SystemExit(f"{server.name}, {what}: {summary['misses']} GETs did not find a key that was written; {' '.join(command)}")
    return {**summary, "intervals": intervals}


def fill(server, keys, value_bytes=100, order="shuffled", compressible=0.0, first_key=0, on_interval=None):
    """SETs each key once, as fast as the server accepts them, and waits until the server is at rest. Returns bench_load's
    summary."""
    done = run(
        server, f"filling with {keys:,} keys", on_interval=on_interval, set=True, rate=0, connections=16, depth=64, order=order, keys=keys,
        first_key=first_key, requests=keys, value_bytes=value_bytes, compressible=compressible
    )  # fmt: skip
    if done["answered"] != keys:
        raise SystemExit(f"{server.name}: {done['answered']} of {keys} SETs were answered while filling")
    server.settle()
    return done
