"""The tools that come with Redis work as they are: redis-cli and redis-benchmark."""

import csv
import io
import json
import subprocess

import pytest


@pytest.mark.parametrize("protocol", ["-2", "-3"])
def test_redis_cli_sets_gets_and_deletes(server, protocol):
    key = f"cli{protocol}"
    assert server.cli(protocol, "SET", key, "a value with blanks") == b"OK\n"
    assert server.cli(protocol, "GET", key) == b"a value with blanks\n"
    assert server.cli(protocol, "DEL", key) == b"1\n"
    assert server.cli(protocol, "GET", key) == b"\n"


def test_redis_cli_scan_follows_cursors(server):
    client = server.client()
    client.mset({f"scan:{number}": "x" for number in range(500)})
    assert len(set(server.cli("--scan", "--pattern", "scan:*").split())) == 500


def test_redis_cli_pipe_reports_errors_and_replies(server):
    said = server.cli("--pipe", stdin=b"*3\r\n$3\r\nSET\r\n$4\r\npipe\r\n$1\r\nx\r\n" * 1000)
    assert b"errors: 0, replies: 1000" in said


def test_redis_cli_stat_and_info_parse(server):
    info = server.cli("INFO").decode()
    assert "# Server" in info and "redis_version:" in info
    fields = dict(line.split(":", 1) for line in info.splitlines() if ":" in line and not line.startswith("#"))
    assert int(fields["tcp_port"]) == server.port


def test_command_docs_describe_our_own_commands(server):
    """What redis-cli makes its hints of."""
    docs = server.cli("-3", "--json", "COMMAND", "DOCS", "delrange", "delprefix", "tree.info")
    described = json.loads(docs)
    assert set(described) == {"delrange", "delprefix", "tree.info"}
    assert all(docs["summary"] for docs in described.values())
    assert [argument["name"] for argument in described["delrange"]["arguments"]] == ["start", "end"]


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
