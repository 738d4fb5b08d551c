"""Starts the compared servers, fills and queries them, waits until they are at rest, and stops them."""

import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from common import proc, report, resp
from support.server import Server, free_port

START_TIMEOUT = 600
NO_METRICS = {"metrics.port": 0}  # no program reads the metrics


def data_folder(prefix):
    """Makes a folder for a server's data under EBBTIDE_BENCH_DIR, whose disk is measured. Returns its path."""
    where = os.environ.get("EBBTIDE_BENCH_DIR")
    if where:
        Path(where).mkdir(parents=True, exist_ok=True)
    return tempfile.mkdtemp(prefix=prefix, dir=where)


def need_disk(wanted_bytes, where=None):
    """Ends the program if the data's disk has less free space than `wanted_bytes` and a tenth more."""
    where = where or os.environ.get("EBBTIDE_BENCH_DIR") or tempfile.gettempdir()
    free = shutil.disk_usage(where).free
    if free < wanted_bytes * 1.1:
        raise SystemExit(
            f"{where} has {report.human(free)} free, this needs about {report.human(wanted_bytes)}: take smaller sizes, "
            "or another disk by EBBTIDE_BENCH_DIR"
        )


class Contestant:
    """A running server: .name, .port, .pid, and the operations that all kinds of servers have."""

    name = ""

    def client(self):
        return resp.Client(self.port)

    def info(self, *sections):
        with self.client() as client:
            return client.info(*sections)

    def cpu_seconds(self):
        return proc.cpu_seconds(self.pid)

    def call(self, *arguments):
        with self.client() as client:
            return client.call(*arguments)

    def set_fsync(self, mode):
        self.call("CONFIG", "SET", "appendfsync", mode)

    def settle(self, limit=1800):
        """Waits until the background work of earlier commands is done. Returns the seconds that it took."""
        begin = time.monotonic()
        ticker = report.Ticker(f"{self.name} comes to rest")
        quiet_since = None
        with self.client() as client:
            while time.monotonic() - begin < limit:
                busy = self.busy(client)
                now = time.monotonic()
                if busy:
                    quiet_since = None
                    ticker.tick(busy)
                else:
                    quiet_since = quiet_since or now
                    if now - quiet_since > 0.3:
                        ticker.done()
                        return quiet_since - begin
                time.sleep(0.05)
        raise SystemExit(f"{self.name} was still busy after {limit} s: {busy}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Redis(Contestant):
    """Debian's redis-server with an append-only file, synced every second, without snapshots: as durable as `fsync: everysec`."""

    name = "redis"

    def __init__(self):
        self.port = free_port()
        self.home = data_folder("redis-bench-")
        log = os.path.join(self.home, "log")
        self.process = subprocess.Popen(
            ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--dir", self.home, "--appendonly", "yes",
             "--appendfsync", "everysec", "--save", "", "--daemonize", "no", "--logfile", log]
        )  # fmt: skip
        for _ in range(1200):
            try:
                if self.call("PING") == "PONG":
                    return
            except (OSError, resp.ReplyError):
                pass
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        said = Path(log).read_text(errors="replace")[-2000:] if os.path.exists(log) else ""
        self.close()
        raise SystemExit(f"redis-server did not start: {said}")

    @property
    def pid(self):
        return self.process.pid

    def busy(self, client):
        info = client.info("persistence")
        return "rewrites its file" if info["aof_rewrite_in_progress"] or info["aof_rewrite_scheduled"] else ""

    def counters(self):
        return {}

    def close(self):
        self.process.terminate()
        self.process.wait()
        shutil.rmtree(self.home, ignore_errors=True)


class Ebbtide(Contestant):
    """Ebbtide with the shipped YAML and `settings` on top, in a folder of its own."""

    def __init__(self, settings=None, name="ebbtide", directory=None):
        self.name = name
        self.owned = None if directory else data_folder("ebbtide-bench-")
        self.server = Server(settings={**NO_METRICS, **(settings or {})}, directory=directory or self.owned)
        try:
            self.server.start(timeout=START_TIMEOUT)
        except BaseException:
            self.close()
            raise

    @property
    def pid(self):
        return self.server.pid

    @property
    def port(self):
        return self.server.port

    @property
    def data(self):
        return self.server.data

    def busy(self, client):
        tree = client.pairs("TREE.INFO")
        running = client.info("ebbtide")["compactions_running"]
        if running or tree["frozen-memtables"]:
            return f"{tree['frozen-memtables']} memtables to flush, {running} merges, {report.human(tree['pending-compaction-bytes'])} to write"
        return ""

    def counters(self):
        """Returns the engine's counters so far."""
        return self.info("ebbtide")

    def restart(self, settings=None, timeout=START_TIMEOUT):
        """Stops the server cleanly and starts it again, with other settings if given."""
        self.server.stop(timeout)
        if settings is not None:
            self.server.settings = {**NO_METRICS, **settings}
        self.server.start(timeout)

    def close(self):
        self.server.close()
        if self.owned:
            shutil.rmtree(self.owned, ignore_errors=True)


def pairs_of(words):
    """Converts ["a.b=c"], the form of --set, to {"a.b": "c"}."""
    bad = [word for word in words if "=" not in word]
    if bad:
        raise SystemExit(f"--set {bad[0]}: a setting is given as KEY=VALUE, for instance storage.fsync=always")
    return dict(word.split("=", 1) for word in words)
