"""Tests of a server whose data directory is moved away, replaced or removed: it changes no file of
another directory that then has the same name."""

import hashlib
import re
import shutil
import threading

import pytest
import redis

from conftest import SETTINGS
from support.server import Server, wait_until
from support.sockets import pairs

# Small files, so that the server begins new segments, tables and manifests all the time.
SMALL = {**SETTINGS, "storage.memtable_size": "256KiB", "storage.wal_segment_size": "64KiB"}
KEYS = 3000
REFUSED = "MISCONF Writes are refused: .*data was moved away or replaced"
LOST = "MISCONF Writes are refused: .*data was removed while the database used it.*restore a backup"


def value_of(who, i):
    return f"{who}{i}:".encode() * 20


def fill(client, who):
    client.mset({f"k{i}": value_of(who, i) for i in range(KEYS)})
    client.execute_command("TREE.FLUSH")


def reads(client, who):
    return client.mget([f"k{i}" for i in range(KEYS)]) == [value_of(who, i) for i in range(KEYS)]


def contents(directory):
    """Returns the names of all files in the directory, each with a hash of its bytes."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in directory.iterdir()}


def refusal(client):
    """Returns the error of a write; None if the write is accepted. A write during which the log fails loses its connection."""
    try:
        client.set("probe", "x")
    except (redis.ResponseError, redis.ConnectionError) as error:
        return str(error)
    return None


def engine_seconds_pass(client, seconds):
    """Waits until the server's engine time has advanced. The server tries every two seconds to accept writes again."""
    end = client.info("ebbtide")["engine_time_ms"] + seconds * 1000
    wait_until(lambda: client.info("ebbtide")["engine_time_ms"] >= end, what="the engine time has advanced")


class Writer:
    """Sets new keys, one after the other, until the server refuses one. `keys`: number of acknowledged writes. `error`: the
    refusal; None before that."""

    def __init__(self, server):
        self.keys, self.error = 0, None
        self._client = server.client()
        threading.Thread(target=self._write, daemon=True).start()

    def _write(self):
        try:
            while True:
                self._client.set(f"w{self.keys}", value_of("w", self.keys))
                self.keys += 1
        except redis.RedisError as error:
            self.error = str(error)


@pytest.fixture
def other(tmp_path):
    """A stopped server with a database of its own. Its files have names that the files of `fresh` may have, too."""
    home = tmp_path / "other"
    home.mkdir()
    server = Server(SMALL, home, config=None).start()
    fill(server.client(), "other")
    assert server.stop() == 0, server.log_tail()
    yield server
    server.close()


def test_running_server_changes_no_file_of_a_database_that_replaced_its_directory(fresh, other):
    """The first server refuses writes, and serves reads from its own directory. The second server works. When the first
    directory is back, the first server accepts writes again, and has all acknowledged writes."""
    fresh.settings.update(SMALL)
    fresh.start()
    client = fresh.client()
    fill(client, "own")
    writer = Writer(fresh)
    wait_until(lambda: writer.keys > 2000)
    away, names = fresh.home / "data.old", set(contents(other.data))
    fresh.data.rename(away)
    other.data.rename(fresh.data)
    before = contents(fresh.data)

    wait_until(lambda: writer.error, what="a write is refused")
    engine_seconds_pass(client, 5)
    assert set(contents(fresh.data)) == names and contents(fresh.data) == before
    assert re.match(REFUSED, writer.error)
    reason = client.info("ebbtide")["read_only_reason"]
    assert str(fresh.data) in reason and f"it is now {away}" in reason and "move it back" in reason
    assert reads(client, "own")
    assert client.save() is True  # a backup of the directory that was moved away
    assert contents(fresh.data) == before

    other.data = fresh.data
    other.start()
    second = other.client()
    assert reads(second, "other")
    fill(second, "new")
    assert re.match(REFUSED, refusal(client))
    assert pairs(second.execute_command("TREE.VERIFY"))[b"errors"] == []
    assert reads(second, "new") and reads(client, "own")
    assert other.stop() == 0, other.log_tail()

    fresh.data.rename(fresh.home / "other.data")
    away.rename(fresh.data)
    wait_until(lambda: refusal(client) is None, what="writes are accepted again")
    assert fresh.log().count("read-only: ") == 1 and fresh.log().count("writes are accepted again") == 1, fresh.log()
    fresh.kill()
    fresh.start()
    client = fresh.client()
    assert pairs(client.execute_command("TREE.VERIFY"))[b"errors"] == []
    assert reads(client, "own")
    assert client.mget([f"w{i}" for i in range(writer.keys)]) == [value_of("w", i) for i in range(writer.keys)]


def test_server_refuses_writes_while_its_directory_is_moved_away_and_accepts_them_after(fresh):
    fresh.settings.update(SMALL)
    fresh.start()
    client = fresh.client()
    fill(client, "own")
    away = fresh.home / "data.old"
    fresh.data.rename(away)
    wait_until(lambda: refusal(client), what="a write is refused")
    engine_seconds_pass(client, 5)
    assert re.match(REFUSED, refusal(client)) and not fresh.data.exists()
    assert "\nebbtide_read_only 1\n" in fresh.http("/metrics")[1]
    away.rename(fresh.data)
    wait_until(lambda: refusal(client) is None, what="writes are accepted again")
    assert reads(client, "own")


def test_server_whose_directory_was_removed_writes_no_file_into_a_new_one(fresh):
    """Nothing can bring the files back, so the server never accepts writes again. Its error says what to do."""
    fresh.settings.update(SMALL)
    fresh.start()
    client = fresh.client()
    fill(client, "own")
    client.set("recent", "x")
    wait_until(lambda: shutil.rmtree(fresh.data, ignore_errors=True) or not fresh.data.exists())  # a merge may add files meanwhile
    fresh.data.mkdir()
    wait_until(lambda: re.match(LOST, refusal(client) or ""), what="a write is refused")
    engine_seconds_pass(client, 5)
    assert re.match(LOST, refusal(client))
    assert client.get("recent") == b"x"
    assert list(fresh.data.iterdir()) == []
    fresh.stop()
    assert list(fresh.data.iterdir()) == []
    assert fresh.log().count("read-only: ") == 1, fresh.log()
