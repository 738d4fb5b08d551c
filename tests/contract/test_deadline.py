"""Tests that after the delete deadline no file has a deleted name or value, plain or compressed, for every way to delete. The
tests use the real clock and disk. EBBTIDE_SEED repeats the layout of the trees, one for each test.
"""

import random
import re
import string
import subprocess
import time
from pathlib import Path

import pytest
import redis

from support.blocks import decompressed
from support.differential.payloads import with_footer
from support.layouts import change, chosen
from support.meanwhile import meanwhile
from support.server import binary, wait_until
from support.sockets import pairs

SECONDS = 10
LARGE = 70_000  # the bytes of a large value


def letters(seed):
    """Returns 30 random letters and digits, which depend on the seed alone and occur nowhere else."""
    return "".join(random.Random(seed).choices(string.ascii_letters + string.digits, k=30)).encode()


def name_of(way):
    return letters("name " + way)


def marker_of(way):
    return letters("value " + way)


def value_of(way):
    """Returns a value that ends with the marker. The thirds of the marker precede it in another order, so that compressed data
    does not contain it literally. A large value, which is stored beside the pages, ends with the marker, too."""
    marker = marker_of(way)
    return b"." * (LARGE if way.endswith("large") else 0) + marker[20:] + marker[10:20] + marker[:10] + marker


KEPT = b"!" + letters("name kept")  # never deleted; the first of all keys, so its table has it as a bound


def with_blocks(data):
    yield data
    yield from decompressed(data)


def contents(server):
    """Returns the bytes of all files of the data directory, and of all open files of the process, even those without a name. Adds
    their decompressed blocks."""
    held = Path(f"/proc/{server.pid}/fd").iterdir() if server.running else ()
    for path in [*server.data.iterdir(), *held]:
        try:
            if path.is_file():
                yield from with_blocks(path.read_bytes())
        except OSError:
            pass  # removed meanwhile, or not a file


def dumps(server):
    """Returns the output of ebbtide-inspect, which prints in full what files abbreviate, such as separators that share a
    prefix."""
    tables = [("table", path) for path in server.data.glob("*.data")]
    for what in (("wal", server.data, "--values"), ("manifest", server.data), ("tree", server.data), *tables):
        yield subprocess.run([binary("ebbtide-inspect"), *what], capture_output=True, timeout=60, check=False).stdout


def seen(texts, places):
    return {text for data in places for text in texts if text in data}


def found(server, texts):
    return seen(texts, contents(server))


def stamp_alone(client, key, value):
    """Writes the key until no other key has its stamp, and waits until later writes have a later stamp."""

    def write():
        client.set(key, value)
        stamp = client.execute_command("STAMP.GET", key)
        return stamp if client.execute_command("STAMP.COUNT", stamp, stamp + 1, "EXACT") == 1 else None

    def write_later():
        client.set("later", "1")
        return client.execute_command("STAMP.GET", "later") > stamp

    stamp = wait_until(write, 5, "the key has a stamp of its own")
    wait_until(write_later, 5, "later writes have a later stamp")
    return stamp


def delete_by_stamp(client, key):
    stamp = client.execute_command("STAMP.GET", key)
    client.execute_command("STAMP.DELRANGE", stamp, stamp + 1)


def delete_in_transaction(client, key):
    with client.pipeline(transaction=True) as pipe:
        pipe.set("another", "1").delete(key).execute()


def delete_after_move(client, key):
    """Moves the key to another database and deletes it there."""
    client.move(key, 3)
    other = redis.Redis(**{**client.connection_pool.connection_kwargs, "db": 3})
    other.delete(key)
    other.close()


