"""Tests of collections with more elements than one entry holds: commands, deletes by the deadline, and crashes."""

import time

import pytest

from support.server import Server

MANY = 20_000  # more than a small collection has
SETTINGS = {"storage.memory_budget": "128MiB", "tree.deletes.deadline": "10s", "storage.fsync": "always"}


@pytest.fixture
def server(tmp_path):
    with Server(SETTINGS, tmp_path, config=None) as running:
        yield running


def name(i):
    return b"name-%06d" % i


def fill(client, kind, key, count=MANY):
    """Writes a collection in parts of 1000 elements, and returns it as Python has it."""
    pipe = client.pipeline(transaction=False)
    for start in range(0, count, 1000):
        part = range(start, min(start + 1000, count))
        if kind == "hash":
            pipe.hset(key, mapping={name(i): b"value-%d" % i for i in part})
        elif kind == "set":
            pipe.sadd(key, *[name(i) for i in part])
        elif kind == "zset":
            pipe.zadd(key, {name(i): -i for i in part})
        else:
            pipe.rpush(key, *[name(i) for i in part])
    pipe.execute()
    return {
        "hash": lambda: {name(i): b"value-%d" % i for i in range(count)},
        "set": lambda: {name(i) for i in range(count)},
        "zset": lambda: [(name(i), float(-i)) for i in reversed(range(count))],
        "list": lambda: [name(i) for i in range(count)],
    }[kind]()


def read(client, kind, key):
    return {
        "hash": lambda: client.hgetall(key),
        "set": lambda: client.smembers(key),
        "zset": lambda: client.zrange(key, 0, -1, withscores=True),
        "list": lambda: client.lrange(key, 0, -1),
    }[kind]()


KINDS = ["hash", "set", "zset", "list"]


def in_files(server, text):
    return [path.name for path in server.data.iterdir() if path.is_file() and path.name != "RESERVE" and text in path.read_bytes()]


def wait_until_purged(server, text, seconds):
    end = time.monotonic() + seconds
    while in_files(server, text):
        assert time.monotonic() < end, in_files(server, text)
        time.sleep(0.2)


@pytest.mark.parametrize("kind", KINDS)
def test_large_collection_is_copied_renamed_dumped_and_survives_kill_9(kind, server):
    client = server.client()
    expected = fill(client, kind, "a")
    assert client.dbsize() == 1 and client.keys() == [b"a"] and client.scan() == (0, [b"a"])
    assert client.type("a").decode() == {"hash": "hash", "set": "set", "zset": "zset", "list": "list"}[kind]
    client.copy("a", "b")
    client.rename("a", "c")
    payload = client.dump("c")
    client.restore("d", 0, payload)
    client.move("b", 1)
    server.kill()
    server.start()
    client = server.client()
    assert read(client, kind, "c") == expected and read(client, kind, "d") == expected
    assert client.exists("a", "b") == 0 and client.dbsize() == 2
    other = server.client(db=1)
    assert read(other, kind, "b") == expected


def test_commands_on_fields_of_a_large_hash(server):
    client = server.client()
    fill(client, "hash", "h")
    assert client.hlen("h") == MANY
    assert client.hset("h", mapping={name(5): b"new", b"more": b"1"}) == 1
    assert client.hget("h", name(5)) == b"new" and client.hmget("h", name(6), b"none") == [b"value-6", None]
    assert client.hincrby("h", b"more", 41) == 42 and client.hstrlen("h", b"more") == 2
    assert client.hdel("h", b"more", name(5), b"none") == 2 and client.hlen("h") == MANY - 1
    assert client.hsetnx("h", name(6), b"x") == 0 and not client.hexists("h", name(5))
    found = dict(client.hscan_iter("h", count=700))
    assert len(found) == MANY - 1 and found[name(7)] == b"value-7"


def test_commands_on_members_of_large_sets_and_sorted_sets(server):
    client = server.client()
    fill(client, "set", "s")
    fill(client, "zset", "z")
    assert client.sadd("s", name(1), b"new") == 1 and client.srem("s", name(1), b"none") == 1
    assert client.smismember("s", [name(1), name(2)]) == [0, 1] and client.scard("s") == MANY
    assert client.smove("s", "t", name(2)) == 1 and client.smembers("t") == {name(2)}
    assert client.zadd("z", {name(3): 1e9, b"new": -1e9}) == 1 and client.zscore("z", name(3)) == 1e9
    assert client.zrange("z", 0, 0) == [b"new"] and client.zrange("z", -1, -1) == [name(3)]
    assert client.zincrby("z", 5, name(4)) == 1 and client.zrem("z", b"new", b"none") == 1
    assert client.zcard("z") == MANY and client.zrank("z", name(3)) == MANY - 1
    assert client.zpopmin("z", 2) == [(name(MANY - 1), float(1 - MANY)), (name(MANY - 2), float(2 - MANY))]
    assert len(list(client.sscan_iter("s", count=999))) == MANY - 1
    assert client.sinter("s", "s") == client.smembers("s")


