"""Tests that the memory budget includes the values that commands build: a command without room gets -OOM before it allocates.

Each test checks the peak memory of the server process, so memory that was allocated and freed again counts, too.
"""

import contextlib
import os
import resource
import signal
import threading
import time

import pytest
import redis

from support.server import wait_until
from support.sockets import encode, receive_exactly, receive_until

MIB = 1 << 20
BUDGET = 256 * MIB
BOUND = BUDGET * 5 // 4
LARGE = 60_000_000


@pytest.fixture
def client(fresh):
    fresh.set("storage.memory_budget=256MiB", "storage.memtable_size=16MiB")
    yield fresh.start().client()
    assert fresh.peak_resident_bytes() < BOUND


def refused(call, *arguments):
    """Returns true if the call gets -OOM. Raises any other error."""
    try:
        call(*arguments)
    except redis.ResponseError as error:
        assert "OOM" in str(error) or "used memory" in str(error), error  # redis-py may remove the error code
        return True
    return False


def answers(fresh, connections, request, prepare=lambda link, i: None):
    """Returns the first line of each reply of many connections that send request(number) at the same time."""
    with contextlib.ExitStack() as stack:
        links = [stack.enter_context(fresh.connect(timeout=120)) for _ in range(connections)]
        for i, link in enumerate(links):
            prepare(link, i)
            link.sendall(request(i))
        return [receive_until(link, b"\r\n").split(b"\r\n")[0] for link in links]


def at_once(*functions):
    """Calls each function on its own thread. If the server closes its connection, the function ends."""

    def run(function):
        with contextlib.suppress(OSError):
            function()

    threads = [threading.Thread(target=run, args=(function,), daemon=True) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)


def out_of_memory(lines):
    return sum(line.startswith(b"-OOM") for line in lines)


def test_setrange_beyond_the_budget_is_refused_and_within_the_budget_works(client):
    assert refused(client.setrange, "k", 500_000_000, "x")
    assert client.exists("k") == 0
    assert client.setrange("k", LARGE - 1, "x") == LARGE
    assert client.strlen("k") == LARGE


def test_repeated_setrange_waits_for_flushes_and_stays_within_the_budget(client):
    for _ in range(12):
        assert client.setrange("k", LARGE - 1, "x") == LARGE


def test_append_beyond_the_budget_is_refused(client):
    client.setrange("k", 3 * LARGE - 1, "x")
    with pytest.raises(redis.ResponseError, match=f"{4 * LARGE} bytes are needed at once") as error:
        client.append("k", b"x" * LARGE)  # the old value must be in memory, too
    assert "storage.memory_budget is 268435456 bytes" in str(error.value)
    assert client.strlen("k") == 3 * LARGE


def test_setbit_at_high_offsets_by_16_clients_gets_oom_or_fits_into_the_budget(fresh, client):
    got = answers(fresh, 16, lambda i: encode("SETBIT", f"big{i}", 4294967295, 1))
    assert {line[:4] for line in got} == {b"-OOM"}
    got = answers(fresh, 16, lambda i: encode("SETBIT", f"big{i}", 32 * MIB * 8, 1))
    assert b":0" in {line[:4] for line in got} <= {b"-OOM", b":0"}
    assert client.ping()


def test_bitfield_beyond_the_budget_is_refused(client):
    assert refused(client.execute_command, "BITFIELD", "k", "SET", "u8", 4294967280, 1)
    assert client.exists("k") == 0


def test_bitop_results_that_do_not_fit_into_the_budget_wait_or_get_oom(fresh, client):
    client.setrange("k", LARGE - 1, "x")
    got = answers(fresh, 8, lambda i: encode("BITOP", "NOT", f"to{i}", "k"))
    assert b":600" in {line[:4] for line in got} <= {b"-OOM", b":600"}


