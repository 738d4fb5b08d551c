"""Starts the real server for a test, on free ports and in a directory of its own.

    with Server() as server:
        server.client().set("k", "v")
        server.kill()                   # kill -9
        server.start()                  # the same directory, the same port
        assert server.client().get("k") == b"v"

The binary is EBBTIDE_SERVER or build/release/bin/ebbtide-server.
"""

import contextlib
import itertools
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request
import weakref
from pathlib import Path

from support.sockets import Link

ROOT = Path(__file__).resolve().parents[2]


def binary(name="ebbtide-server"):
    """Returns the path of a program of this project."""
    if name == "ebbtide-server" and "EBBTIDE_SERVER" in os.environ:
        return Path(os.environ["EBBTIDE_SERVER"])
    return ROOT / "build" / "release" / "bin" / name


# Without a limit, a server refuses writes when less than 5 % of the disk is free, which is common on test machines. With a limit,
# it keeps about half a gigabyte free: eight times tree.memtable_size.
MOST_BYTES = "1TiB"

WORKERS = 16  # each of pytest-xdist's workers has every 16th port
FIRST_PORT, LAST_PORT = 12_000, 32_000  # below the kernel's range for outgoing connections, so that a free port stays free

_ports_lock = threading.Lock()
_ports = {}  # by offset: an endless iterator over the ports


def _ports_of(offset):
    ports = range(FIRST_PORT + offset, LAST_PORT, WORKERS)
    start = random.SystemRandom().randrange(len(ports))
    return itertools.cycle([*ports[start:], *ports[:start]])


