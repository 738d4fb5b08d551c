"""Tests that single-key commands of concurrent connections are linearizable during flushes, merges and kill -9: some sequential
order of the commands explains every reply. The merge policy changes during the run, and the tree's layout after each kill. In a
second test TUNE.APPLY changes all settings of the tuner, again and again, also while the server is killed. A third test has lists and
sorted sets as queues, with pops that wait. In a fourth test some clients write records, and others read them, by their keys and from
indexes: each is a read of the same record.

Clients are separate processes. A command without a reply, because the server was killed, may have happened or not.

A failure names the seed; EBBTIDE_SEED repeats the choices, though not the timing.
"""

import collections
import functools
import multiprocessing
import os
import random
import threading
import time

import pytest
import redis

from support.layouts import change, layouts, switch, text_of
from support.linearizability import NEVER, UNKNOWN, Operation, list_step, violation, zset_step
from support.server import Server, wait_until
from support.sockets import Link, ReplyError
from support.tuning import tuned_settings

CLIENTS = 8
REGISTERS = [f"register:{i}" for i in range(6)]
COUNTERS = [f"counter:{i}" for i in range(4)]
QUEUES = [f"{kind}:{i}" for kind in ("list", "zset") for i in range(3)]  # the last one of a kind often has more than 128 elements
MANY = 150
SECONDS = float(os.environ.get("EBBTIDE_HISTORY_SECONDS", "5"))
SEED = int(os.environ.get("EBBTIDE_SEED", "0")) or random.SystemRandom().randrange(1, 2**31)


def step(state, name, arguments):
    """Returns the reply and the new value of a command on one key with this value. None: the key is absent."""
    if name in ("GET", "GETDEL"):
        return state, None if name == "GETDEL" else state
    if name == "SET":
        return "OK", arguments[0]
    if name == "GETSET":
        return state, arguments[0]
    if name == "SETNX":
        return (0, state) if state is not None else (1, arguments[0])
    if name == "DEL":
        return int(state is not None), None
    if name == "APPEND":
        after = (state or "") + arguments[0]
        return len(after), after
    if name == "STRLEN":
        return len(state or ""), state
    if name in ("INCRBY", "DECRBY"):
        after = int(state or 0) + (arguments[0] if name == "INCRBY" else -arguments[0])
        return after, str(after)
    raise ValueError(name)


def choose_command(choose, unique):
    if choose.random() < 0.3:
        key = choose.choice(COUNTERS)
        name = choose.choice(("INCRBY", "INCRBY", "DECRBY", "GET", "GET", "DEL" if choose.random() < 0.1 else "GET"))
        return name, key, (choose.randint(1, 1000),) if name.endswith("BY") else ()
    key = choose.choice(REGISTERS)
    name = choose.choice(("SET", "SET", "GET", "GET", "GET", "GETSET", "SETNX", "DEL", "GETDEL", "APPEND", "STRLEN"))
    value = unique + "." * choose.choice((0, 0, 20, 300))
    return name, key, (value,) if name in ("SET", "GETSET", "SETNX") else (unique + ";",) if name == "APPEND" else ()


def choose_queue_command(choose, unique):
    """Every added element is unique. Pops are more than additions, so that queues are often empty."""
    key = choose.choice(QUEUES)
    large = key.endswith("2")
    elements = [f"{unique}-{i}" for i in range(choose.choice((1, 1, 1, 2, MANY if large else 3)))]
    wait = choose.choice((0.005, 0.02, 0.1))
    count = (choose.choice((1, 20, 100)),) if large else ()
    if key.startswith("list"):
        name = choose.choice(("LPUSH", "RPUSH", "LPOP", "RPOP" if large else "LPOP", "LLEN" if large else "BLPOP", "BLPOP"))
        return name, key, tuple(elements) if name.endswith("PUSH") else (wait,) if name == "BLPOP" else () if name == "LLEN" else count
    name = choose.choice(("ZADD", "ZADD", "ZPOPMIN", "ZPOPMAX" if large else "ZPOPMIN", "ZCARD" if large else "BZPOPMIN", "BZPOPMIN"))
    scored = tuple(word for element in elements for word in (choose.randint(-5, 5), element))
    return name, key, scored if name == "ZADD" else (wait,) if name == "BZPOPMIN" else () if name == "ZCARD" else count


