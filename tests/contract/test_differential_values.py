"""Compares random sequences of every command to redis-server and to this server, byte by byte (tests/support/differential).

    EBBTIDE_DIFFERENTIAL_ROUNDS=100000 pytest tests/contract/test_differential_values.py     # 2000 otherwise
    EBBTIDE_DIFFERENTIAL_SEED=4711 EBBTIDE_DIFFERENTIAL_ROUNDS=1 ...                         # only the sequence of seed 4711

For hours: PYTHONPATH=tests python3 -m support.differential --sequences 1000000
"""

import os
import random

import pytest
from test_differential import our_port, redis_port  # noqa: F401 (fixtures)

from support.differential.payloads import with_footer
from support.differential.rounds import Differ
from support.differential.values import EDGES, VALUES
from support.differential.wire import Link, parsed, value_of

ROUNDS = int(os.environ.get("EBBTIDE_DIFFERENTIAL_ROUNDS", "2000"))
FIRST_SEED = int(os.environ.get("EBBTIDE_DIFFERENTIAL_SEED", "0"))
ROUNDS_PER_TEST = 500


@pytest.fixture(scope="module")
def differ(redis_port, our_port):  # noqa: F811
    both = Differ(our_port, redis_port)
    yield both
    both.close()


@pytest.fixture
def links(redis_port, our_port):  # noqa: F811
    """Gives connections to this server and to Redis, in RESP2."""
    pair = (Link(our_port), Link(redis_port))
    yield pair
    for link in pair:
        link.close()


@pytest.mark.parametrize("first", range(FIRST_SEED, FIRST_SEED + ROUNDS, ROUNDS_PER_TEST))
def test_random_command_sequences_get_the_same_replies_as_from_redis(differ, first):
    failed = differ.run(first, min(ROUNDS_PER_TEST, FIRST_SEED + ROUNDS - first))
    if failed is not None:
        pytest.fail(differ.report(failed), pytrace=False)


def test_planted_difference_from_redis_is_found_and_reduced_to_few_commands(differ, monkeypatch):
    """One server gets one command more than the other, so that they differ."""
    seed = 16  # this seed uses RESP2, and no subscriptions
    exchange = differ.links[0].exchange
    monkeypatch.setattr(differ.links[0], "exchange", lambda data: exchange(data.replace(b"$3\r\nSET\r\n", b"$3\r\nGET\r\n")))
    text = differ.report(seed)
    assert f"seed {seed}, RESP2: after" in text and "are here" in text and "in Redis" in text, text


def test_value_dumped_by_redis_or_ebbtide_is_restored_by_the_other(links):
    ours, redis = links
    for value in [*VALUES, *EDGES, b"abc" * 10_000]:
        for source, target in ((ours, redis), (redis, ours)):
            _, reply = source.call([[b"SET", b"from", value], [b"DUMP", b"from"]])
            payload = value_of(reply)
            if source is ours:
                payload = with_footer(payload[:-10])  # Redis 7.0 refuses the version of 7.2
            replies = target.call([[b"RESTORE", b"to", b"0", payload, b"REPLACE"], [b"GET", b"to"]])
            assert replies == [b"+OK\r\n", b"$%d\r\n%s\r\n" % (len(value), value)]


def test_hyperloglogs_have_the_same_bytes_as_in_redis(links):
    """The sketches grow from empty through sparse to dense, element by element where the encoding changes. Some have a cached
    count."""
    ours, redis = links
    rng = random.Random(7)
    for link in (ours, redis):
        link.call([[b"DEL", b"h", b"other"]])
    for step in range(60):
        more = [b"PFADD", b"h", *[b"%d" % rng.randrange(1 << 40) for _ in range(1 + step * step // 3)]]
        commands = [more, [b"GET", b"h"]]
        if step % 3 == 0:
            commands += [[b"PFCOUNT", b"h"], [b"GET", b"h"]]
        if step % 7 == 0:
            commands += [[b"PFMERGE", b"other", b"h"], [b"GET", b"other"], [b"PFCOUNT", b"h", b"other"]]
        assert ours.call(commands) == redis.call(commands), f"step {step}"


# The keys are (command, field). The values have the difference to Redis 7.0, and its reason.
REVIEWED_INFO = {
    (b"wait", "flags"): "noscript in 7.0, not in 7.2",
    (b"client", "categories"): "the container command cannot be run; here it has the value of its subcommands",
    (b"monitor", "flags"): "no_multi: refused when it is queued; in Redis EXEC returns the error",
    (b"zrank", "arity"): "3 in 7.0, -3 in 7.2, which has WITHSCORE",
    (b"zrevrank", "arity"): "3 in 7.0, -3 in 7.2, which has WITHSCORE",
    (b"command|getkeys", "arity"): "-4 in 7.0, -3 in 7.2",
    (b"command|getkeysandflags", "arity"): "-4 in 7.0, -3 in 7.2",
    **{
        (name, field): "a shard channel is no key here; Redis lists it as one, marked not_key, for routing in a cluster"
        for name in (b"ssubscribe", b"sunsubscribe", b"spublish")
        for field in ("positions", "keys")
    },
}


def test_command_info_equals_that_of_redis(links):
    """Compares arity, flags, keys, categories and key specifications of every common command, but not tips and notes."""

    def described(info):
        specs = [dict(zip(spec[::2], spec[1::2], strict=True)) for spec in info[8]]
        keys = [(sorted(spec[b"flags"]), spec[b"begin_search"], spec[b"find_keys"]) for spec in specs]
        return {"arity": info[1], "flags": sorted(info[2]), "positions": info[3:6], "categories": sorted(info[6]), "keys": keys}

    ours, redis = links
    names, _ = parsed(ours.call([[b"COMMAND", b"LIST"]])[0])
    compared = 0
    for name in names:
        mine, theirs = (parsed(link.call([[b"COMMAND", b"INFO", name]])[0])[0][0] for link in (ours, redis))
        if theirs is None:
            continue
        compared += 1
        mine, theirs = described(mine), described(theirs)
        different = [field for field in mine if mine[field] != theirs[field] and (name, field) not in REVIEWED_INFO]
        assert not different, f"{name.decode()}: {[(field, mine[field], theirs[field]) for field in different]}"
    assert compared > 50
