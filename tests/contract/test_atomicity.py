"""Tests that transactions of concurrent connections on two event loops, some with kill -9, are atomic and have one order.

The transactions use MULTI/EXEC, WATCH, MSET and MGET. To test the order, each transaction appends its name to several lists at
once. So each list orders its transactions, and readers (MULTI of GETs) see prefixes of the lists. All these orders together must
have no cycle.

The tree has another layout after each kill. A failure names the seed; EBBTIDE_SEED repeats the choices, though not the timing.
"""

import collections
import os
import random
import threading
import time

import pytest
import redis

from support.layouts import change, layouts, text_of
from support.server import Server

ACCOUNTS = [f"account:{i}" for i in range(8)]
LISTS = [f"list:{i}" for i in range(6)]
EACH = 1000
SECONDS = float(os.environ.get("EBBTIDE_HISTORY_SECONDS", "5"))
SEED = int(os.environ.get("EBBTIDE_SEED", "0")) or random.SystemRandom().randrange(1, 2**31)
GONE = (redis.ConnectionError, redis.TimeoutError, redis.BusyLoadingError)


class Crowd:
    """Threads that run for SECONDS. An exception in a thread fails the test; a lost connection is expected. `deal` gives the
    layouts of the server after its kills."""

    def __init__(self, server, seed, deal):
        self.deal = deal
        self.server, self.seed, self.until, self.works = server, seed, time.monotonic() + SECONDS, set()
        self.threads, self.errors, self.done = [], [], []  # done: the kind of each completed work, once for each time

    def add(self, work, count=1):
        self.works.add(work.__name__)
        for number in range(count):
            choose = random.Random(f"{self.seed}-{work.__name__}-{number}")
            self.threads.append(threading.Thread(target=self.run, args=(work, choose), daemon=True))

    def run(self, work, choose):
        client = None
        while time.monotonic() < self.until and not self.errors:
            try:
                client = client or self.server.client()
                work(client, choose)
                self.done.append(work.__name__)
            except redis.WatchError:
                pass  # another client was faster
            except GONE:
                client = None
                time.sleep(0.01)
            except BaseException as error:
                self.errors.append(error)
                raise

    def go(self, kills):
        """Runs all threads. Returns how often each kind of work was done. Each must be done at least once."""
        for thread in self.threads:
            thread.start()
        choose = random.Random(f"{self.seed}-kills")
        for moment in sorted(self.until - SECONDS * choose.uniform(0.1, 0.9) for _ in range(kills)):
            time.sleep(max(0.0, moment - time.monotonic()))
            self.server.kill()
            layout = next(self.deal)
            print(f"after a kill: {text_of(layout)}")
            change(self.server, layout)
            self.server.start()
        for thread in self.threads:
            thread.join(SECONDS + 60)
            assert not thread.is_alive(), "a client hangs"
        if self.errors:
            raise self.errors[0]
        done = collections.Counter(self.done)
        assert set(done) == self.works, f"never done: {self.works - set(done)}"
        return done


def transfer(client, choose):
    """Moves money under WATCH. Gives up if another client changed an account."""
    a, b = choose.sample(ACCOUNTS, 2)
    with client.pipeline() as pipe:
        pipe.watch(a, b)
        amount = choose.randint(1, 50)
        has, other = int(pipe.get(a)), int(pipe.get(b))
        pipe.multi()
        pipe.set(a, has - amount)
        pipe.set(b, other + amount)
        pipe.execute()


def blind_transfer(client, choose):
    a, b = choose.sample(ACCOUNTS, 2)
    amount = choose.randint(1, 50)
    with client.pipeline() as pipe:
        pipe.decrby(a, amount).incrby(b, amount).execute()


def audit(client, choose):
    if choose.random() < 0.5:
        balances = client.mget(ACCOUNTS)
    else:
        with client.pipeline() as pipe:
            for account in ACCOUNTS:
                pipe.get(account)
            balances = pipe.execute()
    total = sum(map(int, balances))
    assert total == EACH * len(ACCOUNTS), f"half a transaction was seen: {balances} make {total}"


def churn(client, choose):
    with client.pipeline(transaction=False) as pipe:
        for _ in range(100):
            pipe.set(f"filler:{choose.randrange(3000)}", "x" * choose.randint(1, 400))
        pipe.execute()
    if choose.random() < 0.2:
        client.execute_command(choose.choice(("TREE.FLUSH", "TREE.COMPACT")))