def talk(number, port, until, results, next_call):
    """Runs calls until `until`, and puts their history into `results`. next_call(count) returns the name and the arguments of a call; a
    function of a connection that makes the call, and returns the reply for each key; and the keys that the call may change."""
    history, link, count = [], None, 0
    while time.monotonic() < until:
        count += 1
        name, arguments, ask, changes = next_call(count)
        try:
            link = link or Link(port, timeout=10)
        except OSError:
            time.sleep(0.01)  # the server is restarting
            continue
        called = time.monotonic_ns()
        try:
            replies = ask(link)
            returned = time.monotonic_ns()
            history += [(key, Operation(number, name, arguments, reply, called, returned)) for key, reply in replies.items()]
        except ReplyError as error:
            if not str(error).startswith("LOADING "):
                results.put((number, f"{name} {arguments}: {error}"))
                return
            link = None
        except OSError:
            history += [(key, Operation(number, name, arguments, UNKNOWN, called, NEVER)) for key in changes]
            link = None
    results.put((number, history))


def client(number, port, seed, until, results, choose_one=choose_command):
    """Runs commands on one key each."""
    choose = random.Random(f"{seed}-{number}")

    def next_call(count):
        name, key, arguments = choose_one(choose, f"{number}-{count}")

        def ask(link):
            answer = link.call(name, key, *arguments)
            return {key: answer[1:] if name in ("BLPOP", "BZPOPMIN") and answer else answer}  # without the key

        return name, arguments, ask, [key]

    talk(number, port, until, results, next_call)


class Tuner:
    """Gets and applies advice for one mix after the other, without a pause, until it is stopped. Kills interrupt it anywhere."""

    MIXES = [("0.01", "0.01", "0", "0.98"), ("0.49", "0.49", "0.01", "0.01"), ("0.01", "0.01", "0.97", "0.01"), ("0.3", "0.3", "0.1", "0.3")]

    def __init__(self, server):
        self.server, self.stopped, self.errors, self.used, self.interrupted = server, threading.Event(), [], set(), 0
        self.thread = threading.Thread(target=self.run, daemon=True)

    def run(self):
        turn = 0
        while not self.stopped.is_set():
            turn += 1
            applying = False
            try:
                with self.server.client() as client:
                    client.execute_command("TUNE.ADVISE", "WORKLOAD", *self.MIXES[turn % len(self.MIXES)], "RHO", "0", "MEMORY", 400_000)
                    applying = True
                    client.execute_command("TUNE.APPLY")
                    applying = False
                    self.used.add(tuple(tuned_settings(client).items()))
            except (redis.ConnectionError, redis.TimeoutError):
                self.interrupted += applying
                time.sleep(0.01)  # the server is restarting
            except redis.ResponseError as error:
                if not str(error).startswith(("keep the settings", "no advice", "no tuning", "LOADING")):
                    self.errors.append(str(error))
                time.sleep(0.02)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stopped.set()
        self.thread.join()


def record(server, seed, kills, deal, run=client):
    """Runs `CLIENTS` clients for `SECONDS`. Returns the history of each key. `deal` gives the layouts; None: they do not change.
    `run`: the function of each client."""
    until = time.monotonic() + SECONDS
    fork = multiprocessing.get_context("fork")
    results = fork.Queue()
    clients = [fork.Process(target=run, args=(i, server.port, seed, until, results), daemon=True) for i in range(CLIENTS)]
    for process in clients:
        process.start()
    choose = random.Random(f"{seed}-churn")
    kill_at = sorted(until - SECONDS * choose.uniform(0.1, 0.9) for _ in range(kills))
    filler = 0
    while time.monotonic() < until:
        if kill_at and time.monotonic() > kill_at[0]:
            kill_at.pop(0)
            server.kill()
            if deal is not None:
                layout = next(deal)
                print(f"after a kill: {text_of(layout)}")
                change(server, layout)
            server.start()
        with server.client() as churn, churn.pipeline(transaction=False) as pipe:
            for _ in range(200):
                filler += 1
                pipe.set(f"filler:{choose.randrange(3000)}", str(filler) * 40)
            pipe.execute()
            if choose.random() < 0.3:
                churn.execute_command(choose.choice(("TREE.FLUSH", "TREE.FLUSH", "TREE.COMPACT")))
            if deal is not None and choose.random() < 0.05:
                churn.execute_command(*switch(next(deal)))
    histories = [results.get(timeout=60) for _ in clients]
    by_key = {}
    for number, history in histories:
        assert isinstance(history, list), f"client {number} got {history}"
        for key, operation in history:
            by_key.setdefault(key, []).append(operation)
    return by_key