WAYS = {
    "del": lambda client, key: client.delete(key),
    "unlink": lambda client, key: client.unlink(key),
    "getdel": lambda client, key: client.getdel(key),
    "expiry": lambda client, key: client.pexpire(key, 100),
    "expired-at-once": lambda client, key: client.expireat(key, 1),
    "set-in-the-past": lambda client, key: client.set(key, value_of("set-in-the-past"), pxat=1),
    "move": delete_after_move,
    "del-large": lambda client, key: client.delete(key),
    "expiry-large": lambda client, key: client.pexpire(key, 100),
    "rename-large": lambda client, key: client.rename(key, "renamed") and client.delete("renamed"),
    "rename": lambda client, key: client.rename(key, "renamed") and client.delete("renamed"),
    "delrange": lambda client, key: client.execute_command("DELRANGE", key, key + b"\0"),
    "delprefix": lambda client, key: client.execute_command("DELPREFIX", key),
    "stamp": delete_by_stamp,
    "transaction": delete_in_transaction,
    "del-and-set": lambda client, key: client.delete(key) and client.set(key, "again") and client.delete(key),
}


# With so many elements the server stores a collection in another form.
MORE = [f"more{i}" for i in range(400)]
AGAIN = with_footer(b"\x00\x05again")  # A string as DUMP returns it.
N, V = object(), object()  # They stand for the name and the value that a way to delete gets.
# How elements of collections, or whole ones, are written and deleted. Their keys stay, unless they are N.
COLLECTIONS = {
    "hdel": (("HSET", "c:hdel", N, V, "other", "x"), ("HDEL", "c:hdel", N)),
    "hdel-all": (("HSET", "c:hdel-all", N, V), ("HDEL", "c:hdel-all", N)),
    "hdel-large": (("HSET", "c:hdel-large", N, V, "other", "x"), ("HDEL", "c:hdel-large", N)),
    "hexpire": (("HSET", "c:hexpire", N, V, "other", "x"), ("HPEXPIRE", "c:hexpire", 100, "FIELDS", 1, N)),
    "hexpire-all": (("HSET", "c:hexpire-all", N, V), ("HPEXPIRE", "c:hexpire-all", 100, "FIELDS", 1, N)),
    "hexpire-sooner": (
        ("HSETEX", "c:sooner", "EX", 10_000, "FIELDS", 2, N, V, "other", "x"),
        ("HPEXPIRE", "c:sooner", 100, "FIELDS", 1, N),
    ),
    "hexpire-at-once": (("HSET", "c:at-once", N, V, "other", "x"), ("HEXPIRE", "c:at-once", 0, "FIELDS", 1, N)),
    "hgetdel": (("HSETEX", "c:hgetdel", "EX", 10_000, "FIELDS", 2, N, V, "other", "x"), ("HGETDEL", "c:hgetdel", "FIELDS", 1, N)),
    "hgetex": (("HSETEX", "c:hgetex", "EX", 10_000, "FIELDS", 1, N, V), ("HGETEX", "c:hgetex", "PX", 100, "FIELDS", 1, N)),
    "hpersist-and-hdel": (
        ("HSETEX", "c:hpersist", "EX", 10_000, "FIELDS", 2, N, V, "other", "x"),
        ("HPERSIST", "c:hpersist", "FIELDS", 1, N),
        ("HDEL", "c:hpersist", N),
    ),
    "expire-expiring-hash": (("HSETEX", N, "EX", 10_000, "FIELDS", 1, "field", V), ("PEXPIRE", N, 100)),
    "srem": (("SADD", "c:srem", N, V, "other"), ("SREM", "c:srem", N, V)),
    "spop": (("SADD", "c:spop", N, V), ("SPOP", "c:spop", 2)),
    "smove": (("SADD", "c:smove", N, V, "other"), ("SMOVE", "c:smove", "c:smoved", N), ("SMOVE", "c:smove", "c:smoved", V), ("DEL", "c:smoved")),
    "zrem": (("ZADD", "c:zrem", 1, N, 2, V, 3, "other"), ("ZREM", "c:zrem", N, V)),
    "zpopmin": (("ZADD", "c:zpopmin", 1, N, 2, V, 3, "other"), ("ZPOPMIN", "c:zpopmin", 2)),
    "zpopmax": (("ZADD", "c:zpopmax", 1, "other", 2, V, 3, N), ("ZPOPMAX", "c:zpopmax", 2)),
    "zmpop": (("ZADD", "c:zmpop", 1, N, 2, V, 3, "other"), ("ZMPOP", 1, "c:zmpop", "MIN", "COUNT", 2)),
    "zremrangebyrank": (("ZADD", "c:zrank", 1, N, 2, V, 3, "other"), ("ZREMRANGEBYRANK", "c:zrank", 0, 1)),
    "zremrangebylex": (("ZADD", "c:zlex", 0, N, 0, V, 0, "~other"), ("ZREMRANGEBYLEX", "c:zlex", "-", "(~other")),
    "zremrangebyscore": (("ZADD", "c:zremrange", 1, N, 2, V, 3, "other"), ("ZREMRANGEBYSCORE", "c:zremrange", 1, 2)),
    "lpop": (("RPUSH", "c:lpop", N, V, "other"), ("LPOP", "c:lpop", 2)),
    "rpoplpush": (("RPUSH", "c:rpoplpush", "other", N, V), *[("RPOPLPUSH", "c:rpoplpush", "c:moved")] * 2, ("DEL", "c:moved")),
    "lrem": (("RPUSH", "c:lrem", N, V, "other"), ("LREM", "c:lrem", 0, N), ("LREM", "c:lrem", 0, V)),
    "ltrim": (("RPUSH", "c:ltrim", N, V, "other"), ("LTRIM", "c:ltrim", 2, 2)),
    "del-hash": (("HSET", N, "field", V), ("DEL", N)),
    "expire-hash": (("HSET", N, "field", V), ("PEXPIRE", N, 100)),
    "rename-hash": (("HSET", N, "field", V), ("RENAME", N, "c:renamed"), ("DEL", "c:renamed")),
    "set-over-hash": (("HSET", "c:set", N, V), ("SET", "c:set", "again")),
    "mset-over-list": (("RPUSH", "c:mset", N, V), ("MSET", "c:mset", "again", "c:another", "1")),
    "rename-over-set": (("SADD", "c:target", N, V), ("SET", "c:source", "1"), ("RENAME", "c:source", "c:target")),
    "copy-over-set": (("SADD", "c:copied", N, V), ("SADD", "c:copy", "1"), ("COPY", "c:copy", "c:copied", "REPLACE")),
    "restore-over-list": (("RPUSH", "c:restored", N, V), ("RESTORE", "c:restored", 0, AGAIN, "REPLACE")),
    "grow-hash": (("HSET", "c:grow-hash", N, V), ("HSET", "c:grow-hash", *MORE), ("HDEL", "c:grow-hash", N)),
    "grow-set": (("SADD", "c:grow-set", N, V), ("SADD", "c:grow-set", *MORE), ("SREM", "c:grow-set", N, V)),
    "grow-zset": (
        ("ZADD", "c:grow-zset", 1, N, 2, V),
        ("ZADD", "c:grow-zset", *(word for each in MORE for word in (3, each))),
        ("ZPOPMIN", "c:grow-zset", 2),
    ),
    "grow-list": (("RPUSH", "c:grow-list", N, V), ("RPUSH", "c:grow-list", *MORE), ("LPOP", "c:grow-list", 2)),
    "grow-and-del": (("SADD", N, V, "other"), ("SADD", N, *MORE), ("DEL", N)),
    "store-over-zset": (("ZADD", "c:store", 1, N, 2, V), ("SADD", "c:stored", "1"), ("SUNIONSTORE", "c:store", "c:stored")),
    "set-in-transaction": (("HSET", "c:exec", N, V), ("MULTI",), ("SET", "c:exec", "again"), ("HSET", "c:new", "f", "v"), ("EXEC",)),
}


