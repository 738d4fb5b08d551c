"""Stamps over a real server: deletes by stamp through flushes, merges, kills and restarts, scans while others write, and concurrency.

What each command replies is in tests/transcripts/stamps.txt.
"""

import json
import random
import threading

import pytest

from support.server import Server, wait_until

SETTINGS = {
    "storage.memory_budget": "128MiB",
    "storage.memtable_size": "1MiB",
    "server.bind": "127.0.0.1",
    "tree.deletes.stamp": "explicit",
    "tree.pages_per_tile": "8",
}


@pytest.fixture
def stamped(tmp_path):
    with Server(SETTINGS, tmp_path, config=None) as running:
        yield running


def scan_stamps(client, lo, hi, count=100):
    keys, cursor = [], 0
    while True:
        cursor, found = client.execute_command("STAMP.SCAN", lo, hi, cursor, "COUNT", count)
        keys += found
        cursor = int(cursor)
        if cursor == 0:
            return keys


def test_a_sliding_window_survives_flushes_merges_kills_and_restarts(stamped):
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
        assert estimate <= 10_000
    client.execute_command("TREE.COMPACT")
    info = client.execute_command("TREE.INFO")
    fields = dict(zip(info[::2], info[1::2])) if isinstance(info, list) else info
    assert fields[b"stamp-deletes"] == 0
    assert b"stamp_deletes" in str(client.info("ebbtide")).encode()
    assert client.execute_command("TREE.VERIFY") is not None


def test_a_scan_returns_every_key_that_stays(stamped):
    client = stamped.client()
    pipeline = client.pipeline(transaction=False)
    for number in range(2000):
        pipeline.execute_command("STAMP.SET", f"stay:{number:05d}", 500 + number % 10, "v" * 50)
    pipeline.execute()
    stop = threading.Event()

    def disturb():
        other = stamped.client()
        choose = random.Random(3)
        number = 0
        while not stop.is_set():
            number += 1
            other.execute_command("STAMP.SET", f"stay:{choose.randrange(2000):05d}:", 505, "w" * 200)
            other.execute_command("STAMP.SET", f"other:{number}", 900, "w" * 500)
            if number % 100 == 0:
                other.execute_command("STAMP.DELRANGE", 900, 901)
            if number % 500 == 0:
                other.execute_command("TREE.FLUSH")

    thread = threading.Thread(target=disturb)
    thread.start()
    try:
        for count in (50, 1000):
            found = scan_stamps(client, 500, 510, count)
            assert {key for key in found if not key.endswith(b":")} == {b"stay:%05d" % number for number in range(2000)}
            assert not any(key.startswith(b"other:") for key in found)
    finally:
        stop.set()
        thread.join()


def test_no_read_and_write_keeps_a_stamp_past_its_delete(stamped):
    """INCR keeps the stamp of the value that it read: with the delete in between, nothing with that stamp may stay."""
    client = stamped.client()
    stop = threading.Event()

    def count():
        other = stamped.client()
        while not stop.is_set():
            for number in range(8):
                other.incr(f"counter:{number}")

    threads = [threading.Thread(target=count) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(200):
            for number in range(8):
                client.execute_command("STAMP.SET", f"counter:{number}", 77, 1)
            client.execute_command("STAMP.DELRANGE", 77, 78)
            # What comes after the delete makes new keys, without a stamp.
            assert [client.execute_command("STAMP.GET", f"counter:{number}") for number in range(8)] == [None] * 8
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_the_mode_is_fixed_when_the_database_is_made(stamped):
    client = stamped.client()
    client.execute_command("STAMP.SET", "k", 5, "v")
    assert stamped.stop() == 0
    stamped.set("tree.deletes.stamp=write_time").start()
    client = stamped.client()
    assert client.execute_command("STAMP.GET", "k") == 5
    client.execute_command("STAMP.SET", "k", 6, "v")
    assert "explicit" in stamped.log_tail() or "explicit" in stamped.log_path.read_text()
    client.flushdb()
    client.set("k", "v")
    assert client.execute_command("STAMP.GET", "k") > 1_600_000_000_000


def test_commands_are_described(stamped):
    client = stamped.client()
    names = ["stamp.set", "stamp.get", "stamp.delrange", "stamp.count", "stamp.scan"]
    assert all(entry is not None for entry in client.execute_command("COMMAND", "INFO", *names).values())
    docs = stamped.cli("-3", "--json", "COMMAND", "DOCS", *names)
    assert set(json.loads(docs)) == set(names)


def test_its_ticket_is_done_when_the_tables_have_let_go(stamped):
    client = stamped.client()
    for number in range(500):
        client.execute_command("STAMP.SET", f"k{number}", number, "v" * 100)
    client.execute_command("TREE.FLUSH")
    client.execute_command("TREE.PAUSE")
    ticket = client.execute_command("STAMP.DELRANGE", 100, 200)
    client.execute_command("TREE.FLUSH")

    def status():
        reply = client.execute_command("PURGE.STATUS", ticket)
        return reply if isinstance(reply, dict) else dict(zip(reply[::2], reply[1::2]))

    # The record is in the manifest now, and the table with what it covers owes it.
    wait_until(lambda: b"table" in status()[b"left-in"], what="the table is named")
    assert status()[b"state"] == b"pending"
    client.execute_command("TREE.RESUME")
    client.execute_command("TREE.COMPACT")
    client.execute_command("PURGE.NOW", ticket)
    assert client.execute_command("PURGE.WAIT", ticket, 20_000) == 1
    assert status()[b"state"] == b"done"
    assert client.dbsize() == 400
