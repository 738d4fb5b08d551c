"""Tests of values larger than the free memory: commands that need no bytes of a value read none, and commands that need a part
read only this part.

The values are written under a large budget. Under a small budget they can still be inspected, read in parts, and deleted.
"""

import random
import time

import pytest
import redis

MIB = 1 << 20
SIZE = 160 * MIB
PART = 1000


def block(number):
    """Returns a mebibyte that differs from the blocks of other numbers and compresses by half."""
    noise = random.Random(number).randbytes(MIB // 2)
    return b"".join(noise[i : i + 64] + b"." * 64 for i in range(0, len(noise), 64))


VALUE = b"".join(block(i % 8) for i in range(SIZE // MIB - 1)) + b"\x00" * (MIB - 1) + b"\x01"


def bits(data):
    return bin(int.from_bytes(data, "big")).count("1")


def oom(error):
    return "OOM" in str(error.value) or "used memory" in str(error.value)  # redis-py may remove the error code


@pytest.fixture(params=[("1", "none"), ("8", "zstd")], ids=["h=1", "h=8, zstd"])
def small(fresh, request):
    """Gives a server with a budget of 64 MiB, and a value of 160 MiB at "large" and at "other", on disk."""
    pages, compression = request.param
    fresh.set(f"tree.pages_per_tile={pages}", f"storage.compression={compression}", f"storage.compression_last_level={compression}")
    fresh.set("storage.memory_budget=2GiB", "server.threads=1").start()
    client = fresh.client()
    client.set("large", VALUE, ex=10_000)
    client.set("other", VALUE)
    client.set("little", "x")
    client.execute_command("TREE.FLUSH")
    client.close()
    fresh.stop()
    fresh.set("storage.memory_budget=64MiB", "storage.memtable_size=4MiB").start()
    return fresh


def test_exists_ttl_and_strlen_of_a_large_value_read_no_bytes_of_it(small):
    client = small.client()
    before = small.resident_bytes()
    start = time.monotonic()
    assert client.exists("large", "other", "none") == 2
    assert client.touch("large") == 1
    assert client.type("large") == b"string"
    assert 9_900 < client.ttl("large") <= 10_000
    assert client.pttl("other") == -1
    assert client.expiretime("large") > 0
    assert client.strlen("large") == SIZE
    assert client.object("ENCODING", "large") == b"raw"
    assert client.memory_usage("large") >= SIZE
    assert client.setnx("large", "x") is False
    assert client.set("large", "x", nx=True) is None
    assert client.set("none", "x", xx=True) is None
    assert client.msetnx({"none": "x", "large": "y"}) is False
    assert client.renamenx("little", "large") is False
    assert client.copy("little", "large") is False
    assert client.expire("large", 20_000, lt=True) is False
    assert {key for key in client.scan_iter()} == {b"large", b"other", b"little"}
    with client.pipeline(transaction=True) as queue:
        queue.watch("large", "other")
        queue.multi()
        queue.exists("large").strlen("other").type("large")
        assert queue.execute() == [1, SIZE, b"string"]
    for wrong in (("INCR", "large"), ("INCRBYFLOAT", "large", "1")):
        with pytest.raises(redis.ResponseError, match="not an integer|not a valid float"):
            client.execute_command(*wrong)
    assert time.monotonic() - start < 5  # all take some tens of milliseconds together; a command that read the value would take as long alone
    assert small.resident_bytes() - before < 40 * MIB


def test_getrange_and_getbit_of_a_large_value_read_only_the_part_that_they_need(small):
    client = small.client()
    before = small.resident_bytes()
    for first in (0, 1, 256 * 1024 - 5, 77 * MIB + 12_345, SIZE - PART):
        assert client.getrange("large", first, first + PART - 1) == VALUE[first : first + PART]
    assert client.getrange("large", -10, -1) == VALUE[-10:]
    assert client.getrange("large", 20 * MIB, 23 * MIB - 1) == VALUE[20 * MIB : 23 * MIB]
    assert client.substr("large", SIZE, SIZE + 5) == b""
    assert client.getbit("large", 8 * SIZE - 1) == 1
    assert client.getbit("large", 8 * SIZE) == 0
    assert client.bitcount("large", 3, MIB - 1) == bits(VALUE[3:MIB])
    assert client.bitcount("large") == sum(bits(block(i % 8)) for i in range(SIZE // MIB - 1)) + 1
    assert client.bitpos("large", 1, SIZE - MIB) == 8 * SIZE - 1
    assert client.bitpos("large", 1, SIZE - MIB, SIZE - 2) == -1
    fields = client.execute_command("BITFIELD_RO", "large", "GET", "u8", "0", "GET", "u16", 8 * (SIZE - 1), "GET", "u32", 8 * SIZE)
    assert fields == [VALUE[0], 256, 0]
    with client.pipeline(transaction=True) as queue:
        queue.getrange("large", 5, 9).getbit("large", 8 * SIZE - 1)
        assert queue.execute() == [VALUE[5:10], 1]
    assert small.resident_bytes() - before < 48 * MIB


def test_commands_that_need_the_whole_value_are_refused_and_the_value_can_be_deleted(small):
    client = small.client()
    for command in (("GET", "large"), ("GETDEL", "large"), ("APPEND", "large", "x"), ("SETRANGE", "large", "0", "x"),
                    ("EXPIRE", "large", "100"), ("PERSIST", "large"), ("RENAME", "large", "new"), ("COPY", "large", "new"),
                    ("DUMP", "large"), ("SETBIT", "large", "0", 1 - VALUE[0] // 128), ("BITOP", "NOT", "new", "large")):
        with pytest.raises(redis.ResponseError) as error:
            client.execute_command(*command)
        assert oom(error), command
    assert client.exists("large", "other") == 2
    assert client.rename("little", "other") is True
    assert client.get("other") == b"x"
    assert client.expire("large", -1) is True
    assert client.exists("large") == 0
    assert client.ping()
    small.stop()
    small.start()
    assert small.client().mget("large", "other") == [None, b"x"]


def test_large_value_that_fits_into_memory_once_can_be_changed_repeatedly(small):
    small.stop()
    small.set("storage.memory_budget=256MiB").start()
    client = small.client()
    assert client.append("large", "end") == SIZE + 3
    assert client.getrange("large", SIZE - 2, -1) == b"\x00\x01end"
    assert client.setrange("large", 5, "hello") == SIZE + 3
    assert client.getrange("large", 4, 10) == VALUE[4:5] + b"hello" + VALUE[10:11]
    assert 0 < client.ttl("large") <= 10_000


@pytest.mark.parametrize(
    "command",
    [("EXPIRE", "large", 50), ("PERSIST", "large"), ("RENAME", "large", "new"), ("COPY", "large", "new"), ("MOVE", "large", 1),
     ("GETDEL", "large"), ("GETEX", "large", "EX", 50), ("APPEND", "large", "x"), ("SETRANGE", "large", 0, "x")],
    ids=lambda command: command[0],
)
def test_command_on_a_value_that_does_not_fit_beside_memtables_waits_for_their_flush(fresh, command):
    fresh.set("storage.memory_budget=256MiB", "storage.memtable_size=64MiB").start()
    client = fresh.client()
    size = 100_000_000
    client.setrange("large", size - 1, "x")
    client.expire("large", 10_000)
    client.execute_command("TREE.FLUSH")
    client.close()
    fresh.stop()
    fresh.start()
    client = fresh.client()
    client.setrange("fill", 140_000_000, "x")  # there is no room for the large value beside this one
    answer = client.execute_command(*command)
    assert len(answer) == size if command[0].startswith("GET") else answer in (1, b"OK", True, size, size + 1)
    assert fresh.peak_resident_bytes() < 256 * MIB * 5 // 4


@pytest.mark.parametrize("command", [("DEL", "large"), ("UNLINK", "large", "other"), ("SET", "large", "short")])
def test_value_that_does_not_fit_into_memory_can_be_deleted_and_overwritten(small, command):
    client = small.client()
    client.execute_command(*command)
    assert client.get("large") == (b"short" if command[0] == "SET" else None)
    client.execute_command("TREE.FLUSH")
    client.execute_command("TREE.COMPACT")
    assert client.get("large") == (b"short" if command[0] == "SET" else None)
