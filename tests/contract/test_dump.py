"""Tests of DUMP and RESTORE of collections: each server reads what the other wrote, and what older Redis versions wrote.

Redis runs with sanitize-dump-payload, its most thorough checks, so that both servers refuse the same payloads.
"""

import os
import random

import pytest
from test_differential import our_port, redis_port  # noqa: F401 (fixtures)

from support.differential.payloads import collection_bodies, with_footer
from support.differential.wire import Link, value_of

ROUNDS = int(os.environ.get("EBBTIDE_DUMP_ROUNDS", "24"))
SEED = int(os.environ.get("EBBTIDE_DUMP_SEED", "0"))
KINDS = ["list", "set", "hash", "zset"]
SCORES = [0.0, 1.0, -1.0, 2.5, -0.1, 1e17, -1e300, 5e-324, 1.7976931348623157e308, float("inf"), float("-inf"), 3.14159, 1 << 53, -(1 << 62)]


@pytest.fixture
def links(redis_port, our_port):  # noqa: F811
    pair = (Link(our_port), Link(redis_port))
    pair[1].call([[b"CONFIG", b"SET", b"sanitize-dump-payload", b"yes"]])
    yield pair
    for link in pair:
        link.close()


def text(rng):
    roll = rng.random()
    if roll < 0.35:
        return b"%d" % rng.choice([rng.randrange(-20, 140), rng.randrange(-70000, 70000), rng.randrange(-(1 << 33), 1 << 33), rng.randrange(-(1 << 63), 1 << 63)])
    if roll < 0.4:
        return rng.choice([b"", b"-0", b"007", b"9223372036854775807", b"-9223372036854775808", b"9223372036854775808", b"1e3", b"nul\0"])
    if roll < 0.5:
        return rng.choice([b"ab", b"\xff", b"text "]) * rng.choice([1, 20, 70, 300, 5000])
    return rng.randbytes(rng.choice([1, 3, 10, 63, 64, 65, 127, 128, 253, 254, 255, 300, rng.randrange(4000)]))


def content(rng, kind, most):
    size = rng.choice([1, 2, 3, rng.randrange(1, 20), rng.randrange(1, most)])
    only_numbers = rng.random() < 0.2
    bits = rng.choice([8, 15, 31, 63])
    make = (lambda: b"%d" % rng.randrange(-(1 << bits), 1 << bits)) if only_numbers else (lambda: text(rng))
    if kind == "list":
        return [make() for _ in range(size)]
    names = list({make() for _ in range(size)})
    if kind == "set":
        return names
    return [(name, make() if kind == "hash" else rng.choice([*SCORES, rng.uniform(-1e6, 1e6)])) for name in names]


def writing(kind, key, wanted):
    if kind == "list":
        return [b"RPUSH", key, *wanted]
    if kind == "set":
        return [b"SADD", key, *wanted]
    if kind == "hash":
        return [b"HSET", key, *[word for pair in wanted for word in pair]]
    return [b"ZADD", key, *[word for member, score in wanted for word in (b"%r" % score, member)]]


def stored(link, kind, key):
    """Returns the content of the key in a form that is equal for equal collections."""
    command = {"list": [b"LRANGE", key, b"0", b"-1"], "set": [b"SMEMBERS", key], "hash": [b"HGETALL", key], "zset": [b"ZRANGE", key, b"0", b"-1", b"WITHSCORES"]}
    reply = value_of(link.call([command[kind]])[0])
    if not isinstance(reply, list) or kind == "list":
        return reply
    if kind == "set":
        return sorted(reply)
    pairs = list(zip(reply[::2], reply[1::2], strict=True))
    return dict(pairs) if kind == "hash" else [(member, float(score)) for member, score in pairs]


def restored(link, payload, key=b"to"):
    return link.call([[b"RESTORE", key, b"0", payload, b"REPLACE"]])[0]


def dumped(link, key):
    return value_of(link.call([[b"DUMP", key]])[0])


@pytest.mark.parametrize("kind", KINDS)
def test_collection_dumped_by_redis_or_ebbtide_is_restored_unchanged_by_the_other(links, kind):
    ours, redis = links
    for seed in range(SEED, SEED + ROUNDS):
        rng = random.Random(f"{kind} {seed}")
        wanted = content(rng, kind, 400)
        for command in ([b"DEL", b"from"], writing(kind, b"from", wanted)):
            for link in links:
                assert not link.call([command])[0].startswith(b"-"), f"seed {seed}"
        redis.call([[b"CONFIG", b"SET", b"list-max-listpack-size", rng.choice([b"-2", b"3", b"-1"])], [b"CONFIG", b"SET", b"list-compress-depth", rng.choice([b"0", b"1"])]])
        assert restored(ours, dumped(redis, b"from")) == b"+OK\r\n", f"seed {seed}"
        assert restored(redis, dumped(ours, b"from")) == b"+OK\r\n", f"seed {seed}"
        assert restored(ours, dumped(ours, b"from"), b"again") == b"+OK\r\n", f"seed {seed}"
        expected = stored(redis, kind, b"from")
        assert stored(ours, kind, b"to") == stored(redis, kind, b"to") == stored(ours, kind, b"again") == expected, f"seed {seed}"


