"""Tests of a full disk: a small tmpfs, which the server itself or another program fills.

Reads and deletes must work, and writes that add data get -MISCONF. Within 5 s after space becomes free (FLUSHDB, or the other
program's file is removed) writes must work again. Acknowledged writes survive kill -9 and stay in the running server. Each test
has another layout of its tree; EBBTIDE_SEED repeats it.

EBBTIDE_FULL_DISK_CYCLES   how often the disk fills up and gets room again under one server (3)
"""

import contextlib
import itertools
import os
import subprocess
import time

import pytest
import redis

from support.layouts import chosen
from support.server import Server, wait_until

DISK = 64 << 20
HEALS_SECONDS = 5
CYCLES = int(os.environ.get("EBBTIDE_FULL_DISK_CYCLES", "3"))
SETTINGS = {
    "storage.memory_budget": "128MiB",
    "storage.max_disk_bytes": "auto",
    "storage.memtable_size": "1MiB",
    "storage.wal_segment_size": "1MiB",
    "storage.compression": "none",
    "storage.compression_last_level": "none",
}


@pytest.fixture
def small_disk(tmp_path):
    """Gives a mounted tmpfs of 64 MiB."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small tmpfs needs root")
    disk = tmp_path / "disk"
    disk.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", disk], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"a small tmpfs cannot be mounted here: {done.stderr.strip()}")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "--lazy", disk], check=True)


@pytest.fixture
def server(small_disk, tmp_path, request):
    running = Server({**chosen(request.node.name, but=SETTINGS), **SETTINGS}, tmp_path)
    running.data = small_disk / "data"
    running.start()
    yield running
    running.close()


def free_bytes(disk):
    space = os.statvfs(disk)
    return space.f_bavail * space.f_frsize


def room_left(server, disk):
    files = {path.name: path.stat().st_size for path in sorted(server.data.iterdir())}
    return f"{free_bytes(disk)} bytes are free, files: {files}"


def fill(disk):
    """Makes another program's file take all space that is free now, but not the space that the server frees meanwhile."""
    room = free_bytes(disk)
    with open(disk / "ballast", "ab", buffering=0) as ballast:
        while room > 0:
            try:
                room -= ballast.write(b"b" * min(65536, room))
            except OSError:
                return


def works(command, *arguments):
    """Returns true if a command succeeds; false for -MISCONF and for an unknown outcome, which closes the connection. Raises any
    other error."""
    try:
        command(*arguments)
    except redis.ResponseError as error:
        assert str(error).startswith(("MISCONF", "UNKNOWN")), error
        return False
    except redis.ConnectionError:
        return False
    return True


def takes_data(client):
    return works(client.set, "more", "v" * 100)


def value_of(i):
    return (b"%d:" % i) * 200


def fill_by_writing(client, limit=200_000):
    """Writes until a write is refused. Returns the number of acknowledged keys."""
    batch = 50
    for start in range(0, limit, batch):
        pipe = client.pipeline(transaction=False)
        for i in range(start, start + batch):
            pipe.set(f"k{i}", value_of(i))
        for i, reply in enumerate(pipe.execute(raise_on_error=False)):
            if isinstance(reply, Exception):
                assert str(reply).startswith("MISCONF"), reply
                return start + i
    raise AssertionError("the disk did not fill up")


