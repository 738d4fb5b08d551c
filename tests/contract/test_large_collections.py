"""Tests of collections with more elements than one entry holds: commands, deletes by the deadline, and crashes."""

import random
import string
import time

import pytest
import redis

from support.server import Server

redis = pytest.importorskip("redis")

MANY = 20_000  # more than a loop walks over
FEW = 2000  # also far more than one entry holds
SETTINGS = {"storage.memory_budget": "128MiB", "tree.deletes.deadline": "10s", "storage.fsync": "always"}
PLAIN = {**SETTINGS, "storage.compression": "none", "storage.compression_last_level": "none"}


@pytest.fixture
def server(tmp_path):
    with Server(SETTINGS, tmp_path, config=None) as running:
        yield running


@pytest.fixture
def plain(tmp_path):
    """A server without compression, so that a search of its files finds elements."""
    with Server(PLAIN, tmp_path, config=None) as running:
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


def test_commands_on_a_large_hash_reply_as_on_a_small_one(server):
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


def test_commands_on_large_sets_and_sorted_sets_reply_as_on_small_ones(server):
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


def test_unions_and_intersections_of_large_sets_and_sorted_sets_have_the_right_members(server):
    client = server.client()
    fill(client, "zset", "z")
    fill(client, "set", "s", MANY + 5)
    fill(client, "hash", "h")
    client.zadd("small", {name(3): 10, b"other": 1})
    assert client.zunionstore("union", ["z", "s", "small"]) == MANY + 6
    assert client.zscore("union", name(3)) == -3 + 1 + 10
    assert client.zunion(["z", "s"], withscores=True) == [(name(i), float(1 - i)) for i in reversed(range(MANY))] + [
        (name(i), 1.0) for i in range(MANY, MANY + 5)
    ]
    assert client.zinter(["small", "z"], withscores=True) == [(name(3), 7.0)]
    assert client.zinterstore("common", ["z", "s"], aggregate="MAX") == MANY
    assert client.zscore("common", name(9)) == 1
    assert client.execute_command("ZINTERCARD", 2, "z", "s") == MANY
    assert client.execute_command("ZINTERCARD", 2, "z", "s", "LIMIT", 7) == 7
    assert client.zdiff(["s", "z"]) == [name(i) for i in range(MANY, MANY + 5)]
    assert client.zdiffstore("rest", ["z", "small"]) == MANY - 1
    with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        client.zunion(["z", "h"])
    pipe = client.pipeline(transaction=True)
    pipe.zadd("z", {b"new": 5})
    pipe.execute_command("ZINTERCARD", 2, "z", "z")
    pipe.zunionstore("z", ["z", "small"])
    assert pipe.execute() == [1, MANY + 1, MANY + 2]


def test_large_list_works_as_a_queue(server):
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


def test_transaction_sees_the_changes_that_it_makes_to_a_large_hash(server):
    client = server.client()
    fill(client, "hash", "h")
    pipe = client.pipeline()
    pipe.hset("h", "f", "1").hget("h", "f").hlen("h").delete("h").exists("h").hset("h", "g", "2").hgetall("h")
    assert pipe.execute() == [1, b"1", MANY + 1, 1, 0, 1, {b"g": b"2"}]
    assert client.hgetall("h") == {b"g": b"2"} and client.dbsize() == 1


def marker(what):
    """Returns random letters, which depend on `what` alone, so that a file cannot have a part of them only."""
    return "".join(random.Random(what).choices(string.ascii_letters, k=30)).encode()


FIRST, LAST = -1e9, 1e9  # the scores of markers


def fill_between_markers(client, kind, key, count=MANY):
    """Writes a collection whose first and last elements are markers. Returns the two."""
    first, last = marker(f"{key} first"), marker(f"{key} last")
    scores = (0, 0) if key == "zremrangebylex" else (FIRST, LAST)
    add = {
        "hash": lambda element, _: client.hset(key, element, b"value"),
        "set": lambda element, _: client.sadd(key, element),
        "zset": lambda element, score: client.zadd(key, {element: score}),
        "list": lambda element, _: client.rpush(key, element),
    }[kind]
    add(first, scores[0])
    if key == "zremrangebylex":
        for start in range(0, count, 1000):
            client.zadd(key, {name(i): 0 for i in range(start, start + 1000)})
    else:
        fill(client, kind, key, count)
    add(last, scores[1])
    return first, last


