"""The delete deadline, on the real clock and a real disk: whatever the way to delete, names and values are in no file when it is over,
neither as they are nor compressed."""

import random
import string
import subprocess
import time
from pathlib import Path

import pytest

from support.blocks import decompressed
from support.server import binary, wait_until

SECONDS = 10


def letters(seed):
    """Like no others."""
    return "".join(random.Random(seed).choices(string.ascii_letters + string.digits, k=30)).encode()


def name_of(way):
    return letters("name " + way)


def marker_of(way):
    return letters("value " + way)


def value_of(way):
    """The marker, behind its own thirds in another order: a compressor leaves nothing of it that a search for it would find."""
    marker = marker_of(way)
    return marker[20:] + marker[10:20] + marker[:10] + marker


KEPT = b"!" + letters("name kept")  # stays; the first of all keys, so that the table which has it names it as its bound


def with_blocks(data):
    yield data
    yield from decompressed(data)


def contents(server):
    """The bytes of all files of the data directory, and of those that the process has open though they may have no name any more; and
    what their compressed blocks hold."""
    held = Path(f"/proc/{server.pid}/fd").iterdir() if server.running else ()
    for path in [*server.data.iterdir(), *held]:
        try:
            if path.is_file():
                yield from with_blocks(path.read_bytes())
        except OSError:
            pass  # went meanwhile, or is no file


def dumps(server):
    """What ebbtide-inspect says of the files. It spells out what they abbreviate: a separator begins as the one before does."""
    tables = [("table", path) for path in server.data.glob("*.data")]
    for what in (("wal", server.data, "--values"), ("manifest", server.data), ("tree", server.data), *tables):
        yield subprocess.run([binary("ebbtide-inspect"), *what], capture_output=True, timeout=60, check=False).stdout


def seen(texts, places):
    return {text for data in places for text in texts if text in data}


def found(server, texts):
    return seen(texts, contents(server))


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
    "set-in-the-past": lambda client, key: client.set(key, value_of("set-in-the-past"), pxat=1),
    "rename": lambda client, key: client.rename(key, "renamed") and client.delete("renamed"),
    "delrange": lambda client, key: client.execute_command("DELRANGE", key, key + b"\0"),
    "delprefix": lambda client, key: client.execute_command("DELPREFIX", key),
    "stamp": delete_by_stamp,
    "transaction": delete_in_transaction,
    "del-and-set": lambda client, key: client.delete(key) and client.set(key, "again") and client.delete(key),
}


@pytest.mark.parametrize("compression", ["none", "lz4", "zstd"])
def test_names_and_values_are_in_no_file_after_the_deadline(fresh, compression):
    # The smaller a memtable, the smaller the reserve beside it, which is read at each look.
    settings = (f"storage.compression={compression}", f"storage.compression_last_level={compression}", "storage.memtable_size=1MiB")
    server = fresh.set(*settings).start()
    client, emptied = server.client(), server.client(db=2)
    for way in WAYS:
        client.set(name_of(way), value_of(way))
    client.set(KEPT, value_of("kept"))
    stamp_alone(client, name_of("stamp"), value_of("stamp"))
    emptied.set(name_of("flushdb"), value_of("flushdb"))
    emptied.set("~", "x" * 1000)  # so that its page, too, is worth compressing
    for i in range(300):
        client.set(f"stays{i}", "x" * 100)
    for each in (client, emptied):
        each.execute_command("TREE.FLUSH")

    # Else nothing would be shown: the tables have all of it, which nobody sees who does not decompress them; the log has it, too.
    gone = {text for way in (*WAYS, "flushdb") for text in (name_of(way), marker_of(way))}
    kept = {KEPT, marker_of("kept")}
    tables = [path.read_bytes() for path in server.data.glob("*.data")]
    markers = {marker_of(way) for way in (*WAYS, "flushdb", "kept")}
    assert seen(markers, tables) == (markers if compression == "none" else set())
    assert seen(gone | kept, (part for data in tables for part in with_blocks(data))) == gone | kept
    assert seen(gone | kept, dumps(server)) == gone | kept

    for database in (0, 2):
        client.config_set(f"databases.{database}.deletes.deadline", f"{SECONDS}s")
    assert client.config_get("databases.0.deletes.deadline") == {"databases.0.deletes.deadline": f"{SECONDS}s"}
    assert client.config_get("tree.deletes.deadline") != {"tree.deletes.deadline": f"{SECONDS}s"}
    for way, delete in WAYS.items():
        delete(client, name_of(way))
    emptied.flushdb()
    # What expires is born a little later than the rest. A look that begins after the last deadline counts, however long those
    # before it took.
    end = time.monotonic() + SECONDS + 1
    while time.monotonic() < end and found(server, gone):
        time.sleep(0.1)
    assert not found(server, gone)
    assert [client.get(name_of(way)) for way in WAYS] == [None] * len(WAYS)
    assert client.get("stays7") == b"x" * 100
    assert client.info("ebbtide")["delete_deadline_missed_load"] == 0
    server.kill()
    # What is kept is seen still: whoever looks has not gone blind meanwhile.
    assert found(server, gone | kept) == kept
    assert seen(gone | {KEPT}, dumps(server)) == {KEPT}
    server.start()
    assert client.get("stays8") == b"x" * 100