def run_on_elements(client, way, commands):
    words = {N: name_of(way), V: value_of(way)}
    with client.pipeline(transaction=False) as pipe:  # of one connection, for MULTI
        for command in commands:
            pipe.execute_command(*(words.get(word, word) for word in command))
        pipe.execute()


ALL_WAYS = (*WAYS, *COLLECTIONS)
GONE = {text for way in (*ALL_WAYS, "flushdb") for text in (name_of(way), marker_of(way))}
ALL = {KEPT, marker_of("kept")} | GONE


def fill(server, compression, what, *settings):
    """Fills two databases, flushes them to tables, and checks that the search finds every marker there. For compressed tables it
    must decompress them. `what` names the test, which has a layout of its own unless `settings` give a layout."""
    if not settings:
        change(server, chosen(what, but=("storage.compression", "storage.compression_last_level")))
    # With a small memtable the reserve file is small, too. Each search reads it.
    compressions = (f"storage.compression={compression}", f"storage.compression_last_level={compression}")
    server.set(*compressions, "storage.memtable_size=1MiB", *settings).start()
    client, emptied = server.client(), server.client(db=2)
    for way in WAYS:
        client.set(name_of(way), value_of(way))
    for way, commands in COLLECTIONS.items():
        run_on_elements(client, way, commands[:1])
    client.set(KEPT, value_of("kept"))
    stamp_alone(client, name_of("stamp"), value_of("stamp"))
    emptied.set(name_of("flushdb"), value_of("flushdb"))
    emptied.set("~", "x" * 1000)  # so that this page is compressed, too
    for i in range(300):
        client.set(f"stays{i}", "x" * 100)
    for each in (client, emptied):
        each.execute_command("TREE.FLUSH")

    tables = [path.read_bytes() for path in server.data.glob("*.data")]
    markers = {marker_of(way) for way in (*ALL_WAYS, "flushdb", "kept")}
    assert seen(markers, tables) == (markers if compression == "none" else set())
    assert seen(ALL, (part for data in tables for part in with_blocks(data))) == ALL
    return client, emptied


