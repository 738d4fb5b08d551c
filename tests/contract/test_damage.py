"""A drive that gives back other bytes than it was given, under a server that runs: what is told, by file and place, and what is not
served. EBBTIDE_SEED repeats the tree's layout.
"""

import re

import redis

from support.layouts import change, chosen
from support.sockets import pairs

KEYS = 3000


def value_of(i):
    return b"%06d" % i * 50


def flip(path, offset):
    with open(path, "r+b") as file:
        file.seek(offset)
        byte = file.read(1)
        file.seek(offset)
        file.write(bytes([byte[0] ^ 1]))


def test_damage_under_a_running_server(fresh):
    """TREE.VERIFY names file and place, and a read is right or an error that does so, too."""
    layout = chosen("damage", but=("storage.compression", "storage.compression_last_level"))
    change(fresh, layout)
    fresh.set("storage.compression=none", "storage.compression_last_level=none", "storage.block_cache=8MiB").start()
    client = fresh.client()
    client.mset({f"k{i}": value_of(i) for i in range(KEYS)})
    client.execute_command("TREE.FLUSH")
    client.execute_command("TREE.COMPACT")  # and quiet it is
    (table,) = fresh.data.glob("*.data")

    def verify():
        return pairs(client.execute_command("TREE.VERIFY"))

    whole = verify()
    assert whole[b"errors"] == [] and whole[b"entries"] == KEYS

    offset = table.read_bytes().index(value_of(KEYS // 2)) + 100  # nothing but a checksum can tell
    flip(table, offset)
    found = verify()
    (error,) = found[b"errors"]
    match = re.search(rf"{re.escape(table.name)}\b.* at (\d+)", error.decode())
    assert match, error
    assert 0 <= offset - int(match[1]) < 64 << 10  # the page that the byte is in
    assert whole[b"entries"] > found[b"entries"] > KEYS // 2
    refused = 0
    for i in range(KEYS):
        try:
            assert client.get(f"k{i}") == value_of(i)
        except redis.ResponseError as wrong:
            refused += 1
            assert table.name in str(wrong), wrong
    # A tile is checked as a whole; what is refused are the keys of its damaged page.
    unchecked = whole[b"entries"] - found[b"entries"]
    assert refused == unchecked if layout["tree.pages_per_tile"] == 1 else 0 < refused <= unchecked

    # The byte was all that was wrong.
    flip(table, offset)
    assert verify() == whole
    assert [client.get(f"k{i}") for i in range(KEYS)] == [value_of(i) for i in range(KEYS)]