def test_server_that_filled_its_disk_serves_reads_and_deletes_and_accepts_writes_once_space_is_free(server, small_disk):
    client = server.client()
    kept = fill_by_writing(client)
    assert kept > 1000
    for i in range(0, kept, kept // 50):
        assert client.get(f"k{i}") == value_of(i)
    # Any number of deletes must work, of single keys and by range.
    for i in range(0, 500):
        assert client.delete(f"k{i}") == 1
    client.execute_command("DELRANGE", "k500", "k501")
    client.execute_command("DELPREFIX", "k501")
    assert client.mget("k3", "k500", "k501") == [None] * 3
    assert free_bytes(small_disk) > 0

    server.kill()
    server.start()
    client = server.client()
    for i in range(502, kept, 7):
        if not str(i).startswith(("500", "501")):
            assert client.get(f"k{i}") == value_of(i), i
    assert client.mget([f"k{i}" for i in range(502)]) == [None] * 502

    wait_until(lambda: works(client.flushdb), HEALS_SECONDS, "FLUSHDB succeeds")
    wait_until(lambda: takes_data(client), HEALS_SECONDS, "writes after FLUSHDB")
    assert client.get("k600") is None


def test_server_on_a_disk_filled_by_another_program_serves_reads_and_deletes(server, small_disk):
    client = server.client()
    for i in range(2000):
        client.set(f"k{i}", value_of(i))
    fill(small_disk)
    wait_until(lambda: not takes_data(client), 2, "a write that adds data is refused")
    # While the log of a failed write is not healed, reads get an error: their values may not be durable.
    wait_until(lambda: works(client.get, "k0"), HEALS_SECONDS, "reads work")
    for i in range(0, 2000, 40):
        assert client.get(f"k{i}") == value_of(i)
    # The first write that fails before the server notices the full disk is refused, even if it is a delete. Later deletes use the
    # reserved space, or that of a cancelled merge.
    wait_until(lambda: free_bytes(small_disk) >= 64 << 10, HEALS_SECONDS, "there is room for the log")
    wait_until(lambda: works(client.delete, "k0"), 2, "deletes work in the reserved space")
    for i in range(1, 300):
        try:
            assert client.delete(f"k{i}") == 1
        except redis.ResponseError as error:
            raise AssertionError(f"delete {i}: {error}; {room_left(server, small_disk)}") from None
    assert not takes_data(client)

    server.kill()
    server.start()
    client = server.client()
    for i in range(300, 2000):
        assert client.get(f"k{i}") == value_of(i), i
    assert client.mget([f"k{i}" for i in range(300)]) == [None] * 300
    assert not takes_data(client)

    (small_disk / "ballast").unlink()
    wait_until(lambda: takes_data(client), HEALS_SECONDS, "writes after the ballast is removed")
    wait_until(lambda: (server.data / "RESERVE").exists(), HEALS_SECONDS, "space is reserved again")
    assert client.get("k300") == value_of(300)
    assert server.stop() == 0, server.log_tail()


def test_running_server_accepts_writes_again_after_each_full_disk(server, small_disk):
    """The server is not restarted, so its state in memory must stay right after failed writes of the log and of tables."""
    client, born = server.client(), server.client().info("server")["run_id"]
    kept = {}  # key -> acknowledged value, or None
    open_keys = set()  # keys of writes with an unknown outcome
    refusals = []

    def write(key, value):
        """Returns true if the write succeeded."""
        try:
            client.set(key, value) if value is not None else client.delete(key)
        except redis.ResponseError as error:
            assert str(error).startswith(("MISCONF", "UNKNOWN")), error
            if str(error).startswith("UNKNOWN"):
                open_keys.add(key)
            refusals.append(str(error))
            return False
        except redis.ConnectionError as error:
            open_keys.add(key)
            refusals.append(str(error))
            return False
        kept[key] = value
        open_keys.discard(key)
        return True

    def heals(condition, what, why=()):
        try:
            wait_until(condition, HEALS_SECONDS)
        except AssertionError:
            raise AssertionError(f"not within {HEALS_SECONDS} s: {what} {why[-1:]}; {room_left(server, small_disk)}") from None

    def check():
        keys = sorted(kept.keys() - open_keys)
        for start in range(0, len(keys), 500):
            part, answers = keys[start : start + 500], []
            # While the log of a failed write is not healed, reads get an error: their values may not be durable.
            heals(lambda: works(lambda: answers.extend(client.mget(part))), "reads")
            for key, value in zip(part, answers, strict=True):
                assert value == kept[key], key

    tries = itertools.count()
    for cycle in range(CYCLES):
        for i in range(1500):  # from the second cycle on, these are overwrites
            # Merges that failed on the full disk are retried within 4 s. If there are too many runs by then, writes wait for the
            # merges.
            heals(lambda: write(f"k{i}", b"%d.%d:" % (cycle, i) * 200), "writes with room", refusals)  # noqa: B023
        assert write(f"cycle{cycle}", b"%d" % cycle)
        fill(small_disk)
        # Merges free the space of overwritten values, so this space is used up, too.
        wait_until(lambda: not write(f"more{next(tries) % 100}", b"m" * 20_000), 20, "a write that adds data is refused", interval=0)
        check()
        for i in range(100):  # the log may fail at any of them; later ones use the reserved space
            heals(lambda: write(f"k{i}", None), "deletes")
        check()  # a merge may have freed space meanwhile

        (small_disk / "ballast").unlink()
        heals(lambda: write("healed", b"%d" % cycle), "writes after the ballast is removed")
        check()
        heals(lambda: (server.data / "RESERVE").exists(), "space is reserved again")
    assert client.info("server")["run_id"] == born
    print(f"\n{CYCLES} times a full disk healed")

    assert server.stop() == 0, server.log_tail()
    server.start()
    client = server.client()
    check()


def answers(server):
    """Returns true if the server replies to PING. It may reply while it is not ready because it refuses writes."""
    with contextlib.suppress(redis.ConnectionError, redis.BusyLoadingError):
        return server.client().ping()
    return False


def test_server_started_without_a_free_byte_serves_reads_and_accepts_writes_once_space_is_free(server, small_disk):
    client = server.client()
    for i in range(2000):
        client.set(f"k{i}", value_of(i))
    assert client.delete("k0") == 1
    server.kill()
    (server.data / "RESERVE").unlink(missing_ok=True)
    for _ in range(4):  # a start frees what the process before left unfinished
        fill(small_disk)
        assert free_bytes(small_disk) == 0
        server.start(wait=False)
        wait_until(lambda: answers(server), 20, "the server answers")
        client = server.client()
        for i in range(1, 2000, 40):
            assert client.get(f"k{i}") == value_of(i)
        assert client.get("k0") is None
        server.kill()
        (server.data / "RESERVE").unlink(missing_ok=True)
    fill(small_disk)
    server.start(wait=False)
    wait_until(lambda: answers(server), 20, "the server answers")
    client = server.client()
    (small_disk / "ballast").unlink()
    wait_until(lambda: works(client.delete, "k1"), HEALS_SECONDS, "deletes after the ballast is removed")
    wait_until(lambda: takes_data(client), HEALS_SECONDS, "writes after the ballast is removed")
    server.kill()
    server.start()
    client = server.client()
    assert client.mget("k0", "k1", "k2", "more") == [None, None, value_of(2), b"v" * 100]


def missed(client):
    """Returns the number of missed deadlines, by reason."""
    return {key: value for key, value in client.info("ebbtide").items() if key.startswith("delete_deadline_missed_") and value != 0}


def test_full_disk_with_room_for_two_files_makes_no_delete_late(server, small_disk):
    """Another program takes all space that merges free, except room for the log and two files."""
    seconds, room = 20, 4 << 20
    server.stop()
    server.set("tree.file_size=1MiB", f"tree.deletes.deadline={seconds}s").start()
    client = server.client()
    deleted = range(0, fill_by_writing(client), 10)
    wait_until(lambda: works(client.delete, *(f"k{i}" for i in deleted)), HEALS_SECONDS, "deletes")
    end = time.monotonic() + seconds + 1
    while time.monotonic() < end:
        with contextlib.suppress(OSError), open(small_disk / "ballast", "ab", buffering=0) as ballast:
            ballast.write(b"b" * max(0, free_bytes(small_disk) - room))
        assert missed(client) == {}, room_left(server, small_disk)
        time.sleep(0.1)
    assert missed(client) == {}, room_left(server, small_disk)
    assert client.get("k1") == value_of(1)
    server.kill()
    files = b"".join(path.read_bytes() for path in sorted(server.data.iterdir()))
    assert value_of(1) in files
    assert not [i for i in deleted[::100] if b":%d:%d:" % (i, i) in files]
