"""Tests of stamps on a real server: deletes by stamp through flushes, merges, kills and restarts; scans and concurrent writes.

tests/transcripts/stamps.txt has the reply of each command. EBBTIDE_SEED repeats the layout of the trees, one for each test.
"""

import operator
import os
import random

import pytest

from conftest import SETTINGS
from support.layouts import chosen
from support.meanwhile import meanwhile
from support.server import Server, wait_until
from support.sockets import pairs

EXPLICIT = {**SETTINGS, "storage.memtable_size": "1MiB", "tree.deletes.stamp": "explicit", "tree.pages_per_tile": 8}


@pytest.fixture
def stamped(tmp_path, request):
    layout = chosen(request.node.name, but=("tree.pages_per_tile",))
    with Server({**EXPLICIT, **layout}, tmp_path, config=None) as running:
        yield running


def every_page(step):
    """Returns all keys of a scan. `step` takes a cursor and returns the next cursor and keys."""
    keys, cursor = [], 0
    while True:
        cursor, found = step(cursor)
        keys += found
        cursor = int(cursor)
        if cursor == 0:
            return keys


def scan_stamps(client, lo, hi, count=100):
    return every_page(lambda cursor: client.execute_command("STAMP.SCAN", lo, hi, cursor, "COUNT", count))


def test_deletes_by_stamp_stay_in_effect_after_flushes_merges_kills_and_restarts(stamped):
    client = stamped.client()
    model = {}
    choose = random.Random(7)
    for step in range(6):
        pipeline = client.pipeline(transaction=False)
        for _ in range(2000):
            key, stamp = f"k:{choose.randrange(3000)}", 1000 * step + choose.randrange(3000)
            pipeline.execute_command("STAMP.SET", key, stamp, f"{key}-{stamp}" + "x" * 100)
            model[key] = stamp
        pipeline.execute()
        horizon = 1000 * step + 500
        ticket = client.execute_command("STAMP.DELRANGE", "-", horizon)
        assert ticket.startswith(b"purge-")
        model = {key: stamp for key, stamp in model.items() if stamp >= horizon}
        if step % 3 == 0:
            client.execute_command("TREE.FLUSH")
        elif step % 3 == 1:
            stamped.kill()
            stamped.start()
            client = stamped.client()
        else:
            client.execute_command("TREE.COMPACT")
        assert client.dbsize() == len(model)
        assert client.execute_command("STAMP.COUNT", "-", "+", "EXACT") == len(model)
        for key in choose.sample([f"k:{i}" for i in range(3000)], 300):
            expected = model.get(key)
            value = client.get(key)
            assert value == (None if expected is None else f"{key}-{expected}".encode() + b"x" * 100), key
            assert client.execute_command("STAMP.GET", key) == expected
        low = 1000 * step + 800
        in_range = {key.encode() for key, stamp in model.items() if low <= stamp < low + 300}
        assert set(scan_stamps(client, low, low + 300)) == in_range
        estimate = client.execute_command("STAMP.COUNT", low, low + 300)
        shadowed = 1 if step % 3 == 2 else 2  # overwritten versions count until a merge drops them
        assert 0.75 * len(in_range) < estimate < 1.25 * shadowed * len(in_range)
    client.execute_command("TREE.COMPACT")
    assert pairs(client.execute_command("TREE.INFO"))[b"secondary-records"] == 0
    assert client.info("ebbtide")["secondary_records"] == 0
    verified = pairs(client.execute_command("TREE.VERIFY"))
    assert verified[b"files"] > 0 and verified[b"errors"] == []