def settings(fsync, layout):
    print(text_of(layout))
    small = {"storage.memtable_size": "256KiB", "tree.file_size": "256KiB", "storage.memory_budget": "64MiB"}
    return {**small, "storage.fsync": fsync, "server.threads": 2, **layout}


@pytest.mark.parametrize("fsync,kills", [("everysec", 0), ("always", 2), ("no", 2)])
def test_readers_see_each_concurrent_transaction_whole_or_not_at_all(fsync, kills):
    print(f"EBBTIDE_SEED={SEED}")
    deal = layouts(random.Random(f"{SEED}-{fsync}-layouts"))
    with Server(settings(fsync, next(deal))) as server:
        server.client().mset(dict.fromkeys(ACCOUNTS, EACH))
        crowd = Crowd(server, f"{SEED}-{fsync}", deal)
        crowd.add(transfer, 3)
        crowd.add(blind_transfer, 2)
        crowd.add(audit, 2)
        crowd.add(churn)
        done = crowd.go(kills)
        print(f"{done['transfer'] + done['blind_transfer']} transactions, {done['audit']} audits")
        audit(server.client(), random.Random(0))


def cycle(edges):
    """Returns some nodes of a cycle in the graph, or None. edges: node -> set of later nodes."""
    waiting = {}
    for node, later in edges.items():
        waiting.setdefault(node, 0)
        for other in later:
            waiting[other] = waiting.get(other, 0) + 1
    ready = [node for node, count in waiting.items() if count == 0]
    while ready:
        node = ready.pop()
        del waiting[node]
        for other in edges.get(node, ()):
            waiting[other] -= 1
            if waiting[other] == 0:
                ready.append(other)
    return sorted(waiting)[:10] or None


def test_cycle_function_returns_exactly_the_nodes_of_a_cycle():
    assert cycle({"a": {"b"}, "b": {"c"}}) is None
    assert cycle({"a": {"b"}, "b": {"a"}, "c": {"a"}}) == ["a", "b"]


@pytest.mark.parametrize("fsync,kills", [("everysec", 0), ("everysec", 2)])
def test_all_readers_see_transactions_in_one_order(fsync, kills):
    print(f"EBBTIDE_SEED={SEED}")
    names, sure, reads = iter(range(1, 1 << 30)), {}, []

    def append(client, choose):
        name, lists = f"T{next(names)}", choose.sample(LISTS, choose.randint(2, 3))
        sure[name] = [lists, False]
        with client.pipeline() as pipe:
            for key in lists:
                pipe.append(key, name + ";")
            pipe.execute()
        sure[name][1] = True

    def read(client, choose):
        with client.pipeline() as pipe:
            for key in LISTS:
                pipe.get(key)
            reads.append(pipe.execute())
        time.sleep(0.005)  # limits memory: all replies are kept

    deal = layouts(random.Random(f"{SEED}-{kills}-layouts"))
    with Server(settings(fsync, next(deal))) as server:
        crowd = Crowd(server, f"{SEED}-{fsync}-{kills}", deal)
        crowd.add(append, 4)
        crowd.add(read, 2)
        crowd.add(churn)
        done = crowd.go(kills)
        print(f"{done['append']} transactions, {done['read']} reads")
        read(server.client(), None)

    def items(text):
        return (text or b"").decode().split(";")[:-1]

    final = dict(zip(LISTS, map(items, reads[-1])))
    for key, order in final.items():
        assert len(set(order)) == len(order), f"{key}: a transaction occurs twice"
    for name, (lists, answered) in sure.items():
        has = [name in final[key] for key in lists]
        assert all(has) or (not any(has) and not answered), f"{name}: in {has} of {lists}, answered: {answered} (seed {SEED})"
    edges = {}
    for order in final.values():
        for before, after in zip(order, order[1:]):
            edges.setdefault(before, set()).add(after)
    for number, seen in enumerate(reads):
        for key, text in zip(LISTS, seen):
            part = items(text)
            assert final[key][: len(part)] == part, f"{key}: a reader saw no prefix of the final list (seed {SEED})"
            if part:
                edges.setdefault(part[-1], set()).add(f"read {number}")
            if len(part) < len(final[key]):
                edges.setdefault(f"read {number}", set()).add(final[key][len(part)])
    assert cycle(edges) is None, f"no order of transactions explains the replies (seed {SEED}): {cycle(edges)}"
