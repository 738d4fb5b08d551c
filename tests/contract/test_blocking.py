"""Tests of commands that wait for an element, with real clients. Each element goes to exactly one client. No client waits while its
key has an element. A disconnected client gets no element.

EBBTIDE_BLOCKED_POPS=1000000 pytest tests/contract/test_blocking.py     # 20000 otherwise
"""

import contextlib
import os
import random
import socket
import threading
import time

import pytest

from support.server import redis_server, wait_until
from support.sockets import Link, encode, read_reply

POPS = int(os.environ.get("EBBTIDE_BLOCKED_POPS", "20000"))


def blocked(client):
    return client.info("clients")["blocked_clients"]


def begin(server, link, *command):
    """Sends a blocking command, and returns once INFO counts one more blocked client."""
    client = server.client()
    before = blocked(client)
    link.socket.sendall(encode(*command))
    wait_until(lambda: blocked(client) == before + 1, what=f"{command} waits")


def test_each_element_goes_to_one_client_and_no_client_waits_while_an_element_is_left(fresh):
    """Producers push, and consumers wait with short timeouts and leave in the middle, on four event loops."""
    fresh.settings["server.threads"] = "4"
    fresh.start()
    queues = ["q1", "q2", "q3"]
    produced = [f"e{i}" for i in range(POPS)]
    taken, failures = [], []
    finished = threading.Event()

    def consume(seed):
        choose = random.Random(seed)
        mine = []
        try:
            while not finished.is_set():
                with Link(fresh.port) as link:
                    for _ in range(choose.randrange(1, 400)):
                        if finished.is_set():
                            break
                        keys = choose.sample(queues, choose.randrange(1, 4))
                        timeout = choose.choice(["0.005", "0.05", "1"])
                        kind = choose.randrange(4)
                        if kind == 0:
                            reply = link.call("BLPOP", *keys, timeout)
                            mine += [] if reply is None else [reply[1]]
                        elif kind == 1:
                            reply = link.call("BLMPOP", timeout, len(keys), *keys, "RIGHT", "COUNT", 3)
                            mine += [] if reply is None else reply[1]
                        elif kind == 2:
                            reply = link.call("BRPOP", *keys, timeout)
                            mine += [] if reply is None else [reply[1]]
                        else:
                            link.call("BLMOVE", keys[0], choose.choice(queues), "LEFT", "RIGHT", timeout)
        except Exception as error:  # noqa: BLE001: the test's thread reports it
            failures.append(error)
        taken.extend(mine)

    def leave(seed):
        """Makes clients that disconnect while they wait."""
        choose = random.Random(seed)
        while not finished.is_set():
            with socket.create_connection(("127.0.0.1", fresh.port)) as s:
                s.sendall(encode("BLMOVE", choose.choice(queues), "q1", "LEFT", "RIGHT", 0))
                time.sleep(choose.random() * 0.02)

    def produce(part):
        with Link(fresh.port) as link:
            choose = random.Random(part[0])
            while part:
                size = choose.randrange(1, 4)
                now, part[:size] = part[:size], []
                if choose.random() < 0.3:
                    link.call("MULTI")
                    link.call("RPUSH", choose.choice(queues), *now)
                    link.call("EXEC")
                elif choose.random() < 0.3:
                    link.call("RPUSH", f"new{now[0]}", *now)
                    if link.call("RENAMENX", f"new{now[0]}", choose.choice(queues)) == 0:
                        while link.call("LMOVE", f"new{now[0]}", "q2", "LEFT", "RIGHT"):
                            pass
                else:
                    link.call("LPUSH", choose.choice(queues), *now)

    threads = [threading.Thread(target=consume, args=(seed,)) for seed in range(8)]
    threads += [threading.Thread(target=leave, args=(seed,)) for seed in range(2)]
    producers = [threading.Thread(target=produce, args=(produced[i::4],)) for i in range(4)]
    for thread in threads + producers:
        thread.start()
    for thread in producers:
        thread.join()
    client = fresh.client()
    wait_until(lambda: client.exists(*queues) == 0, 60, "all queues are empty")
    finished.set()
    for thread in threads:
        thread.join()
    assert not failures
    left = [element.decode() for queue in queues for element in client.lrange(queue, 0, -1)]
    assert sorted(taken + left) == sorted(f"e{i}" for i in range(POPS))
    wait_until(lambda: blocked(client) == 0, what="no client waits any more")