def free_port(worker=None):
    """Returns a free port. Another call returns the same port only after all others, 1,250 calls later. Workers of one pytest run
    never get the same ports. `worker`: pytest-xdist's name of the worker, "gw3". Any thread."""
    name = worker or os.environ.get("PYTEST_XDIST_WORKER", "gw0")
    offset = int(name.removeprefix("gw")) % WORKERS
    with _ports_lock:
        ports = _ports.setdefault(offset, _ports_of(offset))
        for port in itertools.islice(ports, (LAST_PORT - FIRST_PORT) // WORKERS):
            with contextlib.suppress(OSError), socket.socket() as probe:
                probe.bind(("127.0.0.1", port))
                return port
    raise RuntimeError(f"no port from {FIRST_PORT} to {LAST_PORT} is free for worker {name}")


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
    """One server process and its data directory. The constructor does not start the server. The context manager starts it, and
    cleans up at the end.

        settings   dotted configuration keys and values, as for --set: {"storage.fsync": "always"}
        directory  for data and log; by default a temporary directory that is removed with the object
        config     the YAML file; by default the shipped file; None: no file
        prefix     a command that runs the server: ["nice"]
    """

    all = weakref.WeakSet()  # every living object, for the report of a failed test

    def __init__(self, settings=None, directory=None, config=ROOT / "config" / "ebbtide.yaml", prefix=()):
        self.port = free_port()
        self.settings = {"metrics.port": free_port(), "storage.max_disk_bytes": MOST_BYTES, **(settings or {})}
        self.config = config
        self.prefix = list(prefix)
        self._own_directory = None if directory else tempfile.mkdtemp(prefix="ebbtide-test-")
        self.home = Path(directory or self._own_directory)
        self.data = self.home / "data"
        self.log_path = self.home / "server.log"
        self.process = None
        self._last_words = ""  # the end of the log, kept when the log is removed
        Server.all.add(self)

    def set(self, *settings):
        """Adds settings, in the form "key=value", for all later starts: server.set("storage.fsync=always").start()"""
        self.settings.update(setting.split("=", 1) for setting in settings)
        return self

    # --- start and stop
    def command_line(self):
        line = [*self.prefix, str(binary()), "--port", str(self.port), "--dir", str(self.data)]
        if self.config is not None:
            line += ["--config", str(self.config)]
        for key, value in self.settings.items():
            line += ["--set", f"{key}={value}"]
        return line

    def start(self, timeout=60.0, wait=True):
        """Starts the server and waits until it is ready. If it ends instead, raises with the last lines of its log."""
        assert not self.running, "the server is already running"
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(self.command_line(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.home)
        if wait:
            self.wait_ready(timeout)
        return self

    def wait_ready(self, timeout=60.0):
        deadline = time.monotonic() + timeout
        last = "no connection"
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise RuntimeError(f"the server ended with status {self.process.returncode}:\n{self.log_tail()}")
            try:
                ready, last = self._ready()
                if ready:
                    return
            except OSError as error:
                last = error
            time.sleep(0.02)
        raise TimeoutError(f"the server was not ready within {timeout} s (last answer: {last!r}):\n{self.log_tail()}")

    def _ready(self):
        """Returns true if the server is ready, and its answer. Asks the metrics port if there is one, since a connection to the
        other port would count as a client."""
        if self.metrics_port != 0:
            answer = self.http("/ready")
            return answer[0] == 200, answer
        with self.connect(timeout=5) as link:
            link.sendall(b"*1\r\n$4\r\nPING\r\n")
            answer = link.recv(128)
            return answer.startswith((b"+PONG", b"-NOAUTH")), answer

    def kill(self):
        """Ends the process with kill -9: nothing is flushed or logged."""
        return self._end(signal.SIGKILL)

    def stop(self, timeout=60.0):
        """Ends the process with SIGTERM. Returns the exit status."""
        return self._end(signal.SIGTERM, timeout)

    def wait(self, timeout=60.0):
        """Waits until the server ends by itself. Returns the exit status."""
        return self._end(None, timeout)

    def restart(self, timeout=60.0):
        self.stop(timeout)
        return self.start(timeout)

    def _end(self, number, timeout=60.0):
        if self.process is None:
            return None
        if number is not None and self.process.poll() is None:
            self.process.send_signal(number)
        try:
            status = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise TimeoutError(f"the server did not end within {timeout} s (signal {number}):\n{self.log_tail()}") from None
        self.process = None
        return status

    @property
    def metrics_port(self):
        return int(self.settings["metrics.port"])

    @property
    def pid(self):
        return self.process.pid

    @property
    def running(self):
        return self.process is not None and self.process.poll() is None

    # --- connections
    def connect(self, timeout=30.0):
        """Returns a plain socket that is connected to the server."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=timeout)

    def client(self, **options):
        """Returns a redis-py client without retries, since retries would hide a lost reply. Replies are bytes, unless
        decode_responses=True."""
        import redis
        from redis.backoff import NoBackoff
        from redis.retry import Retry

        return redis.Redis(host="127.0.0.1", port=self.port, **{"socket_timeout": 60, "retry": Retry(NoBackoff(), 0), **options})

    def cli(self, *arguments, stdin=None, timeout=300):
        """Runs redis-cli against the server and returns its output."""
        done = subprocess.run(
            ["redis-cli", "-p", str(self.port), *arguments], input=stdin, capture_output=True, timeout=timeout, check=False
        )
        if done.returncode:
            raise RuntimeError(f"redis-cli {' '.join(arguments)}: status {done.returncode}: {done.stdout!r} {done.stderr!r}")
        return done.stdout

    def http(self, path):
        """Gets a page of the metrics port. Returns (status, text)."""
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # without the environment's proxy
        try:
            with direct.open(f"http://127.0.0.1:{self.metrics_port}{path}", timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    # --- inspection
    def log(self):
        """Returns the text of the log of all starts so far."""
        try:
            return self.log_path.read_text(errors="replace")
        except FileNotFoundError:
            return "(no log)"

    def log_tail(self, lines=30):
        if self._last_words and not self.log_path.exists():
            return self._last_words
        return "\n".join(self.log().splitlines()[-lines:])

    def resident_bytes(self):
        return self._status_bytes("VmRSS")

    def peak_resident_bytes(self):
        """Returns the largest resident size since the process started, in bytes."""
        return self._status_bytes("VmHWM")

    def _status_bytes(self, field):
        if "EBBTIDE_SANITIZED" in os.environ:
            return 0  # a sanitizer's memory does not count
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(re.search(rf"{field}:\s+(\d+)", status).group(1)) << 10

    # --- cleaning up
    def close(self):
        """Ends the process in any state, and removes its directory if that is temporary."""
        if self.running:
            self.kill()
        if self._own_directory:
            self._last_words = self.log_tail()
            shutil.rmtree(self._own_directory, ignore_errors=True)

    def __enter__(self):
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_):
        self.close()


@contextlib.contextmanager
def redis_server(home, *options):
    """Starts a redis-server without snapshots in the directory `home`, and returns its port. ./dev puts its program on the
    path."""
    if shutil.which("redis-server") is None:
        raise RuntimeError("there is no redis-server to compare with: ./dev test provides one")
    port, log = free_port(), Path(home) / "redis.log"
    process = subprocess.Popen(
        ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(home), "--logfile", str(log), *options]
    )

    def answers():
        if process.poll() is not None:
            raise RuntimeError(f"redis-server ended:\n{log.read_text()[-2000:] if log.exists() else '(no log)'}")
        with contextlib.suppress(OSError):
            Link(port).close()
            return True

    try:
        wait_until(answers, 30, "redis-server answers")
        yield port
    finally:
        process.kill()
        process.wait()
