"""Tests of reads and writes whose pages are on disk: a cache of one megabyte over files that bypass the system's page cache."""

import random
import select
import shutil
import socket
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from support.server import Server
from support.sockets import encode, receive_exactly

KEYS = 60_000
COLD = ("storage.memory_budget=128MiB", "storage.direct_io=true", "storage.block_cache=1MiB", "storage.memtable_size=1MiB")


def value_of(i):
    return b"%d:" % i + bytes([33 + i % 90]) * (i % 200)


def large_of(i):
    return (b"%08d" % i) * (9_000 + i * 1_000)  # more than 64 KiB


@pytest.fixture(scope="module", params=["1 true", "2 false", "4 true"])
def cold(request, tmp_path_factory):
    """Gives a server whose data is nearly all on disk, with one, two and four event loops, with io_uring and without."""
    threads, ring = request.param.split()
    server = Server(directory=tmp_path_factory.mktemp("cold")).set(*COLD, f"server.threads={threads}", f"storage.io_uring={ring}").start()
    client = server.client()
    for start in range(0, KEYS, 1000):
        client.mset({f"k{i}": value_of(i) for i in range(start, start + 1000)})
    for i in range(30):
        client.set(f"large{i}", large_of(i))
        client.set(f"n{i}", i)
    client.execute_command("TREE.FLUSH")
    client.execute_command("TREE.COMPACT")
    yield server
    assert server.stop() == 0, server.log_tail()


def waits(server):
    return server.client().info("stats")["total_waits_for_disk"]


def test_reads_of_pages_on_disk_return_the_right_values(cold):
    client = cold.client()
    before = waits(cold)
    rng = random.Random(1)
    for _ in range(300):
        i = rng.randrange(KEYS)
        assert client.get(f"k{i}") == value_of(i)
    wanted = rng.sample(range(KEYS), 5000)
    keys = [f"k{i}" for i in wanted] + ["absent"]
    assert client.mget(keys) == [value_of(i) for i in wanted] + [None]
    assert client.exists(*keys) == len(wanted)
    assert waits(cold) > before + 100


def test_reads_of_a_pipeline_fetch_their_pages_from_disk_together(cold):
    rng = random.Random(2)
    with cold.connect() as s:
        before = waits(cold)
        for _ in range(20):
            wanted = rng.sample(range(KEYS), 32)
            s.sendall(b"".join(encode("GET", f"k{i}") for i in wanted))
            for i in wanted:
                expected = b"$%d\r\n%s\r\n" % (len(value_of(i)), value_of(i))
                assert receive_exactly(s, len(expected)) == expected
        # There is one wait for all, and more for false positives and for pages that the small cache has dropped meanwhile.
        assert 20 <= waits(cold) - before < 20 * 8


def test_large_values_on_disk_are_read_and_changed(cold):
    client = cold.client()
    for i in range(30):
        assert client.get(f"large{i}") == large_of(i)
    assert client.mget([f"large{i}" for i in range(30)]) == [large_of(i) for i in range(30)]
    assert client.getrange("large3", 8, 15) == b"00000003"
    assert client.append("large29", "xyz") == len(large_of(29)) + 3
    assert client.get("large29") == large_of(29) + b"xyz"
    client.set("large29", large_of(29))


def test_writes_that_read_pages_from_disk_get_correct_replies(cold):
    client = cold.client()
    for i in range(30):
        assert client.incr(f"n{i}") == i + 1
        assert client.set(f"k{i}", "no", nx=True) is None
        assert client.set(f"new{i}", "yes", nx=True)
        assert client.getset(f"k{5000 + i}", value_of(5000 + i)) == value_of(5000 + i)
        assert client.msetnx({f"k{9000 + i}": "x", f"other{i}": "y"}) == 0
    client.delete(*[f"new{i}" for i in range(30)], *[f"n{i}" for i in range(30)])
    client.mset({f"n{i}": i for i in range(30)})
    client.execute_command("TREE.FLUSH")