def test_large_list_is_a_queue(server):
    client = server.client()
    expected = fill(client, "list", "l")
    assert client.rpush("l", b"x", b"y") == MANY + 2 and client.lpush("l", b"w") == MANY + 3
    expected = [b"w", *expected, b"x", b"y"]
    assert client.lindex("l", 0) == b"w" and client.lindex("l", -1) == b"y" and client.lrange("l", 9, 11) == expected[9:12]
    client.lset("l", 5, b"set")
    expected[5] = b"set"
    assert client.lmove("l", "l", "LEFT", "RIGHT") == b"w"
    expected = [*expected[1:], b"w"]
    assert client.lpop("l", 100) == expected[:100] and client.rpop("l") == b"w"
    expected = expected[100:-1]
    assert client.lmove("l", "m", "RIGHT", "LEFT") == b"y" and client.lrange("m", 0, -1) == [b"y"]
    expected = expected[:-1]
    client.ltrim("l", 10, -11)
    expected = expected[10:-10]
    assert client.linsert("l", "BEFORE", expected[3], b"in") == len(expected) + 1
    expected.insert(3, b"in")
    assert client.lrem("l", 1, b"in") == 1
    expected.remove(b"in")
    assert client.lrange("l", 0, -1) == expected and client.llen("l") == len(expected)
    while client.llen("l"):
        expected = expected[len(client.lpop("l", 7000)) :]
    assert expected == [] and not client.exists("l")
    assert client.blpop("l", 0.01) is None


def test_transaction_sees_its_own_changes_of_a_large_hash(server):
    client = server.client()
    fill(client, "hash", "h")
    pipe = client.pipeline()
    pipe.hset("h", "f", "1").hget("h", "f").hlen("h").delete("h").exists("h").hset("h", "g", "2").hgetall("h")
    assert pipe.execute() == [1, b"1", MANY + 1, 1, 0, 1, {b"g": b"2"}]
    assert client.hgetall("h") == {b"g": b"2"} and client.dbsize() == 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", ["DEL", "expiry", "SET", "DELRANGE", "empty", "stamp", "again"])
def test_deleted_large_collection_leaves_all_files_by_the_deadline(kind, way, server):
    client = server.client()
    fill(client, kind, "victim")
    fill(client, kind, "witness", 17_000)
    client.execute_command("TREE.FLUSH")
    if way == "DEL":
        client.delete("victim")
    elif way == "expiry":
        client.pexpire("victim", 300)
        time.sleep(0.4)
    elif way == "again":
        client.pexpire("victim", 300)
        time.sleep(0.4)
        client.rpush("victim", "fresh")
    elif way == "SET":
        client.set("victim", "fresh")
    elif way == "DELRANGE":
        client.execute_command("DELRANGE", "victim", "victin")
    elif way == "stamp":
        client.execute_command("STAMP.DELRANGE", "-", "+")
    elif kind == "list":
        client.ltrim("victim", 1, 0)
    else:
        remove = {"hash": client.hdel, "set": client.srem, "zset": client.zrem}[kind]
        for start in range(0, MANY, 1000):
            remove("victim", *[name(i) for i in range(start, start + 1000)])
    left = {b"witness", b"victim"} if way in ("SET", "again") else set() if way == "stamp" else {b"witness"}
    assert set(client.keys()) == left
    wait_until_purged(server, name(MANY - 1), 13)  # the last names are only in the victim
    if way != "stamp":
        assert len(read(client, kind, "witness")) == 17_000
    assert set(client.keys()) == left


def test_move_from_a_large_list_has_the_events_of_redis_in_their_order(server):
    client = server.client()
    fill(client, "list", "l")
    client.config_set("notify-keyspace-events", "El")
    events = client.pubsub()
    events.psubscribe("__keyevent@0__:*")
    events.get_message(timeout=5)
    client.lmove("l", "m", "LEFT", "RIGHT")
    seen = [events.get_message(timeout=5) for _ in range(2)]
    assert [(message["channel"], message["data"]) for message in seen] == [(b"__keyevent@0__:rpush", b"m"), (b"__keyevent@0__:lpop", b"l")]
