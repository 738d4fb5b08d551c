"""Runs the real server: a free port, a directory of its own, stopped at the end."""

import os
import re
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

ROOT = Path(__file__).resolve().parents[2]
BINARY = Path(os.environ.get("EBBTIDE_SERVER", ROOT / "build/release/bin/ebbtide-server"))


def wait_until(condition, seconds=20.0, what="condition", interval=0.02):
    """Polls `condition` until it is true, and returns its value."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(interval)
    raise AssertionError(f"not within {seconds} s: {what}")


class Server:
    """One server process over one data directory; may be started again after it ended."""

    def __init__(self, directory: Path):
        self.dir = directory
        self.process = None
        self.port = 0
        self.metrics_port = 0
        self.starts = 0

    def start(self, *settings, config=None, metrics=False, wait=True, environment=None, bind="127.0.0.1"):
        self.starts += 1
        self.log_path = self.dir / f"log{self.starts}"
        command = [str(BINARY)]
        if config is not None:
            command += ["--config", str(config)]
        if self.port == 0:
            self.port = free_port()
        command += ["--port", str(self.port), "--dir", str(self.dir / "data"), "--set", f"server.bind={bind}"]
        if metrics:
            self.metrics_port = free_port()
        command += ["--set", f"metrics.port={self.metrics_port if metrics else 0}"]
        command += ["--set", "storage.memory_budget=128MiB"]
        for setting in settings:
            command += ["--set", setting]
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(
                command, stdout=log, stderr=subprocess.STDOUT, env={**os.environ, **(environment or {})}, cwd=self.dir
            )
        if wait:
            self.wait_ready()
        return self

    def wait_ready(self):
        def ready():
            assert self.process.poll() is None, self.log()
            return "ready to accept connections" in self.log()

        wait_until(ready, 60, "the server is ready")

    def log(self):
        return self.log_path.read_text()

    def client(self, **options):
        # No retries: they would hide a reply that got lost.
        return redis.Redis(port=self.port, socket_timeout=30, retry=Retry(NoBackoff(), 0), **options)

    def socket(self):
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=30)
        return connection

    def stop(self, how=signal.SIGTERM):
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(how)
        status = self.process.wait(60)
        return status

    def get(self, path):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}{path}", timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def resident_bytes(self):
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status).group(1)) << 10


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture
def fresh(tmp_path):
    """A server that the test starts itself."""
    server = Server(tmp_path)
    yield server
    if server.process is not None and server.process.poll() is None:
        server.process.kill()
        server.process.wait()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server shared by the tests of a file."""
    running = Server(tmp_path_factory.mktemp("server")).start(metrics=True)
    yield running
    assert running.stop() == 0, running.log()


def receive_all(connection):
    """Everything until the peer closes."""
    data = b""
    while True:
        try:
            part = connection.recv(65536)
        except ConnectionResetError:
            return data
        if not part:
            return data
        data += part


def receive_exactly(connection, size):
    data = b""
    while len(data) < size:
        part = connection.recv(min(1 << 20, size - len(data)))
        assert part, f"closed after {len(data)} of {size} bytes: {data[:100]!r}"
        data += part
    return data
