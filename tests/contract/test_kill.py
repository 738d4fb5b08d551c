"""Tests that kill -9 under load loses no acknowledged write, and leaves the state after a prefix of all writes.

One connection sends a known list of writes as fast as the socket takes them, and counts the replies: SET, STAMP.SET, DEL, INCR,
DELRANGE, DELPREFIX, STAMP.DELRANGE, FLUSHDB, some large values. Hashes, sets, sorted sets and lists grow beyond 128 elements, where
their form changes, and shrink again. After the kill the recovered database must equal the model after n operations, where n lies
between the number of received replies and of sent commands. So no acknowledged write is lost, wrong or out of order.

Each round continues with the files of the round before. Most starts change the layout: merge policy, tiles, partitioning,
compression. One command of each round is a TREE.POLICY, which the next start does not keep.

A failure names the seed; EBBTIDE_SEED repeats it.
"""

import os
import random
import select
import time

import pytest

from support.layouts import change, layouts, switch, text_of
from support.server import Server
from support.sockets import encode, pairs

KEYS = [f"{group}:{number:03d}" for group in "abcd" for number in range(60)]
KINDS = ("hash", "set", "zset", "list")
COLLECTIONS = {kind: [f"{kind}:{number:03d}" for number in range(6)] for kind in KINDS}
ALL_KEYS = [*KEYS, *(key for kind in KINDS for key in COLLECTIONS[kind])]
ELEMENTS = [f"e{number:03d}" for number in range(400)]
SEED = int(os.environ.get("EBBTIDE_SEED", "0")) or random.SystemRandom().randrange(1, 2**31)


class Workload:
    """A list of commands with unique values, and the model of their effects. `policy` is the TREE.POLICY among them."""

    def __init__(self, choose, count, policy):
        self.commands = [self.command(choose, number) for number in range(count)]
        self.policy = policy
        self.commands[choose.randrange(count)] = policy

    @staticmethod
    def command(choose, number):
        if choose.random() < 0.1:  # they take longer than commands of strings
            return collection_command(choose, number)
        dice = choose.random()
        key = choose.choice(KEYS)
        if dice < 0.35:
            stamp = choose.randrange(1000)  # every value with this prefix has the stamp
            return ("STAMP.SET", key, str(stamp), f"stamp{stamp}:{number}-{choose.getrandbits(64):x}")
        if dice < 0.70:
            return ("SET", key, f"{number}-{choose.getrandbits(64):x}" * choose.choice((1, 1, 10, 100)))
        if dice < 0.71:
            return ("SET", key, f"{number}:" * choose.randint(15_000, 60_000))
        if dice < 0.85:
            return ("DEL", key)
        if dice < 0.97:
            return ("INCR", f"counter:{choose.randrange(5)}")
        if dice < 0.98:
            low = choose.randrange(1000)
            return ("STAMP.DELRANGE", str(low), str(low + choose.choice((1, 10, 200))))
        if dice < 0.985:
            first, second = sorted(choose.sample(ALL_KEYS, 2))
            return ("DELRANGE", first, second)
        if dice < 0.9997:
            key = choose.choice(ALL_KEYS)
            return ("DELPREFIX", key[: -choose.choice((0, 1, 2)) or None])
        return ("FLUSHDB",)

    @staticmethod
    def apply(state, command):
        name, *arguments = command
        if name == "SET":
            state[arguments[0].encode()] = arguments[1].encode()
        elif name == "STAMP.SET":
            state[arguments[0].encode()] = arguments[2].encode()
        elif name == "STAMP.DELRANGE":
            low, high = (int(argument) for argument in arguments)
            for key in [key for key, value in state.items() if isinstance(value, bytes) and value.startswith(b"stamp")]:
                if low <= int(state[key][len("stamp") : state[key].index(b":")]) < high:
                    del state[key]
        elif name == "DEL":
            state.pop(arguments[0].encode(), None)
        elif name == "INCR":
            key = arguments[0].encode()
            state[key] = b"%d" % (int(state.get(key, b"0")) + 1)
        elif name == "DELRANGE":
            first, second = (argument.encode() for argument in arguments)
            for key in [key for key in state if first <= key < second]:
                del state[key]
        elif name == "DELPREFIX":
            for key in [key for key in state if key.startswith(arguments[0].encode())]:
                del state[key]
        elif name == "FLUSHDB":
            state.clear()
        elif name != "TREE.POLICY":
            apply_to_collections(state, name, *(argument.encode() for argument in arguments))