def test_replies_of_a_pipeline_that_reads_pages_from_disk_are_in_order(cold):
    def work(seed):
        rng = random.Random(seed)
        with cold.connect() as s:
            for _ in range(5):
                data, expected = b"", b""
                for j in range(500):
                    i = rng.randrange(KEYS)
                    choice = rng.randrange(4)
                    if choice == 0:
                        data += encode("ECHO", j)
                        expected += b"$%d\r\n%d\r\n" % (len(str(j)), j)
                    elif choice == 1:
                        key = f"own{seed}-{j}"
                        data += encode("SET", key, j) + encode("INCR", key) + encode("DEL", key)
                        expected += b"+OK\r\n:%d\r\n:1\r\n" % (j + 1)
                    else:
                        data += encode("GET", f"k{i}")
                        expected += b"$%d\r\n%s\r\n" % (len(value_of(i)), value_of(i))
                writer = threading.Thread(target=s.sendall, args=(data,))
                writer.start()
                assert receive_exactly(s, len(expected)) == expected
                writer.join()

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(work, range(8)))


def test_server_survives_clients_that_disconnect_during_disk_reads(cold):
    rng = random.Random(3)
    for _ in range(100):
        s = cold.connect()
        keys = [f"k{rng.randrange(KEYS)}" for _ in range(50)]
        s.sendall(encode("MGET", *keys) + encode("DBSIZE") + encode("INCR", "gone") + encode("GET", "large7"))
        if rng.random() < 0.5:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # a reset instead of an orderly end
        s.close()
    assert cold.client().ping()
    cold.client().delete("gone")


def test_server_survives_client_kill_during_disk_reads(cold):
    admin = cold.client()
    for _ in range(20):
        with cold.connect() as s:
            s.sendall(encode("CLIENT", "ID"))
            answer = s.recv(100)
            s.sendall(encode("KEYS", "*1*") + encode("GET", "k77"))
            admin.execute_command("CLIENT", "KILL", "ID", int(answer[1:]))
    assert admin.get("k77") == value_of(77)


def test_concurrent_increments_beside_disk_reads_lose_no_update(cold):
    counters = [f"count{i}" for i in range(5)]
    cold.client().mset({c: 0 for c in counters})
    cold.client().execute_command("TREE.FLUSH")

    def work(seed):
        rng = random.Random(seed)
        client = cold.client()
        for _ in range(10):
            with client.pipeline(transaction=False) as pipe:
                for _ in range(100):
                    chosen = rng.choice(counters)
                    pipe.incr(chosen)
                    pipe.get(f"k{rng.randrange(KEYS)}")
                pipe.execute()

    with ThreadPoolExecutor(12) as threads:
        list(threads.map(work, range(12)))
    assert sum(int(v) for v in cold.client().mget(counters)) == 12 * 10 * 100
    cold.client().delete(*counters)


def test_server_stops_cleanly_during_disk_reads(fresh):
    fresh.set(*COLD, "server.threads=2").start()
    client = fresh.client()
    for start in range(0, 20_000, 1000):
        client.mset({f"k{i}": value_of(i) for i in range(start, start + 1000)})
    client.execute_command("TREE.FLUSH")
    sockets = []
    for i in range(50):
        s = fresh.connect()
        s.sendall(encode("MGET", *[f"k{(i * 397 + j * 31) % 20_000}" for j in range(500)]) + encode("KEYS", "*") + encode("INCR", "n"))
        sockets.append(s)
    assert fresh.stop() == 0, fresh.log_tail()
    for s in sockets:
        s.close()
    fresh.set(*COLD).start()
    assert fresh.client().get("k19999") == value_of(19_999)


def test_slow_syncs_delay_only_the_writers_and_no_acknowledged_write_is_lost(fresh):
    tracer = ["strace", "-D", "-f", "-qq", "-o", "/dev/null", "-e", "trace=fsync,fdatasync"]
    if shutil.which("strace") is None or subprocess.run([*tracer, "true"], check=False).returncode != 0:
        pytest.skip("strace, which delays the syncs, does not run here")
    fresh.prefix = [*tracer, "--seccomp-bpf", "-e", "inject=fsync,fdatasync:delay_enter=50000"]
    fresh.set("storage.fsync=always").start()
    client, overtaken = fresh.client(), 0
    client.ping()
    with fresh.connect() as waiting:
        for i in range(10):
            waiting.sendall(encode("SET", f"one{i}", i))
            assert client.ping()
            overtaken += not select.select([waiting], [], [], 0)[0]
            assert receive_exactly(waiting, 5) == b"+OK\r\n"
    assert overtaken

    def write(number):
        writer = fresh.client()
        for i in range(5):
            assert writer.set(f"k{number}:{i}", i)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(write, range(8)))
    fresh.kill()
    fresh.prefix = []
    fresh.start()
    assert fresh.client().mget([f"k{number}:{i}" for number in range(8) for i in range(5)]) == [b"%d" % i for _ in range(8) for i in range(5)]
