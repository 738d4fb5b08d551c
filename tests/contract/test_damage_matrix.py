"""Tests each kind of damage to each kind of file in the data directory, while the server is stopped and while it runs.

After the damage the server either starts or refuses to start:
 - It starts: each key has its value, or its read is refused with an error that names a file. FLUSHDB makes the damaged databases
   usable again, and the other databases have all of their data.
 - It refuses: one line of the log names the file and a remedy, and salvage saves the readable keys.
In no case does a key have a wrong value, or a deleted key come back. No key is absent without an error. The cases of a test run
side by side, since each of them mostly waits for its server.
"""

import contextlib
import itertools
import json
import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis

from conftest import SETTINGS
from support.files import flip
from support.server import Server, binary, wait_until

# A superuser without the right to read any file, so that a missing permission counts.
PERMISSIONS_COUNT = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-dac_override,-dac_read_search"]
DATABASES = (0, 3)
KEYS = 60
SIDE_BY_SIDE = 4


def value_of(db, key):
    return f"{db}:{key}:".encode() * 40


class Contents:
    """The expected contents of the databases: the keys with a value, and the deleted keys."""

    def __init__(self):
        self.alive = {(db, f"{kind}{i}") for db in DATABASES for kind in ("table", "log") for i in range(KEYS)}
        self.dead = {(db, f"{kind}{i}") for db in DATABASES for kind in ("purged", "hidden", "logged") for i in range(KEYS)}