def delete_all_elements(client, kind, key):
    if kind == "list":
        client.ltrim(key, 1, 0)
        return
    remove = {"hash": client.hdel, "set": client.srem, "zset": client.zrem}[kind]
    for start in range(0, FEW, 1000):
        remove(key, *[name(i) for i in range(start, start + 1000)])
    remove(key, marker(f"{key} first"), marker(f"{key} last"))


def move_and_delete(client, key):
    client.move(key, 1)
    other = redis.Redis(**{**client.connection_pool.connection_kwargs, "db": 1})
    assert other.delete(key) == 1
    other.close()


def delete_copies(client, key):
    client.copy(key, "copied")
    client.delete(key, "copied")


# How whole collections are deleted. The key of each is the name of its way. "small" is a small collection of the same kind.
WHOLE = {
    "del": lambda client, kind, key: client.delete(key),
    "unlink": lambda client, kind, key: client.unlink(key),
    "expiry": lambda client, kind, key: client.pexpire(key, 300),
    "again": lambda client, kind, key: client.pexpire(key, 300),  # and written again after that
    "set": lambda client, kind, key: client.set(key, "fresh"),
    "delrange": lambda client, kind, key: client.execute_command("DELRANGE", key, key + "\0"),
    "delprefix": lambda client, kind, key: client.execute_command("DELPREFIX", key),
    "empty": delete_all_elements,
    "store": lambda client, kind, key: {
        "hash": lambda: client.sunionstore(key, "members"),
        "set": lambda: client.sdiffstore(key, ["members", "none"]),
        "zset": lambda: client.zrangestore(key, "small", 0, 0),
        "list": lambda: client.sort("small", alpha=True, store=key),
    }[kind](),
    "rename-over": lambda client, kind, key: client.copy("small", "source") and client.rename("source", key),
    "rename-and-del": lambda client, kind, key: client.rename(key, "renamed") and client.delete("renamed"),
    "restore": lambda client, kind, key: client.restore(key, 0, client.dump("small"), replace=True),
    "copy-over": lambda client, kind, key: client.copy("small", key, replace=True),
    "copy-and-del": lambda client, kind, key: delete_copies(client, key),
    "move-and-del": lambda client, kind, key: move_and_delete(client, key),
}
LEFT = {"again", "set", "store", "rename-over", "restore", "copy-over"}  # after these ways, the key has another value


def commands(*rows):
    """Returns a way that runs commands. In them, K is the key, A and B are the markers."""

    def run(client, key, first, last):
        words = {K: key, A: first, B: last}
        for row in rows:
            client.execute_command(*(words.get(word, word) for word in row))

    return run


K, A, B = object(), object(), object()
# How the two markers are deleted from a collection that stays.
ELEMENTS = {
    "hash": {
        "hdel": commands(("HDEL", K, A, B)),
        "hgetdel": commands(("HGETDEL", K, "FIELDS", 2, A, B)),
        "hpexpire": commands(("HPEXPIRE", K, 100, "FIELDS", 2, A, B)),
    },
    "set": {
        "srem": commands(("SREM", K, A, B)),
        "smove": commands(("SMOVE", K, "moved", A), ("SMOVE", K, "moved", B), ("DEL", "moved")),
        "spop": lambda client, key, first, last: [client.spop(key) for _ in range(20)] and client.spop(key, MANY),  # all, some one by one
    },
    "zset": {
        "zrem": commands(("ZREM", K, A, B)),
        "zpop": commands(("ZPOPMIN", K), ("ZPOPMAX", K)),
        "zmpop": commands(("ZMPOP", 1, K, "MIN"), ("ZMPOP", 1, K, "MAX")),
        "zremrangebyscore": commands(("ZREMRANGEBYSCORE", K, "-inf", FIRST), ("ZREMRANGEBYSCORE", K, LAST, "inf")),
        "zremrangebyrank": commands(("ZREMRANGEBYRANK", K, 0, 0), ("ZREMRANGEBYRANK", K, -1, -1)),
        "zremrangebylex": lambda client, key, *markers: [client.zremrangebylex(key, b"[" + each, b"[" + each) for each in markers],
    },
    "list": {
        "lpop": commands(("LPOP", K), ("RPOP", K)),
        "lmpop": commands(("LMPOP", 1, K, "LEFT"), ("LMPOP", 1, K, "RIGHT")),
        "ltrim": commands(("LTRIM", K, 1, -2)),
        "lrem": commands(("LREM", K, 0, A), ("LREM", K, -1, B)),
        "lmove": commands(("LMOVE", K, "moved", "LEFT", "RIGHT"), ("LMOVE", K, "moved", "RIGHT", "LEFT"), ("DEL", "moved")),
    },
}