def promise(client, seconds):
    for database in (0, 2, 3):
        client.config_set(f"databases.{database}.deletes.deadline", f"{seconds}s")


def delete_all(client, emptied):
    for way, delete in WAYS.items():
        delete(client, name_of(way))
    for way, commands in COLLECTIONS.items():
        run_on_elements(client, way, commands[1:])
    emptied.flushdb()


def check_gone_by(server, end):
    """Searches the files until no deleted data is found. Only a search that begins after the last deadline may fail the test."""
    while time.monotonic() < end and found(server, GONE):
        time.sleep(0.1)
    assert not found(server, GONE)


TREES = {
    "any": (),
    "leveling, h=1": ("tree.policy.name=leveling", "tree.pages_per_tile=1"),
    "tiering, h=8": ("tree.policy.name=tiering", "tree.pages_per_tile=8"),
}


@pytest.mark.parametrize(
    ("compression", "tree"),
    [("none", "any"), ("lz4", "any"), ("zstd", "any"), ("lz4", "leveling, h=1"), ("none", "tiering, h=8"), ("lz4", "tiering, h=8")],
)
def test_deleted_names_and_values_are_in_no_file_after_the_deadline(fresh, compression, tree):
    client, emptied = fill(fresh, compression, f"deadline, {compression}", *TREES[tree])
    assert seen(ALL, dumps(fresh)) == ALL
    promise(client, SECONDS)
    assert client.config_get("databases.0.deletes.deadline") == {"databases.0.deletes.deadline": f"{SECONDS}s"}
    assert client.config_get("tree.deletes.deadline") != {"tree.deletes.deadline": f"{SECONDS}s"}
    delete_all(client, emptied)
    check_gone_by(fresh, time.monotonic() + SECONDS + 1)  # expirations are born a little later than the deletes
    assert [client.get(name_of(way)) for way in ALL_WAYS] == [None] * len(ALL_WAYS)
    assert client.get("stays7") == b"x" * 100
    assert client.info("ebbtide")["delete_deadline_missed_load"] == 0
    fresh.kill()
    # The search still finds the data that was kept, so it works.
    assert found(fresh, ALL) == ALL - GONE
    assert seen(GONE | {KEPT}, dumps(fresh)) == {KEPT}
    fresh.start()
    assert client.get("stays8") == b"x" * 100