def test_pfmerge_of_a_sketch_beyond_the_budget_is_refused(client):
    # A sparse sketch may have any length, since its header does not have the length.
    client.setrange("k", 2 * LARGE - 1, "\0")
    client.setrange("k", 0, b"HYLL\x01")
    assert refused(client.execute_command, "PFADD", "k", "a") or client.strlen("k") == 2 * LARGE


def test_restore_of_a_small_payload_that_unpacks_beyond_the_budget_is_refused(client):
    payload = lzf_zeros(400_000_000)
    assert len(payload) < 8 * MIB
    assert refused(client.execute_command, "RESTORE", "k", 0, payload)
    assert client.exists("k") == 0
    assert not refused(client.execute_command, "RESTORE", "k", 0, lzf_zeros(LARGE))
    assert client.strlen("k") == LARGE


def test_restore_of_a_payload_that_claims_or_unpacks_to_a_large_size_takes_no_memory(client):
    empty_part = b"\x02\xc3\x08\x07\x06\x07\0\0\0\0\0\xff"
    bodies = [
        b"\x01\x01" + lzf_zeros(400_000_000)[1:-10],
        b"\x12\x80" + (400_000).to_bytes(4, "big") + empty_part * 400_000,
        b"\x02\x81" + b"\xff" * 8 + b"\x01a",
        b"\x10\xc3\x40\x64" + b"\x80\x17\xd7\x84\x00" + b"\xff" * 100,
    ]
    before = client.info("memory")["used_memory"]
    for body in bodies:
        with pytest.raises(redis.ResponseError, match="Bad data format|cannot build"):
            client.restore("k", 0, with_footer(body))
    assert client.exists("k") == 0
    # Large arguments are freed by a thread of their own, after the reply.
    wait_until(lambda: client.info("memory")["used_memory"] < before + 4 * MIB)


def lzf_zeros(length):
    """Returns a DUMP payload of a string of `length` zero bytes, compressed as in Redis."""
    out = bytearray(b"\x00\x00")  # one literal byte
    left = length - 1
    while left:
        n = min(left, 264)
        if n < 3:
            out += bytes([n - 1]) + b"\0" * n
        elif n < 9:
            out += bytes([(n - 2) << 5, 0])
        else:
            out += bytes([7 << 5, n - 9, 0])
        left -= n
    head = b"\x00\xc3" + b"\x80" + len(out).to_bytes(4, "big") + b"\x80" + length.to_bytes(4, "big")
    return with_footer(head + bytes(out))


def with_footer(body):
    body += (11).to_bytes(2, "little")
    return body + crc64(body).to_bytes(8, "little")


def crc64(data):
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ 0x95AC9329AC4BC9B5 if byte & 1 else byte >> 1
        table.append(byte)
    crc = 0
    for byte in data:
        crc = table[(crc ^ byte) & 255] ^ crc >> 8
    return crc


def test_dump_to_clients_that_do_not_read_is_refused_when_replies_fill_the_budget(fresh, client):
    client.setrange("k", LARGE - 1, "x")
    got = answers(fresh, 10, lambda i: encode("DUMP", "k"))
    assert out_of_memory(got) > 0
    assert any(line.startswith(b"$") for line in got)


def test_mget_of_many_small_values_is_refused_when_replies_fill_the_budget(fresh, client):
    client.set("k", b"x" * 50_000)
    got = answers(fresh, 10, lambda i: encode("MGET", *["k"] * 1500))  # 75 MB for each client
    assert {line[:4] for line in got} == {b"-OOM", b"*150"}


def test_mget_of_60_mb_of_pages_by_50_clients_stays_near_the_budget(fresh):
    client = fresh.set("storage.memory_budget=256MiB", "storage.memtable_size=16MiB").start().client()
    for i in range(1000):
        client.set(f"k{i}", b"x" * 60_000)
    fresh.restart()
    request = encode("MGET", *[f"k{i}" for i in range(1000)])
    got = answers(fresh, 50, lambda i: request)
    assert {line[:4] for line in got} == {b"-OOM", b"*100"}
    assert fresh.peak_resident_bytes() < BOUND