def wait_until_markers_are_purged(server, markers, seconds):
    """Waits until no file has a marker. Its own searches take time, so only one that begins after the last deadline may fail."""
    end = time.monotonic() + seconds
    while True:
        began = time.monotonic()
        try:
            content = b"\0".join(path.read_bytes() for path in server.data.iterdir() if path.is_file() and path.name != "RESERVE")
        except FileNotFoundError:  # removed meanwhile; its contents may be in a new file
            continue
        left = [way for way, text in markers if text in content]
        if not left:
            return
        assert began < end, left
        time.sleep(0.2)


@pytest.mark.parametrize("kind", KINDS)
def test_deleted_large_collections_and_elements_are_in_no_file_after_the_deadline(kind, plain):
    client = plain.client()
    ways = [*WHOLE, *ELEMENTS[kind]]
    markers = {way: fill_between_markers(client, kind, way, MANY if way in ("del", "expiry", "delrange") else FEW) for way in ways}
    fill(client, kind, "small", 3)
    client.sadd("members", "a", "b")
    fill(client, kind, "witness", FEW)
    client.execute_command("TREE.FLUSH")
    texts = [(way, text) for way in ways for text in markers[way]]
    content = b"\0".join(path.read_bytes() for path in plain.data.glob("*.data"))
    assert [way for way, text in texts if text not in content] == []  # so the search finds markers
    for way, delete in WHOLE.items():
        delete(client, kind, way)
    for way, delete in ELEMENTS[kind].items():
        delete(client, way, *markers[way])
    time.sleep(0.4)
    client.rpush("again", "fresh")
    left = {way.encode() for way in [*LEFT, *ELEMENTS[kind], "small", "members", "witness"] if way != "spop"}
    assert set(client.keys()) == left and client.dbsize() == len(left)
    wait_until_markers_are_purged(plain, texts, 12)
    assert len(read(client, kind, "witness")) == FEW
    assert set(client.keys()) == left
    assert {len(read(client, kind, way)) for way in ELEMENTS[kind] if way != "spop"} == {FEW}


@pytest.mark.parametrize("kind", KINDS)
def test_large_collection_deleted_by_its_stamp_is_in_no_file_after_the_deadline(kind, plain):
    client = plain.client()
    markers = fill_between_markers(client, kind, "victim")
    client.execute_command("TREE.FLUSH")
    assert all(in_files(plain, text) for text in markers)
    client.execute_command("STAMP.DELRANGE", "-", "+")
    assert client.keys() == []
    wait_until_markers_are_purged(plain, [("stamp", text) for text in markers], 12)
    assert client.keys() == []


def test_lmove_from_a_large_list_publishes_the_events_of_redis_in_order(server):
    client = server.client()
    fill(client, "list", "l")
    client.config_set("notify-keyspace-events", "El")
    events = client.pubsub()
    events.psubscribe("__keyevent@0__:*")
    events.get_message(timeout=5)
    client.lmove("l", "m", "LEFT", "RIGHT")
    seen = [events.get_message(timeout=5) for _ in range(2)]
    assert [(message["channel"], message["data"]) for message in seen] == [(b"__keyevent@0__:rpush", b"m"), (b"__keyevent@0__:lpop", b"l")]


def cold(server):
    """Moves all entries to tables and restarts the server, so that no page is in memory."""
    server.client().execute_command("TREE.FLUSH")
    server.stop()
    server.start()
    return server.client()


def zset_model(client, key, scores):
    pipe = client.pipeline(transaction=False)
    for start in range(0, len(scores), 1000):
        pipe.zadd(key, dict(scores[start : start + 1000]))
    pipe.execute()
    return sorted(scores, key=lambda pair: (pair[1], pair[0]))


SCORES = [float("-inf"), -1e300, -2.5, -1, 0, 5e-324, 1, 2.5, 1e300, float("inf")]