def test_kill_at_half_of_the_deadline_makes_no_delete_late(fresh):
    client, emptied = fill(fresh, "lz4", "kill")
    client.execute_command("TREE.PAUSE")  # only deadlines may purge before the kill, but some policies merge at once
    promise(client, SECONDS)
    end = time.monotonic() + SECONDS + 1
    delete_all(client, emptied)
    time.sleep(max(0, end - 1 - SECONDS / 2 - time.monotonic()))  # half of the deadline
    fresh.kill()
    assert found(fresh, GONE)  # the kill was early enough
    fresh.start()
    client = fresh.client()
    assert [client.get(name_of(way)) for way in ALL_WAYS] == [None] * len(ALL_WAYS)
    check_gone_by(fresh, end)
    assert client.get("stays7") == b"x" * 100
    assert client.info("ebbtide")["delete_deadline_missed_load"] == 0
    assert found(fresh, ALL) == ALL - GONE


@pytest.mark.parametrize("tree", ["leveling, h=1", "tiering, h=8"])
def test_scans_that_always_hold_a_read_view_make_no_delete_late(fresh, tree):
    """Several scans hold read views, so that one view is always open when another ends. One client runs TREE.VERIFY, which must
    find no error at any moment."""
    client, emptied = fill(fresh, "none", "views", *TREES[tree])
    for i in range(0, 20_000, 500):
        client.mset({f"walked{n}": "x" * 50 for n in range(i, i + 500)})
    walked, verified = [], []

    def walks(command, *arguments, into=walked):
        own = fresh.client()

        def walk():
            try:
                into.append(own.execute_command(command, *arguments))
            except redis.ResponseError as error:
                assert "begin" in str(error) or "deadline" in str(error), error  # this is the error of a revoked view

        return walk

    verify = walks("TREE.VERIFY", into=verified)

    promise(client, SECONDS)
    with meanwhile(walks("KEYS", "*9"), walks("KEYS", "walked1*"), verify, walks("STAMP.COUNT", "-", "+", "EXACT")):
        wait_until(lambda: len(walked) > 4 and verified, 30, "walks are under way")
        before = len(verified)
        delete_all(client, emptied)
        check_gone_by(fresh, time.monotonic() + SECONDS + 1)
    assert len(verified) > before
    assert [answer for answer in map(pairs, verified) if answer[b"errors"] or not answer[b"pages"]] == []
    metrics = fresh.http("/metrics")[1]
    assert re.search(r"^ebbtide_scrub_errors_total (\S+)$", metrics, re.MULTILINE)[1] == "0"
    assert client.info("ebbtide")["delete_deadline_missed_load"] == 0
    assert found(fresh, ALL) == ALL - GONE
    assert client.get("walked7") == b"x" * 50


def test_flushall_leaves_no_deleted_data_of_any_database_in_files(fresh):
    client, emptied = fill(fresh, "none", "flushall")
    promise(client, SECONDS)
    end = time.monotonic() + SECONDS + 1
    client.set(name_of("late"), value_of("late"))  # only the log has it
    client.flushall()
    client.set("stays", "y" * 100)
    gone = ALL | {name_of("late"), marker_of("late")}
    while time.monotonic() < end and found(fresh, gone):
        time.sleep(0.1)
    assert not found(fresh, gone)
    assert (client.dbsize(), emptied.dbsize()) == (1, 0)
    assert client.info("ebbtide")["delete_deadline_missed_load"] == 0
