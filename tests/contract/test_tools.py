"""Tests that redis-cli and redis-benchmark work unchanged."""

import csv
import io
import json
import subprocess

import pytest


@pytest.mark.parametrize("protocol", ["-2", "-3"])
def test_redis_cli_sets_gets_and_deletes_a_key(server, protocol):
    key = f"cli{protocol}"
    assert server.cli(protocol, "SET", key, "a value with blanks") == b"OK\n"
    assert server.cli(protocol, "GET", key) == b"a value with blanks\n"
    assert server.cli(protocol, "DEL", key) == b"1\n"
    assert server.cli(protocol, "GET", key) == b"\n"


def test_redis_cli_prints_info(server):
    info = server.cli("INFO").decode()
    assert "# Server" in info and "redis_version:" in info
    fields = dict(line.split(":", 1) for line in info.splitlines() if ":" in line and not line.startswith("#"))
    assert int(fields["tcp_port"]) == server.port


def test_command_docs_describe_the_commands_that_redis_lacks(server):
    """redis-cli makes its hints from these descriptions."""
    wanted = {
        "delrange": ["start", "end"],
        "delprefix": ["prefix"],
        "tree.info": ["index"],
        "purge.ticket": [],
        "purge.wait": ["ticket", "timeout"],
        "purge.report": ["ticket"],
        "stamp.get": ["key"],
        "stamp.delrange": ["lo", "hi"],
    }
    described = json.loads(server.cli("-3", "--json", "COMMAND", "DOCS", *wanted))
    assert {name: [argument["name"] for argument in docs.get("arguments", [])] for name, docs in described.items()} == wanted
    assert all(docs["summary"] for docs in described.values())


@pytest.mark.parametrize("pipeline", [1, 16])
def test_redis_benchmark_runs_its_standard_tests(server, pipeline):
    done = subprocess.run(
        ["redis-benchmark", "-p", str(server.port), "-n", "2000", "-c", "50", "-P", str(pipeline), "-r", "1000", "--csv",
         "-t", "ping,set,get,incr,mset"], capture_output=True, text=True, timeout=120, check=False
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = {row["test"]: float(row["rps"]) for row in csv.DictReader(io.StringIO(done.stdout))}
    assert {"PING_INLINE", "PING_MBULK", "SET", "GET", "INCR"} <= set(rows)
    assert all(rate > 0 for rate in rows.values())
