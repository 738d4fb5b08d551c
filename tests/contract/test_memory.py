"""Tests that all memory that clients make the server hold counts towards one memory budget, with -OOM beyond it."""

import contextlib
import os
import select

import pytest
import redis

from support.server import wait_until
from support.sockets import encode, receive_exactly, receive_until

MIB = 1 << 20
BUDGET = ("storage.memory_budget=64MiB", "storage.memtable_size=4MiB")


def start(fresh, *settings):
    fresh.set(*BUDGET, *settings)
    return fresh.start().client()


def set_if_there_is_room(client):
    try:
        return client.set("k", b"x" * 20_000_000)
    except redis.ResponseError as error:
        assert "OOM" in str(error) or "used memory" in str(error)  # redis-py may remove the error code
        return False


def test_values_that_exceed_the_budget_while_they_are_received_get_oom_when_complete(fresh):
    client = start(fresh)
    before = fresh.resident_bytes()
    with contextlib.ExitStack() as stack:
        links = [stack.enter_context(fresh.connect()) for _ in range(12)]
        for link in links:  # 240 MB of incomplete values
            link.sendall(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$20000000\r\n" + b"x" * 19_999_999)
        assert client.ping()
        assert fresh.resident_bytes() - before < 128 * MIB
        refused = 0
        for link in links:
            link.sendall(b"x\r\n" + encode("PING"))
            reply = receive_exactly(link, 5)
            if reply == b"+OK\r\n":
                assert receive_exactly(link, 7) == b"+PONG\r\n"
                continue
            assert reply == b"-OOM "
            refused += 1
            receive_until(link, b"+PONG\r\n")
        assert refused >= 4
        wait_until(lambda: set_if_there_is_room(client), 60, "there is room again", interval=0.2)
    assert client.strlen("k") == 20_000_000


def test_buffers_of_many_clients_stay_within_the_budget(fresh):
    """Each buffer is below its own limit; together they are far above the budget."""
    client = start(fresh)
    before = fresh.resident_bytes()
    arguments = b"*1000000\r\n" + encode("x" * 1000)[4:] * 8_000  # 8 MB of an incomplete command
    with contextlib.ExitStack() as stack:
        for _ in range(40):
            link = stack.enter_context(fresh.connect())
            with contextlib.suppress(OSError):
                link.sendall(arguments)
            assert client.ping()
        assert fresh.resident_bytes() - before < 160 * MIB
        assert client.set("a", "b")
        assert client.get("a") == b"b"
    wait_until(lambda: client.info("memory")["used_memory_connections"] < 8 * MIB, 20, "the buffers are released")


def test_6500_incomplete_commands_of_60_kb_stay_within_the_budget_and_short_commands_run(fresh):
    fresh.set("storage.memory_budget=256MiB").start()
    with contextlib.ExitStack() as stack:
        modest = [stack.enter_context(fresh.connect()) for _ in range(20)]
        for link in modest:
            link.sendall(b"PI")
        links = [stack.enter_context(fresh.connect()) for _ in range(6500)]
        for link in links:
            with contextlib.suppress(OSError):
                link.sendall(b"x" * 60_000)  # an inline command without its end
        for link in modest:
            link.sendall(b"NG\r\n")
            assert receive_until(link, b"\r\n") == b"+PONG\r\n"
    assert fresh.peak_resident_bytes() < 256 * MIB * 1.25


def test_acl_log_drops_its_oldest_entries_beyond_its_part_of_the_budget(fresh):
    client = start(fresh, "log.denials_kept=1000000")
    client.acl_setuser("bob", enabled=True, nopass=True, keys=["none"], commands=["+get"])
    before = fresh.resident_bytes()
    with fresh.connect() as link:
        link.sendall(encode("AUTH", "bob", "x"))
        receive_until(link, b"+OK\r\n")
        for part in range(20):  # 100 MB of entries, if all of them were kept
            link.sendall(b"".join(encode("GET", f"{part}:{i}:" + "k" * 1000) for i in range(2500)))
            receive_exactly(link, 2500 * len(b"-NOPERM No permissions to access a key\r\n"))
    assert len(client.execute_command("ACL LOG", 1000000)) > 100
    assert fresh.resident_bytes() - before < 32 * MIB
    assert client.execute_command("ACL LOG", "RESET")
    assert client.execute_command("ACL LOG") == []


def test_acl_setuser_is_refused_beyond_the_part_of_the_budget_for_users(fresh, tmp_path):
    file = tmp_path / "users.acl"
    file.write_text("user first on nopass +@all ~*\n")
    client = start(fresh, f"server.users_file={file}")
    before = fresh.resident_bytes()
    refusal, added = None, 0
    while refusal is None and added < 300:  # 60 MB, if all of them were kept
        patterns = [f"~{added}:{i}:" + "k" * 100 for i in range(1000)]
        try:
            client.execute_command("ACL", "SETUSER", f"user{added}", "on", *patterns)
            added += 1
        except redis.ResponseError as error:
            refusal = str(error)
    assert 20 < added < 100
    assert "used memory > 'memory_budget'" in refusal
    assert "All users and their rules together can have 8388608 bytes" in refusal
    assert client.info("memory")["used_memory_connections"] > 4 * MIB
    assert fresh.resident_bytes() - before < 32 * MIB
    assert client.execute_command("ACL", "SETUSER", "user0", "resetkeys") in (True, b"OK")
    assert client.execute_command("ACL", "DELUSER", *[f"user{i}" for i in range(added)]) == added
    assert client.info("memory")["used_memory_connections"] < 1 * MIB
    lines = "".join(f"user u{number} on " + " ".join(f"~{i}:" + "k" * 100 for i in range(1000)) + "\n" for number in range(100))
    file.write_text(lines)
    with pytest.raises(redis.ResponseError, match=r"users.acl:[0-9]+: the users up to this line take .* The users are unchanged"):
        client.execute_command("ACL", "LOAD")
    fresh.stop()
    with pytest.raises(RuntimeError, match=r"users.acl:[0-9]+: the users up to this line take .* 8388608 are allowed"):
        fresh.start()


def test_pipelines_of_60_kb_values_stay_within_a_small_budget_with_default_memtables(fresh):
    fresh.set("storage.memory_budget=128MiB").start()
    assert "tree.memtable_size 64MiB: 32MiB, a quarter of the budget, is used" in fresh.log()
    values = encode("SET", "k", b"x" * 60_000) * 100
    with contextlib.ExitStack() as stack:
        links = [stack.enter_context(fresh.connect(timeout=60)) for _ in range(50)]
        for link in links * 3:  # 900 MB in all; replies are few bytes, and wait in the sockets
            link.sendall(values)
        for link in links:
            link.sendall(encode("ECHO", "end"))
            receive_until(link, b"$3\r\nend\r\n")
    assert fresh.peak_resident_bytes() < 128 * MIB * 1.25


def test_used_memory_in_info_is_the_sum_of_the_memory_of_its_owners(fresh):
    client = start(fresh)
    client.set("k", "v" * 1000)
    with fresh.connect() as link:
        link.sendall(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$20000000\r\n" + b"x" * 10_000_000)
        memory = wait_until(
            lambda: (m := client.info("memory"))["used_memory_large_values"] >= 10_000_000 and m, 20, "the value is charged"
        )
        parts = ("memtables", "block_cache", "tables", "connections", "large_values", "pinned_pages", "commands")
        assert memory["used_memory"] == sum(memory[f"used_memory_{part}"] for part in parts)
    wait_until(lambda: client.info("memory")["used_memory_large_values"] == 0, 20, "the value is released")


@pytest.mark.parametrize("reader", ["KEYS *", "COUNTRANGE - +"])
def test_short_commands_do_not_wait_for_long_ones(fresh, reader):
    client = start(fresh)
    with client.pipeline(transaction=False) as pipe:
        for i in range(200_000):
            pipe.set(f"key{i:07}", i)
            if i % 20_000 == 19_999:
                pipe.execute()

    def overtakes():
        with contextlib.ExitStack() as stack:
            links = [stack.enter_context(fresh.connect()) for _ in range(50)]
            for link in links:
                link.sendall(reader.encode() + b"\r\n")
            client.scan(0)
            # If SCAN waited in their queue, all of them would have replies by now.
            return not select.select([links[-1]], [], [], 0)[0]

    assert any(overtakes() for _ in range(5))  # this process may be scheduled too late to see it


def flushes(client):
    return client.execute_command("INFO", "everything")["flushes"]


def set_in_all(fresh, databases, rounds):
    """Sends one SET to each database, `rounds` times, over one connection."""
    with fresh.connect() as link:
        for n in range(rounds):
            request = b"".join(encode("SELECT", db) + encode("SET", f"k{n}", "v" * 100) for db in range(databases))
            link.sendall(request)
            assert receive_exactly(link, 2 * databases * 5) == b"+OK\r\n" * 2 * databases


def test_1024_databases_of_one_key_each_stay_within_the_budget_without_flushes(fresh):
    fresh.set("server.databases=1024", "storage.memory_budget=256MiB")
    client = fresh.start().client()
    set_in_all(fresh, 1024, 20)
    assert client.execute_command("DBSIZE") == 20
    assert fresh.resident_bytes() < 256 * MIB * 1.25
    assert flushes(client) <= 16
    fresh.kill()
    client = fresh.start().client()
    assert fresh.resident_bytes() < 256 * MIB * 1.25
    assert client.get("k19") == b"v" * 100


def test_log_longer_than_the_budget_is_replayed_within_the_budget(fresh):
    """The log has many databases, a batch in pieces, and one value larger than the budget."""
    fresh.set("storage.memory_budget=2GiB", "storage.memtable_size=1GiB", "limits.client_query_buffer_limit=1GiB")
    fresh.start()
    value = os.urandom(100_000)
    with fresh.connect(timeout=60) as link:
        for i in range(1_600):
            link.sendall(encode("SELECT", i % 16) + encode("SET", f"k{i}", value))
            assert receive_exactly(link, 10) == b"+OK\r\n+OK\r\n"
        link.sendall(encode("MSET", *[part for i in range(6_000) for part in (f"b{i}", value[:10_000])]))
        assert receive_exactly(link, 5) == b"+OK\r\n"
        link.sendall(encode("SET", "large", value * 1_000))
        assert receive_exactly(link, 5) == b"+OK\r\n"
    assert flushes(fresh.client()) == 0
    fresh.kill()
    fresh.set(*BUDGET).start()
    # This is three quarters of the budget for memtables, the large value once, and the process itself.
    assert fresh.peak_resident_bytes() < 1.25 * 64 * MIB + 100_000_000 + 48 * MIB
    client = fresh.client()
    assert client.strlen("large") == 0  # the last database has the value
    client = fresh.client(db=15)
    assert client.getrange("large", 99_999_900, -1) == value[-100:]
    assert client.get("b5999") == value[:10_000]
    for i in (0, 15, 1_599):
        assert fresh.client(db=i % 16).get(f"k{i}") == value