@pytest.mark.parametrize("compressed", [False, True], ids=["plain", "compressed"])
@pytest.mark.parametrize("kind", KINDS)
def test_payloads_of_every_redis_version_restore_to_the_same_collection_as_in_redis(links, kind, compressed):
    seen = set()
    for seed in range(SEED, SEED + ROUNDS // 4):
        rng = random.Random(f"{kind} {seed}")
        wanted = content(rng, kind, 60)
        for name, body in collection_bodies(kind, wanted, compressed):
            replies = [restored(link, with_footer(body)) for link in links]
            assert replies == [b"+OK\r\n", b"+OK\r\n"], f"seed {seed}: {name}"
            mine, theirs = (stored(link, kind, b"to") for link in links)
            assert mine == theirs, f"seed {seed}: {name}"
            seen.add(name)
    assert len(seen) > 1


@pytest.mark.parametrize("kind", KINDS)
def test_collections_around_the_limit_of_one_entry_are_restored_by_redis_and_from_redis(links, kind):
    ours, redis = links

    def of_size(size):
        names = [b"%d" % (i * 7919) if i % 3 else b"name %d" % i for i in range(size)]
        return names if kind in ("list", "set") else [(name, b"v" if kind == "hash" else float(i)) for i, name in enumerate(names)]

    for wanted in (of_size(16_384), of_size(16_385), [b"x" * 1_000_000] if kind in ("list", "set") else [(b"x" * 1_000_000, b"1" if kind == "hash" else 1.0)]):
        redis.call([[b"DEL", b"from"], writing(kind, b"from", wanted)])
        assert restored(ours, dumped(redis, b"from")) == b"+OK\r\n"
        assert restored(redis, dumped(ours, b"to")) == b"+OK\r\n"
        assert stored(ours, kind, b"to") == stored(redis, kind, b"to") == stored(redis, kind, b"from")


def test_set_as_listpack_of_redis_7_2_is_read(links):
    ours, _ = links
    body = dict(collection_bodies("hash", [(b"a", b"1"), (b"b", b"-5000"), (b"c" * 100, b"")]))["listpack"]
    assert restored(ours, with_footer(b"\x14" + body[1:], 11)) == b"+OK\r\n"
    assert stored(ours, "set", b"to") == sorted([b"a", b"1", b"b", b"-5000", b"c" * 100, b""])


def changed(rng, body):
    """Returns the payload with a few bytes changed, removed or doubled."""
    out = bytearray(body)
    for _ in range(rng.choice([1, 1, 2, 4])):
        if len(out) < 2:
            break  # only the type is left
        at = rng.randrange(1, len(out))
        roll = rng.random()
        if roll < 0.4:
            out[at] ^= 1 << rng.randrange(8)
        elif roll < 0.7:
            out[at] = rng.choice([0, 1, 0x7F, 0x80, 0xC0, 0xC3, 0xF0, 0xFE, 0xFF])
        elif roll < 0.85:
            del out[at : at + rng.randrange(1, 4)]
        else:
            out[at:at] = out[at : at + rng.randrange(1, 6)]
    return bytes(out)


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_payload_is_refused_or_restores_to_the_same_collection_as_in_redis(links, kind):
    accepted = refused = 0
    for seed in range(SEED, SEED + ROUNDS * 5):
        rng = random.Random(f"damaged {kind} {seed}")
        wanted = content(rng, kind, 12)
        for name, body in collection_bodies(kind, wanted, rng.random() < 0.3):
            payload = with_footer(changed(rng, body))
            replies = [restored(link, payload) for link in links]
            if replies[0] == b"+OK\r\n":
                assert replies[1] == replies[0], f"seed {seed}: {name}: {payload!r}"
                mine, theirs = (stored(link, kind, b"to") for link in links)
                if kind == "zset":
                    theirs.sort(key=lambda pair: (pair[1], pair[0]))  # Redis keeps the order of the payload
                assert mine == theirs, f"seed {seed}: {name}: {payload!r}"
                accepted += 1
            else:
                assert replies[0] == b"-ERR Bad data format\r\n", f"seed {seed}: {name}"
                refused += 1
    assert accepted > 0 < refused
