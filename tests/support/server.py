"""The real server, started by a test: on a free port, in a directory of its own, over a real socket.

    with Server() as server:
        server.client().set("k", "v")
        server.kill()                   # kill -9
        server.start()                  # the same directory, the same port
        assert server.client().get("k") == b"v"

The binary is build/release/bin/ebbtide-server, or what EBBTIDE_SERVER names.
"""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def binary(name="ebbtide-server"):
    """Path of a program of this project."""
    if name == "ebbtide-server" and "EBBTIDE_SERVER" in os.environ:
        return Path(os.environ["EBBTIDE_SERVER"])
    return ROOT / "build" / "release" / "bin" / name


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """One server process and its data directory. Not started by the constructor; a context manager does that and cleans up.

    settings   dotted configuration keys and values, as --set takes them: {"storage.fsync": "always"}
    arguments  more command-line arguments, as they are
    directory  where the data goes; by default a temporary directory that goes with the object
    """

    def __init__(self, settings=None, arguments=(), directory=None, port=None, env=None):
        self.settings = {"metrics.port": 0, **(settings or {})}
        self.arguments = list(arguments)
        self.env = env or {}
        self.port = port or free_port()
        self._own_directory = None if directory else tempfile.mkdtemp(prefix="ebbtide-test-")
        self.home = Path(directory or self._own_directory)
        self.data = self.home / "data"
        self.log_path = self.home / "server.log"
        self.process = None

    # --- life and death
    def command_line(self):
        line = [str(binary()), "--config", str(ROOT / "config" / "ebbtide.yaml"), "--port", str(self.port), "--dir", str(self.data)]
        for key, value in self.settings.items():
            line += ["--set", f"{key}={value}"]
        return line + self.arguments

    def start(self, timeout=60.0, wait=True):
        """Starts it and waits until PING answers. A server that ends instead raises with the last lines of its log."""
        assert self.process is None or self.process.poll() is not None, "already running"
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                self.command_line(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.home, env={**os.environ, **self.env}
            )
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
                with self.connect(timeout=5) as link:
                    link.sendall(b"*1\r\n$4\r\nPING\r\n")
                    last = link.recv(128)
                    if last.startswith((b"+PONG", b"-NOAUTH")):
                        return
            except OSError as error:
                last = error
            time.sleep(0.02)
        raise TimeoutError(f"the server was not ready within {timeout} s (last answer: {last!r}):\n{self.log_tail()}")

    def kill(self):
        """kill -9: nothing is flushed, nothing is said."""
        self._signal(signal.SIGKILL)

    def stop(self, timeout=60.0):
        """SIGTERM; returns the exit status."""
        return self._signal(signal.SIGTERM, timeout)

    def restart(self, timeout=60.0):
        self.stop(timeout)
        return self.start(timeout)

    def _signal(self, number, timeout=60.0):
        if self.process is None:
            return None
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            status = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise TimeoutError(f"the server did not end within {timeout} s of signal {number}:\n{self.log_tail()}") from None
        self.process = None
        return status

    @property
    def pid(self):
        return self.process.pid

    @property
    def running(self):
        return self.process is not None and self.process.poll() is None

    # --- talking to it
    def connect(self, timeout=30.0):
        """A plain socket."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=timeout)

    def client(self, **options):
        """A redis-py client; replies are bytes unless decode_responses=True is given."""
        import redis

        return redis.Redis(host="127.0.0.1", port=self.port, **{"socket_timeout": 60, **options})

    def cli(self, *arguments, stdin=None, timeout=300):
        """Runs redis-cli against it and returns what it prints."""
        done = subprocess.run(
            ["redis-cli", "-p", str(self.port), *arguments], input=stdin, capture_output=True, timeout=timeout, check=False
        )
        if done.returncode:
            raise RuntimeError(f"redis-cli {' '.join(arguments)}: status {done.returncode}: {done.stdout!r} {done.stderr!r}")
        return done.stdout

    def log_tail(self, lines=30):
        try:
            return "\n".join(self.log_path.read_text(errors="replace").splitlines()[-lines:])
        except FileNotFoundError:
            return "(no log)"

    # --- cleaning up
    def close(self):
        """Ends the process, whatever its state, and removes a temporary directory."""
        if self.running:
            self.kill()
        if self._own_directory:
            shutil.rmtree(self._own_directory, ignore_errors=True)

    def __enter__(self):
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_):
        self.close()