@pytest.mark.parametrize("kills", [0, 2])
@pytest.mark.parametrize("fsync", ["always", "everysec", "no"])
def test_concurrent_histories_are_linearizable(fsync, kills):
    print(f"EBBTIDE_SEED={SEED}")
    settings = {"storage.fsync": fsync, "storage.memtable_size": "256KiB", "tree.file_size": "256KiB", "storage.memory_budget": "64MiB"}
    seed = f"{SEED}-{fsync}-{kills}"
    deal = layouts(random.Random(f"{seed}-layouts"))
    layout = next(deal)
    print(text_of(layout))
    with Server({**settings, **layout}) as server:
        by_key = record(server, seed, kills, deal)
    check(by_key, kills)


@pytest.mark.parametrize("kills", [0, 3])
def test_concurrent_histories_are_linearizable_while_tune_apply_changes_settings(kills):
    print(f"EBBTIDE_SEED={SEED}")
    settings = {"storage.fsync": "always", "storage.memtable_size": "64KiB", "tree.file_size": "128KiB", "storage.memory_budget": "64MiB",
                "storage.block_cache": "1MiB"}  # fmt: skip
    with Server(settings) as server, Tuner(server) as tuner:
        by_key = record(server, f"{SEED}-tuned-{kills}", kills, None)
        tuner.stopped.set()
        tuner.thread.join()
        print(f"{len(tuner.used)} settings were in effect; {tuner.interrupted} times the server was killed during TUNE.APPLY")
        assert tuner.errors == []
        assert len(tuner.used) >= 3
        client = server.client()
        report = client.execute_command("TREE.VERIFY")
        assert report[report.index(b"errors") + 1] == []
    check(by_key, kills)


@pytest.mark.parametrize("fsync,kills", [("always", 3), ("everysec", 3)])
def test_concurrent_histories_of_queues_with_pops_that_wait_are_linearizable(fsync, kills):
    print(f"EBBTIDE_SEED={SEED}")
    settings = {"storage.fsync": fsync, "storage.memtable_size": "256KiB", "tree.file_size": "256KiB", "storage.memory_budget": "64MiB"}
    seed = f"{SEED}-queues-{fsync}"
    deal = layouts(random.Random(f"{seed}-layouts"))
    with Server({**settings, **next(deal)}) as server:
        by_key = record(server, seed, kills, deal, functools.partial(client, choose_one=choose_queue_command))
        with Link(server.port) as link:
            for key, history in by_key.items():
                name = "LRANGE" if key.startswith("list") else "ZRANGE"
                called = time.monotonic_ns()
                history.append(Operation(CLIENTS, name, (0, -1), link.call(name, key, 0, -1), called, time.monotonic_ns()))
    waits = [operation for history in by_key.values() for operation in history if operation.name in ("BLPOP", "BZPOPMIN")]
    assert any(wait.answer is None for wait in waits) and any(wait.answer not in (None, UNKNOWN) for wait in waits)
    assert popped_twice(by_key) == []
    check(by_key, kills, QUEUES, lambda key: (zset_step if key.startswith("zset") else list_step, ()))


def popped_twice(by_key):
    """Returns the elements that several pops returned. The proof by check() includes this, but explains it less clearly."""
    popped = collections.Counter()
    for operation in (operation for history in by_key.values() for operation in history):
        if "POP" in operation.name and operation.answer and operation.answer is not UNKNOWN:
            elements = [operation.answer] if isinstance(operation.answer, str) else operation.answer
            popped.update(elements[::2] if operation.name.startswith(("Z", "BZ")) else elements)
    return [element for element, times in popped.items() if times > 1]


