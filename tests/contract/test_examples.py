"""Tests that the examples do what examples/README.md says."""

import os
import subprocess
import sys

import pytest

from support.server import ROOT, Server, wait_until

EXAMPLES = ROOT / "examples"


def output_of(*command, **options):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False, timeout=300, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def server():
    with Server() as running:
        yield running


def python_example(server, name, *options):
    return output_of(sys.executable, EXAMPLES / "python" / f"{name}.py", "--port", server.port, *options)


def test_rate_limiter_example_refuses_requests_over_the_limit(server):
    lines = python_example(server, "rate_limiter", "--limit", "3", "--window", "1000").splitlines()
    assert [line.split(": ")[1] for line in lines] == ["allowed"] * 3 + ["refused"] * 2


def test_cache_example_computes_a_value_once_and_deletes_it_when_invalidated(server):
    assert python_example(server, "cache").splitlines()[2] == "after the invalidation: deleted"


def test_erasure_example_removes_the_user_from_all_files_and_prints_a_certificate(server):
    server.client().set("user:7:name", "other")
    printed = python_example(server, "erasure")
    assert "removed from all files" in printed
    assert not server.client().exists("user:42:name")
    assert server.client().get("user:7:name") == b"other"


def test_fleet_example_finds_vehicles_by_place_and_removes_them(server):
    printed = python_example(server, "fleet", "--vehicles", "2000", "--seconds", "2").splitlines()
    assert int(printed[0].split(": ")[1]) > 0
    assert len(printed) == 4
    wait_until(lambda: server.client().execute_command("SPATIAL.COUNT", "fleet", "BOX", -180, -90, 180, 90) == 0)


def test_example_program_builds_with_the_installed_engine_and_runs(tmp_path):
    prefix, build = tmp_path / "prefix", tmp_path / "build"
    output_of("cmake", "--install", ROOT / "build" / "release", "--component", "engine", "--prefix", prefix)
    output_of("cmake", "-S", EXAMPLES / "embedded", "-B", build, f"-DCMAKE_PREFIX_PATH={prefix}")
    output_of("cmake", "--build", build)
    for _ in range(2):  # the second run opens the files of the first
        printed = output_of(build / "embedded", tmp_path / "data", env={**os.environ, "PATH": "/usr/bin:/bin"}).splitlines()
        assert printed[:3] == ["user:1:name is Ada", "user:1:name", "user:2:name"]
        assert printed[3].startswith("deleted; its purge ticket is purge-")