def fill(server):
    """Fills two databases, each with a table, and with operations that only the log has, in several segments."""
    server.set("storage.wal_segment_size=1MiB", "storage.compression=none", "storage.compression_last_level=none").start()
    for db in DATABASES:
        client = server.client(db=db)
        kinds = ("table", "purged", "hidden", "logged")
        client.mset({f"{kind}{i}": value_of(db, f"{kind}{i}") for kind in kinds for i in range(KEYS)})
        client.delete(*(f"purged{i}" for i in range(KEYS)))
        client.execute_command("TREE.FLUSH")
        client.delete(*(f"hidden{i}" for i in range(KEYS)))
        client.execute_command("TREE.FLUSH")
    for i in range(KEYS):
        for db in DATABASES:
            client = server.client(db=db)
            client.set(f"log{i}", value_of(db, f"log{i}"))
            client.set("filler", b"f" * 20_000)  # so that the log has several segments
            client.delete(f"logged{i}")
            client.close()
    assert server.stop() == 0, server.log_tail()


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Gives the directory of a server that was stopped."""
    server = Server(SETTINGS, tmp_path_factory.mktemp("whole"), config=None)
    fill(server)
    server.close()
    return server.data


def logs(data):
    return sorted(data.glob("*.wal"))


KINDS = {
    "data": lambda data: sorted(data.glob("*.data"))[0],
    "meta": lambda data: sorted(data.glob("*.meta"))[0],
    "manifest": lambda data: next(iter(data.glob("MANIFEST-*"))),
    "current": lambda data: data / "CURRENT",
    "oldest log": lambda data: logs(data)[0],
    "middle log": lambda data: logs(data)[1],
    "newest log": lambda data: logs(data)[-1],
    "newest log with records": lambda data: logs(data)[-2],
    "lock": lambda data: data / "LOCK",
    "reserve": lambda data: data / "RESERVE",
    "id": lambda data: data / "DATABASE_ID",
}


def numbered(path):
    """Returns the path with an unused file number; for a file without a number, the path with the suffix of unfinished files."""
    name = path.name
    digits = "".join(c for c in name if c.isdigit())
    return path.with_name(name.replace(digits, "900001") if digits else name + ".tmp")


def overwrite(path, content):
    with open(path, "r+b") as file:  # the same file, which the server may have open
        file.truncate(0)
        file.write(content)


def into_directory(path):
    path.unlink(missing_ok=True)
    path.mkdir()
    (path / "file").write_bytes(b"x")


HARMS = {
    "flipped": lambda path: flip(path, path.stat().st_size // 2) if path.stat().st_size else None,
    "flipped near its end": lambda path: flip(path, path.stat().st_size * 15 // 16) if path.stat().st_size else None,
    "halved": lambda path: os.truncate(path, path.stat().st_size // 2),
    "emptied": lambda path: os.truncate(path, 0),
    "zeroed": lambda path: overwrite(path, b"\0" * path.stat().st_size),
    "longer": lambda path: path.open("ab").write(b"garbage" * 100),
    "deleted": lambda path: path.unlink(),
    "a directory": into_directory,
    "a dangling link": lambda path: (path.unlink(), path.symlink_to("nothing")),
    "unreadable": lambda path: path.chmod(0),
    "with a backup": lambda path: shutil.copy(path, path.with_name(path.name + ".bak")),
    "with a copy": lambda path: shutil.copy(path, numbered(path)),
    "with a directory": lambda path: numbered(path).mkdir(),
    "with an empty file": lambda path: numbered(path).touch(),
}
EXTRAS = ("with a backup", "with a copy", "with a directory", "with an empty file")
REMEDIES = ("ebbtide-inspect", "remove it", "Permission denied")


def check_reads(server, contents):
    """Returns the databases that refused a read. Every other key must have its value, and no deleted key may have one."""
    damaged = {}
    for db in DATABASES:
        with contextlib.closing(server.client(db=db)) as client:
            keys = sorted(key for d, key in contents.alive | contents.dead if d == db)
            pipe = client.pipeline(transaction=False)
            for key in keys:
                pipe.get(key)
            for key, reply in zip(keys, pipe.execute(raise_on_error=False), strict=True):
                if isinstance(reply, redis.ResponseError):
                    damaged.setdefault(db, str(reply))
                elif (db, key) in contents.alive:
                    assert reply == value_of(db, key), f"{key} of database {db} is {reply!r:.60}"
                else:
                    assert reply is None, f"deleted {key} of database {db} is back"
    return damaged


def write(server, contents, prefix):
    """Writes and deletes keys while the server runs. Writes that are not acknowledged may or may not have happened."""
    for db in DATABASES:
        with contextlib.closing(server.client(db=db)) as client:
            for i in range(10):
                key, victim = (db, f"{prefix}{i}"), (db, f"log{i}" if prefix == "during" else f"log{i + 20}")
                for command, effect in (
                    (("SET", key[1], value_of(*key)), contents.alive.add),
                    (("DEL", victim[1]), contents.dead.add),
                ):
                    contents.alive.discard(victim)
                    with contextlib.suppress(redis.ResponseError, redis.ConnectionError):
                        client.execute_command(*command)
                        effect(key if command[0] == "SET" else victim)


def accepts_writes(server):
    with contextlib.suppress(redis.ResponseError, redis.ConnectionError), contextlib.closing(server.client(db=1)) as client:
        return client.set("probe", "v")
    return False


def salvaged(server, contents, home):
    """Salvages the data directory into a new one. Checks that the new one has no wrong value and no deleted key."""
    home.mkdir()
    done = subprocess.run([binary("ebbtide-inspect"), "salvage", server.data, home / "data", "--json"], capture_output=True, timeout=60, check=False)
    said = json.loads(done.stdout)
    assert done.returncode in (0, 1), f"salvage: {said.get('errors')}"
    rescued = Server(SETTINGS, home, config=None)
    try:
        rescued.start()
        for db in DATABASES:
            client = rescued.client(db=db)
            for key in client.keys():
                assert (db, key.decode()) not in contents.dead, f"salvage brought back {key}"
                assert key == b"filler" or client.get(key) == value_of(db, key.decode()) , f"salvage changed {key}"
    finally:
        rescued.close()


def refused(server, victim, harm):
    """Returns the line of a start that was refused, or None if the server started."""
    before = len(server.log())
    try:
        server.start(timeout=30, wait=False)
        wait_until(lambda: not server.running or ready(server), 30, "the server is ready or ends", interval=0.01)
    finally:
        if not server.running:
            status = server.wait()
            lines = [line for line in server.log()[before:].splitlines() if "cannot be opened" in line or "ebbtide-server:" in line]
            assert status == 1 and len(lines) == 1, f"status {status}: {lines}\n{server.log()[before:][-3000:]}"
            assert victim.name in lines[0], lines[0]
            assert any(remedy in lines[0] for remedy in REMEDIES), f"no remedy: {lines[0]}"
            return lines[0]  # noqa: B012
    return None


def ready(server):
    with contextlib.suppress(redis.ConnectionError, redis.BusyLoadingError, OSError), contextlib.closing(server.client()) as client:
        return client.ping()


def one_case(whole, home, kind, harm, runs):
    home.mkdir()
    server = Server(SETTINGS, home, config=None, prefix=PERMISSIONS_COUNT if os.geteuid() == 0 else ())
    server.set("storage.wal_segment_size=1MiB", "storage.compression=none", "storage.compression_last_level=none")
    shutil.copytree(whole, server.data)
    contents = Contents()
    try:
        if runs:
            server.start()
            wait_until((server.data / "RESERVE").exists)
        victim = KINDS[kind](server.data)
        if not victim.exists():
            victim.touch()
        HARMS[harm](victim)
        if runs:
            write(server, contents, "during")
            check_reads(server, contents)
            if kind in ("manifest", "current") or "log" in kind:
                watched = harm in ("halved", "emptied", "zeroed", "deleted", "a directory", "a dangling link")
                wait_until(lambda: not watched or victim.name in server.log(), 5, f"{victim.name} is named in the log")
                if kind == "current" and harm == "a directory":  # nothing can replace it
                    victim.rename(home / "not CURRENT")
                wait_until(lambda: accepts_writes(server), 10, "writes work again")
            write(server, contents, "after")
            server.kill()
        line = refused(server, victim, harm)
        if line is not None:
            assert harm not in EXTRAS, f"refused because of a file beside it: {line}"
            salvaged(server, contents, home / "salvaged")
            return f"refused: {line[:300]}"
        damaged = check_reads(server, contents)
        assert damaged == {} or kind in ("data", "meta"), damaged
        if harm == "with a backup":
            assert f"such as {victim.name}.bak" in server.log()
        for db, error in damaged.items():
            assert victim.stem in error, error
            with contextlib.closing(server.client(db=db)) as client:
                client.flushdb()
            contents.alive = {key for key in contents.alive if key[0] != db}
            contents.dead = {key for key in contents.dead if key[0] != db}
        if kind == "current" and harm == "with a directory":  # nothing can write CURRENT.tmp
            wait_until(lambda: "CURRENT.tmp" in server.log(), 5, "the log names CURRENT.tmp")
            numbered(victim).rmdir()
        wait_until(lambda: accepts_writes(server), 10, "writes work")
        write(server, contents, "last")
        assert check_reads(server, contents) == {}
        server.kill()
        server.start()
        assert check_reads(server, contents) == {}
        return f"serves, refused in {sorted(damaged)}: {list(damaged.values())[:1]}"
    finally:
        server.close()
        for path in server.data.glob("*"):
            with contextlib.suppress(OSError):
                path.chmod(0o600 if path.is_file() else 0o700)
        shutil.rmtree(home, ignore_errors=True)


@pytest.mark.parametrize(("kind", "runs"), itertools.product(KINDS, (False, True)))
def test_damage_of_any_kind_to_one_file_never_gives_a_wrong_reply(whole, tmp_path, kind, runs):
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        cases = {harm: pool.submit(one_case, whole, tmp_path / harm, kind, harm, runs) for harm in HARMS}
    wrong = []
    for harm, case in cases.items():
        try:
            print(f"{kind} {harm}: {case.result()}")
        except Exception as error:  # noqa: BLE001 - all cases are reported together
            wrong.append(f"{kind} {harm}: {type(error).__name__}: {error}")
    assert not wrong, "\n".join(wrong)