def collection_command(choose, number):
    """Returns a command with a reply of one line. Elements come from a small set, so that collections shrink as often as they grow."""
    kind = choose.choice(KINDS)
    key, other = choose.sample(COLLECTIONS[kind], 2)
    if choose.random() < 0.03:
        return ("COPY", other, key, "REPLACE")
    if choose.random() < 0.04:
        return (choose.choice(("DEL", "UNLINK")), key)
    elements = choose.sample(ELEMENTS, choose.choice((1, 1, 1, 2, 5, 20, 150, 300)))
    grow = choose.random() < 0.5
    if kind == "hash":
        if grow and len(elements) == 2:
            return ("HINCRBY", key, "count", str(number))
        return ("HSET", key, *(word for each in elements for word in (each, f"{number}{each}"))) if grow else ("HDEL", key, *elements)
    if kind == "set":
        return choose.choice((("SADD", key, *elements), ("SMOVE", other, key, elements[0]), ("SUNIONSTORE", key, key, other))) if grow else (
            choose.choice((("SREM", key, *elements), ("SDIFFSTORE", key, key, other))))  # fmt: skip
    if kind == "zset":
        if grow:
            return ("ZADD", key, *(word for each in elements for word in (str(choose.randrange(50)), each)))
        return choose.choice((("ZREM", key, *elements), ("ZREMRANGEBYRANK", key, "0", str(len(elements) - 1)),
                              ("ZREMRANGEBYSCORE", key, "10", str(choose.randrange(10, 50)))))  # fmt: skip
    if grow:
        return (choose.choice(("LPUSH", "RPUSH")), key, *(f"{number}{each}" for each in elements))
    return choose.choice((("LPOP", key), ("RPOP", key), ("LMOVE", other, key, "LEFT", "RIGHT"), ("LTRIM", key, "1", "-3"), ("LTRIM", key, "-90", "-1"),
                          ("LTRIM", key, "0", "150")))  # fmt: skip


def apply_to_collections(state, name, key, *arguments):
    """Applies a command of collection_command() to the model. A collection is its kind with a dict, a set or a list."""

    def get(kind, of=key):
        empty = set() if kind == "set" else [] if kind == "list" else {}
        return state.get(of, (kind, empty))[1]

    def put(kind, value, of=key):
        if value:
            state[of] = (kind, value)
        else:
            state.pop(of, None)

    if name == "UNLINK":
        state.pop(key, None)
    elif name == "COPY":
        if key in state:
            kind, value = state[key]
            put(kind, value.copy(), of=arguments[0])
    elif name == "HSET":
        put("hash", {**get("hash"), **dict(zip(arguments[::2], arguments[1::2], strict=True))})
    elif name == "HINCRBY":
        put("hash", {**get("hash"), arguments[0]: b"%d" % (int(get("hash").get(arguments[0], b"0")) + int(arguments[1]))})
    elif name in ("HDEL", "ZREM"):
        kind = "hash" if name == "HDEL" else "zset"
        put(kind, {each: value for each, value in get(kind).items() if each not in arguments})
    elif name == "SADD":
        put("set", get("set") | {*arguments})
    elif name == "SREM":
        put("set", get("set") - {*arguments})
    elif name == "SMOVE":
        if arguments[1] in get("set"):
            put("set", get("set") - {arguments[1]})
            put("set", get("set", arguments[0]) | {arguments[1]}, of=arguments[0])
    elif name in ("SUNIONSTORE", "SDIFFSTORE"):
        left, right = (get("set", of=each) for each in arguments)
        put("set", left | right if name == "SUNIONSTORE" else left - right)
    elif name == "ZADD":
        put("zset", {**get("zset"), **{member: float(score) for score, member in zip(arguments[::2], arguments[1::2], strict=True)}})
    elif name == "ZREMRANGEBYRANK":
        ranked = sorted(get("zset").items(), key=lambda pair: (pair[1], pair[0]))
        put("zset", dict(ranked[int(arguments[1]) + 1 :]))
    elif name == "ZREMRANGEBYSCORE":
        put("zset", {member: score for member, score in get("zset").items() if not float(arguments[0]) <= score <= float(arguments[1])})
    elif name in ("LPUSH", "RPUSH"):
        put("list", [*reversed(arguments), *get("list")] if name == "LPUSH" else [*get("list"), *arguments])
    elif name in ("LPOP", "RPOP"):
        put("list", get("list")[1:] if name == "LPOP" else get("list")[:-1])
    elif name == "LMOVE":
        if get("list"):
            first, *rest = get("list")
            put("list", rest)
            put("list", [*get("list", arguments[0]), first], of=arguments[0])
    elif name == "LTRIM":
        first, last = (int(argument) for argument in arguments)
        put("list", get("list")[first : last + 1 or None])
    else:
        raise ValueError(name)


class Replies:
    """Counts complete one-line and bulk replies in a stream. An error reply fails the test."""

    def __init__(self):
        self.rest = b""
        self.count = 0

    def feed(self, data):
        self.rest += data
        while (end := self.rest.find(b"\r\n")) >= 0:
            line, size = self.rest[:end], end + 2
            assert not line.startswith(b"-"), line
            if line.startswith(b"$") and line != b"$-1":
                size += int(line[1:]) + 2
                if len(self.rest) < size:
                    return
            self.rest = self.rest[size:]
            self.count += 1