def test_deletes_that_need_more_pages_than_the_cache_holds_read_each_page_about_once(fresh):
    fresh.set("storage.memory_budget=64MiB", "storage.block_cache=1MiB", "storage.memtable_size=64KiB")
    client = fresh.start().client()
    for first in range(0, 20_000, 1000):
        client.mset({f"k{i}": b"x" * 200 for i in range(first, first + 1000)})
    client.execute_command("TREE.FLUSH")
    before = client.info("ebbtide")["pages_read"]
    for first in range(0, 5000, 1000):  # the keys of one command lie in nearly all of the 1,200 pages
        assert client.delete(*(f"k{i * 7919 % 20_000}" for i in range(first, first + 1000))) == 1000
    assert client.info("ebbtide")["pages_read"] - before < 10_000


def test_long_writes_are_charged_while_their_notifications_are_delivered(fresh, client):
    """50 clients get each event of 20 writers and do not read. The writers' batches stay in memory until their events are
    delivered."""
    client.config_set("notify-keyspace-events", "KEA")

    def write(number):
        pairs = [part for i in range(1200) for part in (b"%d:%d:" % (number, i) + b"k" * 2000, b"v" * 2000)]
        with fresh.connect(timeout=120) as link:
            link.sendall(encode("MSET", *pairs) * 5)
            time.sleep(1)

    with contextlib.ExitStack() as stack:
        for _ in range(50):
            stack.enter_context(fresh.connect(timeout=120)).sendall(encode("PSUBSCRIBE", "*"))
        at_once(*[lambda i=i: write(i) for i in range(20)])
        assert client.ping()


def test_names_that_the_server_keeps_after_a_command_are_limited_in_length(fresh, client):
    """The server keeps names of clients, and of users that failed to authenticate, without charging them to the memory budget."""
    large = b"n" * 40_000_000
    with contextlib.ExitStack() as stack:
        for command in (("CLIENT", "SETNAME"), ("CLIENT", "SETINFO", "lib-name"), ("CLIENT", "SETINFO", "lib-ver"), ("HELLO", "3", "SETNAME")):
            for _ in range(4):
                link = stack.enter_context(fresh.connect(timeout=120))
                link.sendall(encode(*command, large))
                assert b"bytes is too long" in receive_until(link, b"\r\n")
                link.sendall(encode(*command, large[:2000]))
                assert b"cannot have more than 1024 bytes" in receive_until(link, b"\r\n")
        assert client.execute_command("CLIENT", "SETNAME", "n" * 1024)
    for i in range(8):
        with fresh.connect(timeout=120) as link:
            link.sendall(encode("AUTH", b"%d" % i + large[:1_000_000], "x"))
            assert receive_until(link, b"\r\n").startswith(b"-WRONGPASS")
    assert all(len(entry["username"]) <= 1024 for entry in client.acl_log())


def test_commands_that_copy_their_arguments_refuse_arguments_of_200_mb(fresh, client):
    large = b"x" * 200_000_000
    commands = [
        ("KEYS", large), ("SCAN", "0", "MATCH", large), ("CLIENT", "KILL", "ADDR", large), ("CONFIG", "SET", large, "1"),
        ("CONFIG", "SET", "requirepass", large), ("TREE.POLICY", "leveling", large, "1"), ("PUBSUB", "NUMSUB", large),
        ("SUBSCRIBE", large), ("UNSUBSCRIBE", large), ("AUTH", "default", large),
        ("SORT", "list", "BY", large), ("SORT_RO", "list", "GET", large),
    ]  # fmt: skip
    for command in commands:
        with fresh.connect(timeout=120) as link:
            link.sendall(encode(*command))
            assert receive_until(link, b"\r\n") == b"-ERR an argument of 200000000 bytes is too long: 1048640 bytes are allowed\r\n"
    with fresh.connect(timeout=120) as link:
        link.sendall(encode("PUBSUB", "NUMSUB", *[large[:1_000_000]] * 9))
        assert receive_until(link, b"\r\n") == b"-ERR arguments of 9000000 bytes are too long: 8388608 bytes are allowed\r\n"
    assert client.echo(large) == large


