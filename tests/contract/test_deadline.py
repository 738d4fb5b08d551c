"""The delete deadline, on the real clock and a real disk: whatever the way to delete, names and values are in no file when it is over."""

import random
import string
from pathlib import Path

import pytest

from support.server import wait_until

SECONDS = 10


def letters(seed):
    """So much alike no other that compression leaves them as they are."""
    return "".join(random.Random(seed).choices(string.ascii_letters + string.digits, k=30)).encode()


def name_of(way):
    return letters("name " + way)


def marker_of(way):
    return letters("value " + way)


def contents(server):
    """The bytes of all files of the data directory, and of those that the process has open though they may have no name any more."""
    held = Path(f"/proc/{server.pid}/fd").iterdir() if server.running else ()
    for path in [*server.data.iterdir(), *held]:
        try:
            if path.is_file():
                yield path.read_bytes()
        except OSError:
            pass  # went meanwhile, or is no file


def found(server, texts):
    return {text for data in contents(server) for text in texts if text in data}


def stamp_alone(client, key, value):
    """Writes the key until no other has its stamp."""

    def write():
        client.set(key, value)
        stamp = client.execute_command("STAMP.GET", key)
        return stamp if client.execute_command("STAMP.COUNT", stamp, stamp + 1, "EXACT") == 1 else None

    return wait_until(write, 5, "a stamp of its own")


def delete_by_stamp(client, key):
    stamp = client.execute_command("STAMP.GET", key)
    client.execute_command("STAMP.DELRANGE", stamp, stamp + 1)


def delete_in_transaction(client, key):
    with client.pipeline(transaction=True) as pipe:
        pipe.set("another", "1").delete(key).execute()


WAYS = {
    "del": lambda client, key: client.delete(key),
    "unlink": lambda client, key: client.unlink(key),
    "getdel": lambda client, key: client.getdel(key),
    "expiry": lambda client, key: client.pexpire(key, 100),
    "expired-at-once": lambda client, key: client.expireat(key, 1),
    "set-in-the-past": lambda client, key: client.set(key, marker_of("set-in-the-past"), pxat=1),
    "rename": lambda client, key: client.rename(key, "renamed") and client.delete("renamed"),
    "delrange": lambda client, key: client.execute_command("DELRANGE", key, key + b"\0"),
    "delprefix": lambda client, key: client.execute_command("DELPREFIX", key),
    "stamp": delete_by_stamp,
    "transaction": delete_in_transaction,
    "del-and-set": lambda client, key: client.delete(key) and client.set(key, "again") and client.delete(key),
}


@pytest.mark.parametrize("compression", ["none", "lz4"])
def test_names_and_values_are_in_no_file_after_the_deadline(fresh, compression):
    server = fresh.set(f"storage.compression={compression}", f"storage.compression_last_level={compression}").start()
    client, emptied = server.client(), server.client(db=2)
    for way in WAYS:
        client.set(name_of(way), marker_of(way))
    stamp_alone(client, name_of("stamp"), marker_of("stamp"))
    emptied.set(name_of("flushdb"), marker_of("flushdb"))
    for i in range(300):
        client.set(f"stays{i}", "x" * 100)
    for each in (client, emptied):
        each.execute_command("TREE.FLUSH")
    gone = {text for way in (*WAYS, "flushdb") for text in (name_of(way), marker_of(way))}
    assert found(server, gone) == gone  # else nothing would be shown

    for database in (0, 2):
        client.config_set(f"databases.{database}.deletes.deadline", f"{SECONDS}s")
    assert client.config_get("databases.0.deletes.deadline") == {"databases.0.deletes.deadline": f"{SECONDS}s"}
    assert client.config_get("tree.deletes.deadline") != {"tree.deletes.deadline": f"{SECONDS}s"}
    for way, delete in WAYS.items():
        delete(client, name_of(way))
    emptied.flushdb()
    wait_until(lambda: not found(server, gone), SECONDS, "the end of what was deleted")
    assert [client.get(name_of(way)) for way in WAYS] == [None] * len(WAYS)
    assert client.get("stays7") == b"x" * 100
    assert client.info("ebbtide")["delete_deadline_missed_load"] == 0
    server.kill()
    assert not found(server, gone)
    server.start()
    assert client.get("stays8") == b"x" * 100