def write_until_killed(server, commands, kill_after):
    """Sends all commands and kills the server after kill_after replies. Returns the number of replies, the number of commands
    sent at least in part, and INFO before the kill."""
    replies = Replies()
    pieces = [encode(*command) for command in commands]
    ends, total = [], 0
    for piece in pieces:
        total += len(piece)
        ends.append(total)
    data = memoryview(b"".join(pieces))
    sent = 0
    with server.connect() as link:
        link.setblocking(False)
        while replies.count < kill_after:
            readable, writable, _ = select.select([link], [link] if sent < total else [], [], 30)
            assert readable or writable, "the server neither reads nor replies"
            if writable:
                sent += link.send(data[sent : sent + 65536])
            if readable:
                received = link.recv(1 << 16)
                assert received, f"the server closed the connection:\n{server.log_tail()}"
                replies.feed(received)
        info = server.client().info("ebbtide")
        server.kill()
        # Replies sent before the kill count as acknowledged.
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline and select.select([link], [], [], 1)[0]:
            try:
                received = link.recv(1 << 16)
            except OSError:
                break
            if not received:
                break
            replies.feed(received)
    return replies.count, sum(1 for start in [0, *ends[:-1]] if start < sent), info


def contents(client):
    """Returns the database in the form of the model, and the size of its largest collection."""
    keys = list(client.scan_iter(count=500))
    with client.pipeline(transaction=False) as pipe:
        for key in keys:
            pipe.type(key)
        kinds = [kind.decode() for kind in pipe.execute()]
        for kind, key in zip(kinds, keys, strict=True):
            if kind == "string":
                pipe.get(key)
            elif kind == "hash":
                pipe.hgetall(key)
            elif kind == "set":
                pipe.smembers(key)
            elif kind == "zset":
                pipe.zrange(key, 0, -1, withscores=True)
            else:
                pipe.lrange(key, 0, -1)
        values = pipe.execute()
    forms = {"string": lambda value: value, "zset": lambda pairs: ("zset", dict(pairs))}
    found = {key: forms.get(kind, lambda value, kind=kind: (kind, value))(value) for key, kind, value in zip(keys, kinds, values, strict=True)}
    return found, max((len(value[1]) for value in found.values() if isinstance(value, tuple)), default=0)


@pytest.mark.parametrize("fsync,kills", [("everysec", 14), ("always", 8), ("no", 8)])
def test_acknowledged_writes_survive_kill_9(fsync, kills):
    print(f"EBBTIDE_SEED={SEED}")
    choose = random.Random(f"{SEED}-{fsync}")
    deal = layouts(choose)
    # Sizes are small, so that flushes, log switches and merges run during most kills.
    small = {"storage.memtable_size": "64KiB", "tree.file_size": "64KiB", "storage.wal_segment_size": "256KiB"}
    settings = {**small, "storage.fsync": fsync, "tree.deletes.stamp": "explicit"}
    state, merges, largest = {}, 0, 0
    layout = next(deal)
    with Server(settings={**settings, **layout}) as server:
        for number in range(kills):
            workload = Workload(choose, 4000, switch(next(deal)))
            print(f"kill {number + 1}: {text_of(layout)}, then {' '.join(workload.policy)}")
            acknowledged, sent, info = write_until_killed(server, workload.commands, choose.randint(1, 3500))
            print(f"    {acknowledged} replies, {info['flushes']} flushes, {info['compactions']} merges")
            assert info["merge_bounds_broken"] == 0
            merges += info["compactions"]
            if choose.random() < 0.7:
                layout = next(deal)
                change(server, layout)
            server.start()
            client = server.client()
            assert client.execute_command("TREE.POLICY")[1].decode() == layout["tree.policy.name"]
            found, elements = contents(client)
            largest = max(largest, elements)
            for command in workload.commands[:acknowledged]:
                Workload.apply(state, command)
            position = acknowledged
            while state != found:
                assert position < sent, (
                    f"kill {number + 1}: no prefix of the history between {acknowledged} and {sent} operations gives the recovered state"
                    f" (seed {SEED}); keys that differ from the last prefix: "
                    f"{[key for key in {*state, *found} if state.get(key) != found.get(key)][:5]}"
                )
                Workload.apply(state, workload.commands[position])
                position += 1
        assert pairs(client.execute_command("TREE.VERIFY"))[b"errors"] == []
    assert merges >= kills // 2, "too few merges for the layouts to matter"
    assert largest > 128, "no collection had the form of large ones at a kill"
    print(f"{kills} kills survived")