def test_element_pushed_just_before_a_client_begins_to_wait_is_not_missed(fresh):
    """Pairs of clients pass an element back and forth without a timeout. A missed element would stop its pair for ever."""
    fresh.settings["server.threads"] = "4"
    fresh.start()
    rounds, passed = POPS // 20, []

    def play(pair, first):
        mine, others = (f"ping{pair}", f"pong{pair}") if first else (f"pong{pair}", f"ping{pair}")
        with Link(fresh.port, timeout=20) as link:
            for i in range(rounds):
                if first:
                    link.call("RPUSH", others, i)
                reply = link.call("BLPOP", mine, 0)
                assert reply == [mine, str(i)]
                if not first:
                    link.call("RPUSH", others, i)
        passed.append(pair)

    threads = [threading.Thread(target=play, args=(pair, first)) for pair in range(8) for first in (True, False)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(passed) == 16


def test_sorted_set_as_a_queue_serves_waiting_clients_in_order_of_score(fresh):
    fresh.start()
    client = fresh.client()
    with contextlib.ExitStack() as stack:
        links = [stack.enter_context(Link(fresh.port)) for _ in range(5)]
        for link in links:
            begin(fresh, link, "BZPOPMIN", "jobs", 0)
        client.zadd("jobs", {f"job{i}": i for i in range(5)})
        assert [read_reply(link.stream) for link in links] == [["jobs", f"job{i}", str(i)] for i in range(5)]
    assert not client.exists("jobs")


@pytest.mark.parametrize("ends", ["closes", "sends no more"])
def test_disconnected_client_gets_no_element(fresh, ends):
    fresh.start()
    client = fresh.client()
    link = Link(fresh.port)
    begin(fresh, link, "BLPOP", "q", 0)
    link.close() if ends == "closes" else link.socket.shutdown(socket.SHUT_WR)
    # A command that waits for the disk may outlive its client by a second. A command that waits for an element must not, since it
    # could take an element in that time.
    wait_until(lambda: blocked(client) == 0, 0.7, what="the server has noticed that the client has gone")
    client.rpush("q", "x")
    assert client.lrange("q", 0, -1) == [b"x"]


def test_blpop_of_a_client_that_closed_its_sending_side_closes_the_connection_at_once(fresh):
    fresh.start()
    with socket.create_connection(("127.0.0.1", fresh.port), timeout=20) as s:
        s.sendall(encode("PING") + encode("BLPOP", "q", 0))
        s.shutdown(socket.SHUT_WR)
        data = b""
        while part := s.recv(100):
            data += part
    assert data == b"+PONG\r\n"


def test_element_moved_by_a_waiting_blmove_survives_kill_9(fresh):
    """A worker moves a job to a list of its own. After a crash the job is in one of the two lists."""
    fresh.settings["storage.fsync"] = "always"
    fresh.start()
    with Link(fresh.port) as link:
        begin(fresh, link, "BLMOVE", "jobs", "working", "LEFT", "RIGHT", 0)
        fresh.client().rpush("jobs", "job")
        assert read_reply(link.stream) == "job"
        fresh.kill()
    fresh.start()
    assert fresh.client().lrange("working", 0, -1) == [b"job"]
    assert not fresh.client().exists("jobs")


def test_commands_pipelined_after_a_waiting_blpop_run_when_it_ends(fresh):
    fresh.start()
    client = fresh.client()
    with Link(fresh.port) as link:
        begin(fresh, link, "BLPOP", "q", 0)
        link.socket.sendall(encode("SET", "later", 1) + encode("PING"))
        assert client.ping()
        assert not client.exists("later")
        client.rpush("q", "x")
        assert [read_reply(link.stream) for _ in range(3)] == [["q", "x"], "OK", "PONG"]


def test_2000_waiting_clients_delay_no_other_client(fresh):
    """A push wakes only one of the clients, and waiting clients use no processor time."""
    fresh.settings["server.max_clients"] = "3000"
    fresh.start()
    client = fresh.client()
    with contextlib.ExitStack() as stack:
        links = [stack.enter_context(socket.create_connection(("127.0.0.1", fresh.port))) for _ in range(2000)]
        for link in links:
            link.sendall(encode("BLPOP", "q", "other", 0))
        wait_until(lambda: blocked(client) == 2000, what="all clients wait")
        worst = 0.0
        for _ in range(200):
            start = time.monotonic()
            client.rpush("q", "x")
            worst = max(worst, time.monotonic() - start)
        wait_until(lambda: blocked(client) == 1800, what="200 clients are served")
        assert not client.exists("q")
        for link in links[:200]:
            assert link.recv(100) == b"*2\r\n$1\r\nq\r\n$1\r\nx\r\n"
    assert worst < 0.5
    wait_until(lambda: blocked(client) == 0, what="no client waits any more")


def test_blocking_commands_reply_as_redis(fresh, tmp_path):
    fresh.start()
    replies = []
    with redis_server(tmp_path) as port:
        for at in (fresh.port, port):
            replies.append(list(conversation(at)))
    for ours, theirs in zip(*replies, strict=True):
        assert ours == theirs


COMMANDS = [
    "BLPOP k x | BLPOP k -1 | BLPOP k nan | BLPOP k 0.01 | BRPOP k j 0.01",
    "BLMOVE a b LEFT X 0.01 | BLMOVE a b LEFT RIGHT x",
    "BLMOVE a b LEFT RIGHT 0.01 | BRPOPLPUSH a b 0.01 | BRPOPLPUSH a b -0.1 | BLMPOP 0.01 1 k LEFT",
    "BLMPOP x 1 k LEFT | BLMPOP x 0 k LEFT",
    "BLMPOP 1 2 k LEFT | BLMPOP 0.01 1 k LEFT COUNT 0 | BLMPOP 0.01 1 k LEFT COUNT 2 3",
    "BLMPOP x 1 k UP | BZPOPMIN k 0.01 | BZPOPMAX k j x",
    "BZMPOP 0.01 1 k MIN | BZMPOP x 1 k MAX | BZMPOP x 1 k XX",
    "BZMPOP 0.01 1 k MIN COUNT 0",
    "RPUSH l 1 2 3 4 5 6 7 8",
    "ZADD z 1 a 2 b 3.5 c 4 d 5 e 6 f | SET s x",
    "BLPOP l 1 | BRPOP x l 1 | BLMOVE l m LEFT RIGHT 1 | BRPOPLPUSH l m 1",
    "BLMPOP 1 2 x l LEFT COUNT 2 | BZPOPMIN x z 1 | BZPOPMAX z 1",
    "BZMPOP 1 1 z MAX COUNT 2 | BLPOP z 1 | BLPOP s 1 | BLPOP l s 1 | BZPOPMIN s 1",
    "BLMOVE s m LEFT LEFT 1 | BLMOVE m s LEFT LEFT 1",
    "MULTI | BLPOP q 0 | BLMOVE q r LEFT LEFT 0 | BRPOPLPUSH q r 0 | BLMPOP 0 1 q LEFT",
    "BZPOPMIN q 0 | BZMPOP 0 1 q MIN | EXEC",
    "COMMAND INFO BLPOP BRPOP BLMOVE BRPOPLPUSH BLMPOP BZPOPMIN BZPOPMAX BZMPOP",
    "COMMAND GETKEYS BLMPOP 0 2 a b LEFT | COMMAND GETKEYS BZPOPMIN a b 0",
]
# What a client waits for, the commands of another client meanwhile, and a command afterwards. The first client is served.
WAITS = [
    "BLPOP q1 q2 0; RPUSH q2 x y; LRANGE q2 0 -1",
    "BZPOPMIN zz 0; ZADD zz 1.5 x; EXISTS zz",
    "BZMPOP 0 2 y zz MAX; ZADD zz 1.5 x; EXISTS zz",
    "BLMOVE src dst LEFT RIGHT 0; RPUSH src x; LRANGE dst 0 -1",
    "BRPOPLPUSH src dst 0; RPUSH src x y; LRANGE dst 0 -1",
    "BLMPOP 0 1 q LEFT COUNT 2; RPUSH q x y z; LRANGE q 0 -1",
    "BLPOP w1 w2 0; SET w1 v | LPUSH w2 1; EXISTS w2",
    "BLMOVE e1 d LEFT LEFT 0; SET d v | RPUSH e1 1; LRANGE e1 0 -1",
    "BLPOP t 0; LPUSH o 1 | RENAME o t; EXISTS t",
    "BLPOP t 0; LPUSH o 1 | COPY o t; EXISTS t",
    "BLPOP t 0; SELECT 1 | LPUSH t 1 | MOVE t 0 | SELECT 0; EXISTS t",
    "BLPOP t 0; SELECT 1 | LPUSH t 1 | SWAPDB 0 1 | SELECT 0; EXISTS t",
    "BLPOP t 0; MULTI | LPUSH t 1 | LPUSH t 2 | EXEC; LRANGE t 0 -1",
]


def parts(line, separator):
    return [part.split() for part in line.split(separator)]


def conversation(port):
    for protocol in (2, 3):
        with Link(port) as link, Link(port) as other, Link(port) as listener:
            other.call("FLUSHALL")
            link.socket.sendall(encode("HELLO", protocol))
            raw_reply(link.stream)
            for line in COMMANDS:
                for command in parts(line, "|"):
                    link.socket.sendall(encode(*command))
                    yield command, raw_reply(link.stream)
            other.call("CONFIG", "SET", "notify-keyspace-events", "KEA")
            for line in WAITS:
                other.call("FLUSHALL")
                command, meanwhile, after = (parts(part, "|") for part in line.split(";"))
                number = link.call("CLIENT", "ID")
                link.socket.sendall(encode(*command[0]))
                wait_until(lambda: "flags=b" in other.call("CLIENT", "LIST", "ID", number), what="the client waits")  # noqa: B023
                listener.call("PSUBSCRIBE", "__keyevent*")
                for each in meanwhile:
                    yield each, other.call(*each)
                yield command, raw_reply(link.stream)
                yield after, other.call(*after[0])
                listener.socket.sendall(encode("PUNSUBSCRIBE"))
                events = []
                while (event := read_reply(listener.stream))[0] == "pmessage":
                    events.append(event[2:])
                yield line, events


def raw_reply(stream):
    """Returns the bytes of the next reply."""
    line = stream.readline()
    kind, size = line[:1], line[1:-2]
    if kind == b"$" and size != b"-1":
        return line + stream.read(int(size) + 2)
    if kind in b"*~%>" and size != b"-1":
        return line + b"".join(raw_reply(stream) for _ in range(int(size) * (2 if kind == b"%" else 1)))
    return line
