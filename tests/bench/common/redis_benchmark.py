"""Runs redis-benchmark and parses its output."""

import csv
import io
import subprocess
import time

from common import report

VALUE_BYTES = 100


def parse(text):
    """Returns {throughput, p50_ms, p99_ms, max_ms} from the output of `redis-benchmark --csv` for exactly one test."""
    rows = list(csv.DictReader(io.StringIO(text)))
    if len(rows) != 1 or "rps" not in rows[0]:
        raise ValueError(f"not the result of one test: {text!r}")
    row = rows[0]
    return {
        "throughput": float(row["rps"]),
        "p50_ms": float(row["p50_latency_ms"]),
        "p99_ms": float(row["p99_latency_ms"]),
        "max_ms": float(row["max_latency_ms"]),
    }


def command(port, arguments, pipeline, requests, keys, clients=50, threads=1):
    line = ["redis-benchmark", "-p", str(port), "-c", str(clients), "-P", str(pipeline), "-n", str(requests), "-r", str(keys),
            "-d", str(VALUE_BYTES), "--csv"]  # fmt: skip
    if threads > 1:
        line += ["--threads", str(threads)]
    return line + list(arguments)


def run(server, what, arguments, pipeline, requests, keys, clients=50, threads=1):
    """Runs redis-benchmark once against a server. Returns the result of parse()."""
    process = subprocess.Popen(
        command(server.port, arguments, pipeline, requests, keys, clients, threads), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    ticker = report.Ticker(f"{server.name}, {what}")
    begin = last_look = time.monotonic()
    processed = None
    try:
        while True:
            try:
                out, err = process.communicate(timeout=0.2)
                break
            except subprocess.TimeoutExpired:
                now = time.monotonic()
                if now - last_look < 2:
                    continue
                last_look = now
                total = server.info("stats")["total_commands_processed"]
                processed = total if processed is None else processed
                ticker.tick(f"about {min(99, 100 * (total - processed) // requests)} %")
    except BaseException:
        process.kill()
        process.wait()
        raise
    ticker.done()
    if process.returncode:
        raise SystemExit(f"redis-benchmark against {server.name}, after {time.monotonic() - begin:.0f} s: {out}{err}")
    try:
        return parse(out)
    except ValueError as error:
        raise SystemExit(f"redis-benchmark against {server.name}: {error} {err}") from None