@pytest.mark.parametrize("at", ["warm", "cold"])
def test_ranges_by_rank_and_score_of_a_large_sorted_set_equal_those_of_a_model(at, server):
    client = server.client()
    rng = random.Random(7)
    scores = [(name(i), rng.choice([rng.choice(SCORES), round(rng.uniform(-50, 50), 1)])) for i in range(MANY)]
    model = zset_model(client, "z", scores)
    client = cold(server) if at == "cold" else client
    names = [member for member, _ in model]
    for _ in range(60):
        start, length = rng.choice([rng.randrange(-MANY, MANY), rng.randrange(20), -rng.randrange(1, 20)]), rng.choice([0, 1, 7, 300])
        first = start % MANY
        stop = first + length - 1
        if stop < MANY and length > 0:
            assert client.zrange("z", first, stop, withscores=True) == model[first : stop + 1]
            assert client.zrange("z", first - MANY, stop - MANY) == names[first : stop + 1]
            assert client.zrevrange("z", first, stop) == names[::-1][first : stop + 1]
        low, high = sorted(rng.choice([rng.choice(SCORES), rng.uniform(-51, 51)]) for _ in range(2))
        open_low, open_high = rng.random() < 0.3, rng.random() < 0.3
        bounds = ("(" if open_low else "") + repr(low), ("(" if open_high else "") + repr(high)
        within = [pair for pair in model if (low < pair[1] if open_low else low <= pair[1]) and (pair[1] < high if open_high else pair[1] <= high)]
        assert client.zcount("z", *bounds) == len(within)
        offset, count = rng.randrange(30), rng.randrange(1, 30)
        limits = {"start": offset, "num": count, "withscores": True}
        assert client.zrangebyscore("z", *bounds, **limits) == within[offset : offset + count]
        assert client.zrevrangebyscore("z", bounds[1], bounds[0], **limits) == within[::-1][offset : offset + count]
        if len(within) < 2000:
            assert client.zrangebyscore("z", *bounds, withscores=True) == within
    for place in [0, 1, 2000, MANY // 2, MANY - 2, MANY - 1]:
        assert client.zrank("z", names[place]) == place and client.zrevrank("z", names[place]) == MANY - 1 - place
    assert client.zrank("z", "none") is None
    assert client.zrangestore("stored", "z", 100, 199) == 100 and client.zrange("stored", 0, -1) == names[100:200]


def test_ranges_by_name_of_a_large_sorted_set_equal_those_of_a_model(server):
    client = server.client()
    names = [name for name, _ in zset_model(client, "z", [(name(i), 3.0) for i in range(MANY)])]
    rng = random.Random(8)
    for _ in range(60):
        low, high = sorted(rng.choice([name(rng.randrange(MANY)), b"name-%05d" % rng.randrange(20_000), b"", b"zzz"]) for _ in range(2))
        open_low, open_high = rng.random() < 0.5, rng.random() < 0.5
        bounds = (b"(" if open_low else b"[") + low, (b"(" if open_high else b"[") + high
        within = [each for each in names if (low < each if open_low else low <= each) and (each < high if open_high else each <= high)]
        assert client.zlexcount("z", *bounds) == len(within)
        offset, count = rng.randrange(30), rng.randrange(1, 30)
        assert client.zrangebylex("z", *bounds, start=offset, num=count) == within[offset : offset + count]
        assert client.zrevrangebylex("z", bounds[1], bounds[0], start=offset, num=count) == within[::-1][offset : offset + count]
    assert client.zlexcount("z", "-", "+") == MANY and client.zlexcount("z", "+", "-") == 0
    assert client.zrangebylex("z", "-", "+", start=5, num=2) == names[5:7]
    assert client.zremrangebylex("z", "[" + names[10].decode(), "(" + names[500].decode()) == 490
    del names[10:500]
    client.zadd("z", {"a": -1})  # with different scores the walk is Redis's
    assert client.zrangebylex("z", "-", b"[" + names[1]) == [b"a", names[0], names[1]] and client.zlexcount("z", "-", b"[" + names[1]) == 3
    client.zadd("z", {"other": -2})  # the first member is above the range
    assert client.zrangebylex("z", "-", b"[" + names[1]) == [] and client.zlexcount("z", "-", b"[" + names[1]) == 0
    assert client.zrevrangebylex("z", b"[" + names[1], "-") == []


@pytest.mark.parametrize("at", ["warm", "cold"])
def test_large_sorted_set_can_be_emptied_by_pops_and_range_removals(at, server):
    client = server.client()
    model = zset_model(client, "z", [(name(i), float(i % 1000)) for i in range(MANY)])
    client = cold(server) if at == "cold" else client
    rng = random.Random(9)
    rounds = 0
    while model:
        rounds += 1
        count = rng.choice([1, 3, 500])
        if rng.random() < 0.3:
            assert client.zpopmin("z", count) == model[:count]
            del model[:count]
        elif rng.random() < 0.4:
            assert client.zpopmax("z", count) == model[::-1][:count]
            del model[max(0, len(model) - count) :]
        elif rng.random() < 0.5:
            first = rng.randrange(len(model))
            assert client.zremrangebyrank("z", first, first + count - 1) == len(model[first : first + count])
            del model[first : first + count]
        else:
            low = rng.randrange(1000)
            left = [pair for pair in model if not low <= pair[1] < low + 20]
            assert client.zremrangebyscore("z", low, "(%d" % (low + 20)) == len(model) - len(left)
            model = left
        if rounds % 10 == 0:
            assert client.zcard("z") == len(model) and client.zrange("z", 0, 9, withscores=True) == model[:10]
            assert client.zrange("z", -10, -1, withscores=True) == model[-10:]
    assert client.exists("z") == 0 and client.bzpopmin("z", 0.01) is None
    client.zadd("z", {"a": 1})
    assert client.bzpopmax(["none", "z"], 1) == (b"z", b"a", 1.0)


def test_random_elements_of_large_collections_are_existing_and_uniformly_distributed(server):
    client = server.client()
    for kind, key in zip(KINDS, ["h", "s", "z", "l"], strict=True):
        fill(client, kind, key)
    for command in [client.srandmember, client.hrandfield, client.zrandmember]:
        key = {"srandmember": "s", "hrandfield": "h", "zrandmember": "z"}[command.__name__]
        places = [int(command(key)[5:]) for _ in range(400)]
        assert len(set(places)) > 350 and all(0 <= place < MANY for place in places)
        assert all(sum(lo <= place < lo + MANY // 4 for place in places) > 60 for lo in range(0, MANY, MANY // 4))
        assert len(set(command(key, 500))) == 500 and len(command(key, -700)) == 700
        assert len(command(key, 10 * MANY)) == MANY
    popped = set()
    for count in [1, 2, 50, 3000, MANY]:
        part = client.spop("s", count)
        popped |= set(part)
        assert client.scard("s") == MANY - len(popped)
    assert popped == {name(i) for i in range(MANY)} and client.exists("s") == 0
    assert client.hrandfield("h", 2, withvalues=True)[1].startswith(b"value-")


@pytest.mark.parametrize("at", ["warm", "cold"])
def test_geo_searches_of_a_large_sorted_set_find_the_same_places_as_those_of_a_small_one(at, server):
    client = server.client()
    rng = random.Random(10)
    places = [(rng.uniform(-179, 179), rng.uniform(-84, 84), name(i)) for i in range(MANY)]
    near = [(rng.gauss(13, 0.3), rng.gauss(38, 0.3), b"near-%d" % i) for i in range(300)]
    for start in range(0, MANY, 500):
        client.geoadd("large", [part for place in places[start : start + 500] for part in place])
    for key in ["large", "small"]:
        client.geoadd(key, [part for place in near for part in place])
    client = cold(server) if at == "cold" else client
    far = {member for longitude, latitude, member in places if abs(longitude - 13) > 3 or abs(latitude - 38) > 3}
    for radius in [1, 10, 30]:
        search = {"longitude": 13, "latitude": 38, "radius": radius, "unit": "km", "sort": "ASC", "withdist": True}
        found = [each for each in client.geosearch("large", **search) if not each[0].startswith(b"name")]
        assert found == client.geosearch("small", **search) and len(found) > 0
        found = {each[0] for each in client.geosearch("large", **search)}
        assert not found & far
    assert client.geopos("large", "near-1", "none") == client.geopos("small", "near-1", "none")
    assert client.geodist("large", "near-1", "near-2", "km") == client.geodist("small", "near-1", "near-2", "km")
    assert client.geohash("large", "near-1") == client.geohash("small", "near-1")
    by_member = {"member": "near-5", "width": 20, "height": 20, "unit": "km"}
    assert {each for each in client.geosearch("large", **by_member) if each.startswith(b"near")} == set(client.geosearch("small", **by_member))
    with pytest.raises(redis.ResponseError, match="could not decode requested zset member"):
        client.geosearch("large", member="none", radius=1, unit="km")
    assert client.geosearchstore("to", "large", member="near-5", radius=20, unit="km") >= client.geosearchstore("to2", "small", member="near-5", radius=20, unit="km") > 0


def test_elements_are_inserted_into_and_removed_from_a_large_list(server):
    client = server.client()
    model = fill(client, "list", "l")
    rng = random.Random(11)
    for turn in range(100):
        place = rng.choice([rng.randrange(len(model)), rng.randrange(20), len(model) - 1 - rng.randrange(20)])
        if rng.random() < 0.5:
            element = model[place]
            count = rng.choice([1, -1, 0])
            same = [i for i, each in enumerate(model) if each == element]
            gone = set(same[:1] if count == 1 else same[-1:] if count == -1 else same)
            assert client.lrem("l", count, element) == len(gone)
            model = [each for i, each in enumerate(model) if i not in gone]
        else:
            first = model.index(model[place])
            new = rng.choice([b"new-%d" % turn, model[rng.randrange(len(model))]])
            where = rng.choice(["BEFORE", "AFTER"])
            assert client.linsert("l", where, model[place], new) == len(model) + 1
            model.insert(first + (where == "AFTER"), new)
        if turn % 25 == 24:
            assert client.lrange("l", 0, -1) == model and client.llen("l") == len(model)
            model.append(client.lpop("l") and model.pop(0))
            client.rpush("l", model[-1])
    assert client.lrange("l", 0, -1) == model


def test_elements_removed_from_the_middle_of_a_large_list_are_in_no_file_after_the_deadline(plain):
    client = plain.client()
    for start in range(0, MANY, 1000):
        client.rpush("l", *[b"secret-%d-at-%06d" % (i % 3, i) for i in range(start, start + 1000)])
    client.execute_command("TREE.FLUSH")
    assert all(in_files(plain, b"secret-%d-at-%06d" % (i % 3, i)) for i in range(300, 303))
    # Elements behind a removed one get other positions. That their old copies count as deletes is checked in large_test.cc: here the
    # merges of the tombstones would purge them, too.
    for element in [b"secret-0-at-000300", b"secret-1-at-000301"]:
        assert client.lrem("l", 1, element) == 1
        client.execute_command("TREE.FLUSH")
    assert client.lrem("l", 1, b"secret-2-at-000302") == 1
    for i in range(300, 303):
        wait_until_purged(plain, b"secret-%d-at-%06d" % (i % 3, i), 15)
    assert client.llen("l") == MANY - 3 and client.lrange("l", 299, 300) == [b"secret-2-at-000299", b"secret-0-at-000303"]


def test_names_of_removed_members_of_a_busy_sorted_set_are_in_no_file_after_the_deadline(plain):
    """The header of the sorted set names its first and last member, so older versions of the header must be purged, too."""
    client = plain.client()
    rng = random.Random(12)
    waiting = [b"secret-%06d" % i for i in range(400)]
    client.zadd("queue", {member: i for i, member in enumerate(waiting)})
    client.execute_command("TREE.FLUSH")
    removed, number = [], 400
    for turn in range(600):
        way = rng.randrange(3)
        if way == 0:
            removed.append(client.zpopmin("queue")[0][0])
        elif way == 1:
            removed.append(client.zpopmax("queue")[0][0])
        else:
            removed.append(rng.choice(waiting))
            client.zrem("queue", removed[-1])
        waiting.remove(removed[-1])
        member = b"secret-%06d" % number
        client.zadd("queue", {member: rng.choice([-number, number])})
        waiting.append(member)
        number += 1
        if turn % 150 == 149:
            client.execute_command("TREE.FLUSH")
    assert set(client.zrange("queue", 0, -1)) == set(waiting)
    end = time.monotonic() + 15
    while True:
        content = b"".join(path.read_bytes() for path in plain.data.iterdir() if path.is_file() and path.name != "RESERVE")
        left = [member for member in removed if member in content]
        if not left:
            break
        assert time.monotonic() < end, left[:10]
        time.sleep(0.5)


@pytest.mark.parametrize("kind", ["hash", "set", "zset"])
def test_collection_that_the_server_rewrites_survives_kill_9(kind, plain):
    client = plain.client()
    fill(client, kind, "c", 1500)
    rng = random.Random(13)
    left = set(range(1500))
    remove = {"hash": client.hdel, "set": client.srem, "zset": client.zrem}[kind]
    for part in range(4):
        for i in rng.sample(sorted(left), len(left) * 2 // 3):
            left.discard(i)
            remove("c", name(i))
        if part % 2 == 0:
            client.execute_command("TREE.FLUSH")
        plain.kill()
        plain.start()
        client = plain.client()
        remove = {"hash": client.hdel, "set": client.srem, "zset": client.zrem}[kind]
        found = read(client, kind, "c")
        assert {member[0] if kind == "zset" else member for member in found} == {name(i) for i in left}
        assert client.dbsize() == 1
    assert in_files(plain, name(min(left)))
    client.delete("c")
    wait_until_purged(plain, name(min(left)), 13)
