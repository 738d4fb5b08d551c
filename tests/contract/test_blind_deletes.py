"""Tests that a delete of an absent key writes nothing: no operation, no tombstone, no name in a file, no pending delete. DEL
replies with the number of removed keys, so it looks the keys up."""

import re
from unittest.mock import ANY

import pytest

from support.server import wait_until
from support.sockets import Link, pairs

NEVER = "a-name-that-was-never-written"


def deletes(key):
    """Returns every way to delete one key, and its reply if the key is absent."""
    return [
        (("DEL", key), 0),
        (("DEL", key, key), 0),
        (("UNLINK", key), 0),
        (("GETDEL", key), None),
        (("SET", key, "v", "PXAT", 1), "OK"),
        (("SET", key, "v", "EXAT", 1), "OK"),
        (("GETEX", key, "PXAT", 1), None),
        (("PEXPIRE", key, -1), 0),
        (("EXPIREAT", key, 1), 0),
    ]


def traces(link):
    """Returns the number of operations in all databases, of entries in this database's memtables, and of tombstones in its
    tables."""
    operations = re.search(r"visible_seq:(\d+)", link.call("INFO", "ebbtide"))
    tree = pairs(link.call("TREE.INFO"))
    return int(operations[1]), tree["memtable-entries"], tree["tombstones"]


def transaction(link, commands):
    assert link.call("MULTI") == "OK"
    for command in commands:
        assert link.call(*command) == "QUEUED"
    return link.call("EXEC")


def delete_blindly(link, keys):
    """Deletes every key in every way, outside and inside a transaction, and all keys by one command."""
    blind = [each for key in keys for each in deletes(key)] + [(("DEL", *keys), 0), (("UNLINK", *keys), 0)]
    for command, answer in blind:
        assert (command, link.call(*command)) == (command, answer)
    assert transaction(link, [command for command, _ in blind]) == [answer for _, answer in blind]


@pytest.mark.parametrize("place", ["memory", "tables", "disk"])
def test_delete_of_an_absent_key_writes_nothing(fresh, place):
    """The server looks for the key in memtables, and in tables whose pages are in memory or on disk."""
    link = Link(fresh.start().port)
    for key in ("deleted", "expired", "in-a-range", *(f"stays{i}" for i in range(100))):
        link.call("SET", key, "v" * 100)
    link.call("TREE.FLUSH")
    assert link.call("DEL", "deleted") == 1
    assert link.call("PEXPIRE", "expired", 1) == 1
    link.call("DELPREFIX", "in-a-range")
    wait_until(lambda: link.call("GET", "expired") is None, 5, "a key has expired")
    if place != "memory":
        link.call("TREE.FLUSH")
    if place == "disk":
        link.close()
        fresh.restart()
        link = Link(fresh.port)
    link.call("TREE.PAUSE")  # otherwise merges would change the counts
    absent = (NEVER, "deleted", "expired", "in-a-range")
    before = traces(link)
    delete_blindly(link, absent)
    assert traces(link) == before

    # An existing key leaves one trace, even if it is named twice or read from the disk.
    assert link.call("DEL", "stays1", NEVER, "stays2", "stays1") == 2
    assert transaction(link, [("UNLINK", "stays3", NEVER), ("DEL", "stays3"), ("GETDEL", "stays3")]) == [1, 0, None]
    operations, entries, _ = traces(link)
    assert (operations, entries) == (before[0] + 3, before[1] + 3)
    if place != "memory":
        link.call("TREE.FLUSH")
        assert traces(link)[2] == before[2] + 3
    fresh.kill()
    assert not any(NEVER.encode() in path.read_bytes() for path in fresh.data.iterdir() if path.is_file())


TRANSACTIONS = [  # queued commands, where "there" is the only key; replies; number of operations written
    ([("DEL", "there"), ("DEL", "there"), ("UNLINK", "there"), ("GETDEL", "there")], [1, 0, 0, None], 1),
    ([("SET", "there", "v", "PXAT", 1), ("UNLINK", "there"), ("SET", "there", "v", "PXAT", 1)], ["OK", 0, "OK"], 1),
    ([("SET", "new", "v", "PXAT", 1), ("GETDEL", "new"), ("DEL", "there")], ["OK", None, 1], 1),
    ([("SET", "new", "v"), ("DEL", "new"), ("DEL", "new"), ("DEL", "there")], ["OK", 1, 0, 1], 3),
    ([("RENAME", "there", "new"), ("DEL", "there"), ("GETDEL", "new"), ("GETDEL", "new")], ["OK", 0, "v", None], 3),
    ([("DELPREFIX", "ther"), ("DEL", "there"), ("GETDEL", "there")], [ANY, 0, None], 1),
    ([("STAMP.DELRANGE", 7, 8), ("UNLINK", "there"), ("SET", "there", "v", "PXAT", 1)], [ANY, 0, "OK"], 1),
    ([("FLUSHDB",), ("DEL", "there"), ("GETDEL", "there")], ["OK", 0, None], 1),
]


@pytest.mark.parametrize("place", ["memory", "tables"])
def test_second_delete_of_a_key_in_a_transaction_writes_nothing(fresh, place):
    link = Link(fresh.set("tree.deletes.stamp=explicit").start().port)
    for commands, answers, operations in TRANSACTIONS:
        link.call("STAMP.SET", "there", 7, "v")
        if place == "tables":
            link.call("TREE.FLUSH")
        before = traces(link)[0]
        assert (commands, transaction(link, commands)) == (commands, answers)
        assert (commands, traces(link)[0]) == (commands, before + operations)
        assert link.call("EXISTS", "there", "new") == 0


def test_delete_in_a_database_without_a_tree_creates_no_tree(fresh):
    link = Link(fresh.start().port)
    link.call("SELECT", 5)
    before = traces(link)
    delete_blindly(link, (NEVER,))
    assert pairs(link.call("TREE.INFO"))["tree"] == 0
    assert traces(link) == before


def test_delete_of_an_absent_key_leaves_no_pending_delete(fresh):
    link = Link(fresh.start().port)
    link.call("SET", "there", "v")

    def left():
        """Returns where deleted data is left, such as "memtable" and "log"."""
        ticket = link.call("PURGE.TICKET")
        done = link.call("PURGE.WAIT", ticket, 500)
        state = pairs(link.call("PURGE.STATUS", ticket))
        assert state["state"] == ("done" if done else "pending")
        return set(state["left-in"])

    delete_blindly(link, (NEVER,))
    assert left() == set()
    assert transaction(link, [("DEL", NEVER), ("DEL", "there")]) == [0, 1]
    assert left() == {"memtable", "log"}


def test_delete_of_an_absent_key_does_not_abort_a_transaction_that_watches_it(fresh):
    fresh.start()
    with Link(fresh.port) as watching, Link(fresh.port) as other:
        other.call("SET", "there", "v")
        watching.call("WATCH", NEVER)
        for command in ("DEL", "UNLINK", "GETDEL"):
            other.call(command, NEVER)
        assert transaction(watching, [("PING",)]) == ["PONG"]
        watching.call("WATCH", "there")
        other.call("DEL", "there")
        assert transaction(watching, [("PING",)]) is None