HASHES = [f"car:{i}" for i in range(3)]
WRITERS = CLIENTS // 2
MOST_WRITES = 1_700_000  # of a client


def step_of_hash(state, name, arguments):
    """Returns the reply and the new state of a command on one hash. The state is the number of the write that the hash has."""
    if name == "HSET":
        return (3 if state is None else 0), arguments[0]
    if name == "DEL":
        return int(state is not None), None
    return state, state  # a read, of any kind


def fields_of(write):
    """Returns the fields of a write's hash, from which the number of the write follows."""
    number, count = divmod(write, MOST_WRITES)
    return "town", f"{write:08}", "lon", count / 10_000, "lat", number


def write_of_place(lon, lat):
    return int(lat) * MOST_WRITES + round(float(lon) * 10_000)


def by_index(link):
    found = link.call("INDEX.RANGE", "towns", "-", "+", "WITHVALUES")
    return {key: int(town) for key, town in zip(found[::2], found[1::2], strict=True)}


def by_place(link, *shape):
    cursor, found = link.call("SPATIAL.SEARCH", "places", *shape, "WITHCOORD")
    assert len(found) == len({key for key, _ in found}), f"a key has two places: {found}"
    return {key: write_of_place(*place) for key, place in found}


def by_name(link, key):
    town = link.call("HGET", key, "town")
    return {key: town and int(town)}


def client_of_records(number, port, seed, until, results):
    """Writes or reads records. A reply of an index is a read of each key."""
    choose = random.Random(f"{seed}-{number}")
    reads = {
        "HGET": lambda link: by_name(link, choose.choice(HASHES)),
        "INDEX.RANGE": lambda link: {**dict.fromkeys(HASHES), **by_index(link)},
        "BOX": lambda link: {**dict.fromkeys(HASHES), **by_place(link, "BOX", -180, -90, 180, 90)},
        "NEAREST": lambda link: {**dict.fromkeys(HASHES), **by_place(link, "NEAREST", 0, 0, 100)},
    }

    def next_call(count):
        if number >= WRITERS:
            name = choose.choice(list(reads))
            return name, (), reads[name], []
        key, write, name = choose.choice(HASHES), number * MOST_WRITES + count, choose.choice(("HSET", "HSET", "DEL"))
        words, arguments = (fields_of(write), (write,)) if name == "HSET" else ((), ())
        return name, arguments, lambda link: {key: link.call(name, key, *words)}, [key]

    talk(number, port, until, results, next_call)


@pytest.mark.parametrize("kills", [0, 2])
def test_replies_of_indexes_are_reads_in_the_linearizable_history_of_each_record(kills):
    print(f"EBBTIDE_SEED={SEED}")
    small = {"storage.memtable_size": "64KiB", "tree.file_size": "64KiB", "storage.memory_budget": "64MiB"}
    with Server({**small, "storage.fsync": "everysec"}) as server:
        client = server.client()
        client.execute_command("INDEX.CREATE", "towns", "PREFIX", "car:", "FIELD", "town")
        client.execute_command("SPATIAL.CREATE", "places", "PREFIX", "car:", "LON", "lon", "LAT", "lat")
        for info in ("INDEX.INFO", "towns"), ("SPATIAL.INFO", "places"):
            wait_until(lambda info=info: b"complete" in client.execute_command(*info))
        by_key = record(server, f"{SEED}-records-{kills}", kills, None, client_of_records)
    check(by_key, kills, HASHES, lambda key: (step_of_hash, None))


def check(by_key, kills, keys=(*REGISTERS, *COUNTERS), model_of=lambda key: (step, None)):
    """`model_of` returns the step of a key's type, and the state of an absent key."""
    operations = sum(map(len, by_key.values()))
    unknown = sum(operation.answer is UNKNOWN for history in by_key.values() for operation in history)
    print(f"{operations} operations on {len(by_key)} keys, {unknown} without an answer")
    assert operations > 500 and sorted(by_key) == sorted(keys)
    assert kills == 0 or unknown > 0, "no command was under way at any kill"
    for key, history in by_key.items():
        wrong = violation(history, *model_of(key))
        assert wrong is None, f"{key}, seed {SEED}: {wrong}"