def test_scan_during_other_writes_returns_every_key_that_exists_throughout(stamped):
    """During each scan these keys are overwritten, and other keys are added and deleted. A flush and a merge run between two
    pages of the scan."""
    client = stamped.client()
    pipeline = client.pipeline(transaction=False)
    for number in range(2000):
        pipeline.execute_command("STAMP.SET", f"stay:{number:05d}", 500 + number % 10, "v" * 50)
        pipeline.set(f"gone:{number:05d}", "v")
    pipeline.execute()
    client.execute_command("DELPREFIX", "gone:")
    stay = {b"stay:%05d" % number for number in range(2000)}
    other, choose = stamped.client(), random.Random(int(os.environ.get("EBBTIDE_SEED", "3")))

    def disturb():
        for number in range(100):
            again = choose.randrange(2000)
            other.execute_command("STAMP.SET", f"stay:{again:05d}", 500 + choose.randrange(10), "u" * 50)
            other.execute_command("STAMP.SET", f"stay:{choose.randrange(2000):05d}:", 505, "w" * 200)
            other.execute_command("STAMP.SET", f"other:{number}", 900, "w" * 500)
        other.execute_command("STAMP.DELRANGE", 900, 901)
        other.execute_command(choose.choice(("TREE.FLUSH", "TREE.COMPACT")))

    def work():
        info = client.info("ebbtide")
        return info["flushes"], info["compactions"]

    def disturbed(step):
        """Returns a changed `step`: after the first page of the scan it waits until a flush and a merge have changed the tables."""

        def take(cursor):
            answer = step(cursor)
            if cursor == 0:
                assert int(answer[0]) != 0, "the scan has one page, which nothing can disturb"
                began = work()
                wait_until(lambda: all(map(operator.gt, work(), began)), 60, "a flush and a merge have ended")
            return answer

        return take

    with meanwhile(disturb):
        for count in (10, 1000):
            found = set(every_page(disturbed(lambda cursor, count=count: client.scan(cursor, count=count))))
            assert stay <= found
            assert not any(key.startswith(b"gone:") for key in found)
        for count in (50, 1000):
            found = every_page(disturbed(lambda cursor, count=count: client.execute_command("STAMP.SCAN", 500, 510, cursor, "COUNT", count)))
            assert {key for key in found if not key.endswith(b":")} == stay
            assert not any(key.startswith(b"other:") for key in found)


def test_incr_during_a_delete_by_stamp_leaves_no_key_with_a_deleted_stamp(stamped):
    """INCR keeps the stamp of the value that it read. If the delete comes in between, no key with that stamp may remain."""
    client = stamped.client()
    others = stamped.client()

    def count():
        for number in range(8):
            others.incr(f"counter:{number}")

    with meanwhile(count, count, count):
        for _ in range(200):
            for number in range(8):
                client.execute_command("STAMP.SET", f"counter:{number}", 77, 1)
            client.execute_command("STAMP.DELRANGE", 77, 78)
            # Increments after the delete make new keys, which have no stamp.
            assert [client.execute_command("STAMP.GET", f"counter:{number}") for number in range(8)] == [None] * 8


def test_database_keeps_its_stamp_mode_until_flushdb_although_the_configuration_changes(stamped):
    client = stamped.client()
    client.execute_command("STAMP.SET", "k", 5, "v")
    assert stamped.stop() == 0
    stamped.set("tree.deletes.stamp=write_time").start()
    client = stamped.client()
    assert client.execute_command("STAMP.GET", "k") == 5
    client.execute_command("STAMP.SET", "k", 6, "v")
    assert "database 0 was made with the stamp mode explicit and keeps it" in stamped.log()
    client.flushdb()
    client.set("k", "v")
    assert client.execute_command("STAMP.GET", "k") > 1_600_000_000_000


def test_ticket_of_a_delete_by_stamp_is_done_after_its_tables_are_merged(stamped):
    client = stamped.client()
    for number in range(500):
        client.execute_command("STAMP.SET", f"k{number}", number, "v" * 100)
    client.execute_command("TREE.FLUSH")
    client.execute_command("TREE.PAUSE")
    ticket = client.execute_command("STAMP.DELRANGE", 100, 200)
    client.execute_command("TREE.FLUSH")

    def status():
        return pairs(client.execute_command("PURGE.STATUS", ticket))

    # The manifest has the secondary range tombstone, and the table with covered entries has a pending delete.
    wait_until(lambda: b"table" in status()[b"left-in"], what="the report of the ticket names the table")
    assert status()[b"state"] == b"pending"
    client.execute_command("TREE.RESUME")
    client.execute_command("TREE.COMPACT")
    client.execute_command("PURGE.NOW", ticket)
    assert client.execute_command("PURGE.WAIT", ticket, 20_000) == 1
    assert status()[b"state"] == b"done"
    assert client.dbsize() == 400