def test_message_that_takes_most_of_the_budget_is_delivered_without_a_copy(fresh, client):
    client.config_set("client-output-buffer-limit", "pubsub 0 0 0")
    message = b"m" * 115_000_000
    with fresh.connect(timeout=120) as link:
        link.sendall(encode("SUBSCRIBE", "channel"))
        receive_until(link, b":1\r\n")
        assert client.publish("channel", message) == 1
        assert receive_exactly(link, 30 + len(message)).endswith(b"m" * 1000)


def test_range_deletes_with_long_bounds_stay_within_the_budget(fresh, client):
    """The bounds are in the memtable and its runs, and then in each table while it is written, merged and open."""
    size = 60_000

    def delete(number):
        def run():
            with fresh.connect(timeout=120) as link:
                for i in range(40_000_000 // size):
                    start = b"x" * (size - 100) + b"%d:%d:" % (number, i)
                    link.sendall(encode("DELRANGE", start + b"a", start + b"b"))
                    assert b"purge-" in receive_until(link, b"\r\n")

        return run

    client.set("z", "so that there is something to delete")
    at_once(*(delete(number) for number in range(8)))
    with pytest.raises(redis.ResponseError, match="a bound of 65537 bytes is too long: 65536 bytes are allowed"):
        client.execute_command("DELPREFIX", "x" * 65537)


def test_cursors_and_replies_of_killed_scans_stay_within_the_budget(fresh, client):
    """Each cursor of SCAN has a key of 60 kB. The reply to a killed client is freed at once, for the next clients."""
    for i in range(0, 600, 20):
        client.mset({b"%05d" % (i + j) + b"x" * 60_000: "" for j in range(20)})
    end = time.monotonic() + 8

    def walk(number):
        while time.monotonic() < end:
            with contextlib.suppress(OSError), fresh.connect(timeout=10) as link:
                link.sendall(encode("KEYS", "*") if number % 2 else encode("SCAN", 0, "COUNT", 100_000))
                if number % 3:
                    link.recv(65536)
                time.sleep(0.05 * (number % 7))

    def kill():
        while time.monotonic() < end:
            with contextlib.suppress(OSError), fresh.connect(timeout=10) as link:
                link.sendall(encode("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"))
                link.recv(100)
            time.sleep(0.15)

    at_once(kill, *[lambda i=i: walk(i) for i in range(30)])


def test_tracked_keys_of_a_client_stay_within_the_budget(fresh, client):
    with fresh.connect(timeout=120) as link:
        link.sendall(encode("CLIENT", "TRACKING", "ON", "REDIRECT", client.client_id()))
        receive_until(link, b"+OK\r\n")
        for part in range(300):  # 300 MB, if the server kept the names of all tracked keys
            link.sendall(encode("EXISTS", *[f"{part}:{i}" + "x" * 100 for i in range(3000)]))
            receive_until(link, b":0\r\n")
    assert client.info("stats")["tracking_total_keys"] < 200_000


def test_sort_by_values_of_128_mb_by_60_clients_stays_within_the_budget(fresh):
    client = fresh.set("storage.memory_budget=256MiB").start().client()
    for i in range(0, 16_000, 500):
        client.mset({f"w{j:05}": os.urandom(4096).hex() for j in range(i, i + 500)})
        client.rpush("list", *[f"{j:05}" for j in range(i, i + 500)])
    got = answers(fresh, 60, lambda i: encode("SORT", "list", "BY", "w*", "ALPHA"))
    assert {line[:4] for line in got} <= {b"-OOM", b"*160"}
    got = answers(fresh, 60, lambda i: encode("SORT", "list", "BY", "w*", "ALPHA", "GET", "w*", "STORE", f"to{i}"))
    assert {line[:4] for line in got} <= {b"-OOM", b"-ERR"}  # the result is larger than a collection may be
    assert client.ping()
    assert fresh.peak_resident_bytes() < BOUND


def test_writes_of_keys_of_1_mb_by_40_clients_stay_within_the_budget(fresh):
    """Flushes and merges also copy these keys: into pages, into the bounds of files, and into the manifest."""
    client = fresh.set("storage.memory_budget=256MiB").start().client()
    end = time.monotonic() + 15

    def write(number):
        i = 0
        with fresh.connect(timeout=120) as link:
            while time.monotonic() < end:
                link.sendall(encode("SET", b"%d:%d:" % (number, i) + b"k" * 1_000_000, "v"))
                assert receive_until(link, b"\r\n")[:4] in (b"+OK\r", b"-OOM")
                i += 1

    at_once(*[lambda i=i: write(i) for i in range(40)])
    assert client.ping()
    assert fresh.peak_resident_bytes() < BOUND


def test_keys_is_refused_when_replies_fill_the_budget(fresh, client):
    with client.pipeline(transaction=False) as pipe:
        for i in range(800):
            pipe.set(b"%05d" % i + b"x" * 60_000, "")
        pipe.execute()
    got = answers(fresh, 16, lambda i: encode("KEYS", "*"))  # 48 MB for each client
    assert {line[:4] for line in got} == {b"-OOM", b"*800"}


def test_copies_of_a_large_value_share_its_memory(client):
    client.setrange("k", LARGE - 1, "x")
    for i in range(8):
        assert client.copy("k", f"copy{i}")
        assert client.expire("k", 1000 + i)
        assert client.getex("k", ex=1000)[-1:] == b"x"
    assert client.rename("copy0", "renamed")
    assert client.strlen("renamed") == LARGE


def test_sinter_that_names_one_set_900_times_takes_the_memory_of_one(client):
    members = [f"member:{i:05}" for i in range(16_000)]
    client.sadd("s", *members)
    client.zadd("z", {member: i for i, member in enumerate(members)})
    names = ["s"] * 900
    assert len(client.sinter(names)) == len(client.sunion(names)) == 16_000
    assert client.sinterstore("stored", names) == client.sunionstore("stored", names) == client.sintercard(900, names) == 16_000
    assert client.sdiff(["s"] + ["stored"] * 899) == client.sdiff(names) == set()
    names = ["z"] * 900
    assert client.execute_command("ZINTERSTORE", "stored", 900, *names) == 16_000
    assert client.zscore("stored", members[7]) == 7 * 900
    assert client.execute_command("ZUNIONSTORE", "stored", 900, *names, "WEIGHTS", 2, *[1] * 899) == 16_000
    assert client.zscore("stored", members[7]) == 7 * 901
    assert client.execute_command("ZDIFF", 900, *names) == []


def test_transaction_of_a_fifth_of_the_budget_is_committed(fresh):
    client = fresh.set("storage.memory_budget=1GiB").start().client()
    value = os.urandom(50_000)
    queued = 4_000  # 200 MB
    with fresh.connect(timeout=120) as link:
        link.sendall(encode("MULTI"))
        receive_until(link, b"+OK\r\n")
        for i in range(0, queued, 100):
            link.sendall(b"".join(encode("SET", f"k{j}", value) for j in range(i, i + 100)))
            receive_exactly(link, 100 * len(b"+QUEUED\r\n"))
        link.sendall(encode("EXEC"))
        assert receive_exactly(link, 7) == b"*%d\r\n" % queued
    assert client.get("k3999") == value
    assert fresh.peak_resident_bytes() < (1 << 30) * 5 // 4


@pytest.mark.parametrize("offset", [500_000_000, LARGE])
def test_transaction_that_builds_more_than_the_budget_is_aborted_and_writes_nothing(client, offset):
    with client.pipeline() as pipe:
        for i in range(8):
            pipe.setrange(f"k{i}", offset, "x")
        with pytest.raises(redis.ResponseError, match="(?i)oom|used memory|Transaction discarded"):
            pipe.execute()
    assert client.exists(*[f"k{i}" for i in range(8)]) == 0


def test_transactions_whose_replies_fill_the_budget_are_aborted(fresh, client):
    client.set("k", b"x" * 50_000)
    commands = [encode("MGET", *["k"] * 60)] * 33  # 99 MB in all
    aborted = 0
    with contextlib.ExitStack() as stack:
        links = [stack.enter_context(fresh.connect(timeout=120)) for _ in range(6)]
        for i, link in enumerate(links):
            link.sendall(b"".join([encode("MULTI"), encode("INCR", f"n{i}"), *commands, encode("EXEC")]))
        for i, link in enumerate(links):
            queued = b"+QUEUED\r\n" * 34
            first = receive_until(link, queued).split(queued)[1] or link.recv(100)
            assert first.startswith((b"-EXECABORT", b"*34"))
            aborted += first[:1] == b"-"
            assert client.exists(f"n{i}") == (first[:1] == b"*")
    assert 1 <= aborted < 6


def test_reply_of_dump_is_charged_to_commands_until_it_is_sent(fresh, client):
    client.setrange("k", LARGE - 1, "x")
    with fresh.connect() as link:
        link.sendall(encode("DUMP", "k"))
        wait_until(lambda: client.info("memory")["used_memory_commands"] >= LARGE, 20, "the reply is charged")
        assert f'owner="commands"}} {LARGE}'[:-4] in fresh.http("/metrics")[1]
    wait_until(lambda: client.info("memory")["used_memory_commands"] == 0, 20, "the memory of the reply is released")


@pytest.mark.skipif("EBBTIDE_SANITIZED" in os.environ, reason="a sanitizer reserves terabytes")
def test_allocation_that_the_system_refuses_is_logged_before_the_process_ends(fresh):
    client = fresh.set("storage.memory_budget=1GiB").start().client()
    mapped = fresh._status_bytes("VmSize")
    resource.prlimit(fresh.pid, resource.RLIMIT_AS, (mapped + 100 * MIB, mapped + 100 * MIB))
    with pytest.raises(redis.ConnectionError):
        client.setbit("k", 4294967295, 1)
    assert fresh.wait() == -signal.SIGABRT
    last = fresh.log().splitlines()[-1]
    assert " E out of memory: the system refused an allocation" in last
    assert "storage.memory_budget is 1073741824 bytes" in last


@pytest.mark.skipif("EBBTIDE_SANITIZED" in os.environ, reason="a sanitizer reserves terabytes")
@pytest.mark.parametrize("mib", [150, 250, *range(350, 420, 10)])
def test_start_with_too_small_an_address_space_logs_the_reason(fresh, mib):
    fresh.prefix = ["bash", "-c", f'ulimit -v {mib << 10}; exec "$@"', "server"]
    with contextlib.suppress(RuntimeError):
        fresh.start(timeout=20)
        return
    assert any(words in fresh.log_tail(1) for words in ("out of memory", "cannot allocate memory")), fresh.log_tail()


def test_200_pipelines_of_60_kb_replies_that_are_never_read_stay_within_the_budget(fresh):
    fresh.set("storage.memory_budget=64MiB", "storage.memtable_size=4MiB").start()
    fresh.client().set("k", b"v" * 60_000)
    with contextlib.ExitStack() as stack:
        links = [stack.enter_context(fresh.connect(timeout=120)) for _ in range(200)]
        for link in links:
            link.sendall(encode("GET", "k") * 200)
        for _ in range(50):  # enough rounds of the loops that each pipeline has its turn
            fresh.client().ping()
        assert fresh.peak_resident_bytes() < 64 * MIB * 5 // 4
