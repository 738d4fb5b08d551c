"""Compares random GEO commands on random places to redis-server, byte by byte.

    EBBTIDE_GEO_ROUNDS=1000 pytest tests/contract/test_geo.py     # 40 otherwise, of 200 commands each

Places crowd at the poles, the antimeridian, and a few cities, so that searches meet the borders of cells.
"""

import os
import random

import pytest
from test_differential import our_port, redis_port  # noqa: F401 (fixtures)

from support.differential.wire import Link, parsed

ROUNDS = int(os.environ.get("EBBTIDE_GEO_ROUNDS", "40"))
COMMANDS = 200
LIMIT = b"85.05112878"
EDGES = [(b"180", b"0"), (b"-180", b"0"), (b"0", LIMIT), (b"0", b"-" + LIMIT), (b"180", LIMIT), (b"-180", b"-" + LIMIT), (b"0", b"0"), (b"-0", b"-0")]
BAD_POINTS = [(b"181", b"0"), (b"0", b"86"), (b"-180.1", b"-1"), (b"x", b"1"), (b"1", b""), (b"inf", b"1"), (b"nan", b"1"), (b"1e300", b"-1e300")]
CITIES = [(13.361389, 38.115556), (2.35, 48.85), (-0.1, 51.5), (151.2, -33.87), (179.9, -16.5), (-179.9, 66), (10, 84.9), (-70, -84.9)]
UNITS = [b"m", b"km", b"ft", b"mi", b"KM"]


@pytest.fixture
def links(redis_port, our_port):  # noqa: F811
    pair = (Link(our_port), Link(redis_port))
    yield pair
    for link in pair:
        link.close()


class Maker:
    """Makes commands. With `ties`, members crowd at the same few places, so that they have equal distances."""

    def __init__(self, seed, ties):
        self.rng = random.Random(seed)
        self.ties = ties

    def odds(self, share):
        return self.rng.random() < share

    def point(self, of_member=False):
        rng = self.rng
        if self.odds(0.01):
            return rng.choice(BAD_POINTS)
        if self.odds(0.1) and (self.ties or not of_member):
            return rng.choice(EDGES)
        if self.odds(0.3):
            return b"%.6f" % rng.uniform(-180, 180), b"%.6f" % rng.uniform(-85.05, 85.05)
        longitude, latitude = rng.choice(CITIES)
        near = rng.choice([1e-5, 0.01, 0.5, 5])
        longitude = min(max(rng.gauss(longitude, near), -180), 180)
        return b"%.17g" % longitude, b"%.17g" % min(max(rng.gauss(latitude, near), -85.05), 85.05)

    def key(self):
        return self.rng.choice([b"geo:1", b"geo:1", b"geo:1", b"geo:2", b"geo:2", b"none", b"stored"]) if self.odds(0.98) else b"text"

    def member(self):
        return b"m%d" % self.rng.randrange(500)

    def length(self):
        """Returns a number of any scale, and a unit."""
        rng = self.rng
        if self.odds(0.04):
            return rng.choice([b"-1", b"x", b"", b"inf", b"1e300", b"0", b"-0"])
        return b"%.9g" % (10 ** rng.uniform(-2, rng.choice([4, 6, 8])))

    def unit(self):
        return self.rng.choice(UNITS) if self.odds(0.98) else self.rng.choice([b"x", b"", b"kmx"])

    def options(self, stores=False):
        rng = self.rng
        parts = [[b"COUNT", rng.choice([b"1", b"2", b"5", b"100", b"0", b"-1", b"x"])] if self.odds(0.3) else [],
                 [b"ANY"] if self.odds(0.15) else [],
                 rng.choice([[], [b"ASC"], [b"desc"]])]
        if not stores or self.odds(0.05):
            parts += [[word] for word in (b"WITHCOORD", b"withdist", b"WITHHASH") if self.odds(0.4)]
        if self.odds(0.01):
            parts.append([rng.choice([b"x", b"COUNT", b"STORE", b"STOREDIST", b"BYBOX", b"FROMMEMBER"])])
        rng.shuffle(parts)
        return [word for part in parts for word in part]

    def area(self):
        rng = self.rng
        center = [b"FROMMEMBER", self.member()] if self.odds(0.5) else [b"FROMLONLAT", *self.point()]
        shape = [b"BYRADIUS", self.length(), self.unit()] if self.odds(0.5) else [b"BYBOX", self.length(), self.length(), self.unit()]
        parts = [part for part in (center, shape) if not self.odds(0.02)]
        if self.odds(0.02):
            parts.append(rng.choice([[b"BYRADIUS", b"1", b"m"], [b"BYBOX", b"1", b"1", b"m"], [b"FROMMEMBER", self.member()], [b"FROMLONLAT", b"1", b"1"]]))
        rng.shuffle(parts)
        return [word for part in parts for word in part]

    def store(self):
        return [self.rng.choice([b"STORE", b"STOREDIST", b"store"]), b"stored"]

    def add(self, most):
        words = [word for _ in range(self.rng.randint(1, most)) for word in (*self.point(True), self.member())]
        options = self.rng.choice([[], [], [b"NX"], [b"XX"], [b"CH"], [b"nx", b"CH"], [b"NX", b"XX"]])
        return [b"GEOADD", self.key(), *options, *words[: len(words) - (1 if self.odds(0.01) else 0)]]

    def command(self):
        rng = self.rng
        kind = rng.randrange(12)
        if kind <= 1:
            return self.add(20)
        if kind == 2:
            return [rng.choice([b"GEOPOS", b"GEOHASH"]), self.key(), *[self.member() for _ in range(rng.randrange(4))]]
        if kind == 3:
            return [b"GEODIST", self.key(), self.member(), self.member(), *rng.choice([[], [self.unit()], [b"m", b"m"]])]
        if kind <= 6:
            return [rng.choice([b"GEOSEARCH", b"geosearch"]), self.key(), *self.area(), *self.options()]
        if kind == 7:
            distances = [b"STOREDIST"] if self.odds(0.3) else []
            return [b"GEOSEARCHSTORE", b"stored", self.key(), *self.area(), *distances, *self.options(stores=True)]
        stores = self.odds(0.2)
        tail = [*self.options(stores), *(self.store() if stores else [])]
        if kind <= 9:
            return [rng.choice([b"GEORADIUS", b"GEORADIUS", b"GEORADIUS_RO"]), self.key(), *self.point(), self.length(), self.unit(), *tail]
        name = rng.choice([b"GEORADIUSBYMEMBER", b"GEORADIUSBYMEMBER", b"GEORADIUSBYMEMBER_RO"])
        if kind == 10:
            return [name, self.key(), self.member(), self.length(), self.unit(), *tail]
        return rng.choice([[b"ZRANGE", b"stored", b"0", b"-1", b"WITHSCORES"], [b"ZREM", b"geo:2", self.member()], [b"ZADD", b"geo:2", self.score(), self.member()]])

    def score(self):
        """Returns a score that may be no cell of the map."""
        return self.rng.choice([b"-1", b"1.5", b"4503599627370496", b"1e18", b"9223372036854775807", b"1.9e19", b"inf", b"-inf", b"-1e300", b"%d" % self.rng.randrange(1 << 52)])


def same(command, mine, theirs):
    """Compares two replies. Redis 7.0 writes scores with 17 digits in RESP3. It rounds distances between places of one longitude
    differently than 7.2, which shows in stored distances."""
    if mine == theirs:
        return True
    mine, theirs = parsed(mine)[0], parsed(theirs)[0]
    if command[0] == b"ZRANGE":
        flat = [[float(word) if i % 2 else word for i, word in enumerate(flattened(reply))] for reply in (mine, theirs)]
        if len(flat[0]) != len(flat[1]):
            return False
        # Scores that differ in their last bits may be in another order.
        pairs = [sorted(zip(each[::2], each[1::2], strict=True)) for each in flat]
        return all(a == b and x == pytest.approx(y, rel=1e-9, abs=1e-6) for (a, x), (b, y) in zip(*pairs, strict=True))
    return False


def flattened(reply):
    return [word for each in reply for word in each] if reply and isinstance(reply[0], list) else reply


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_random_geo_commands_get_the_same_replies_as_from_redis(links, seed):
    ties = seed % 4 == 0
    make = Maker(seed, ties)
    commands = [[b"FLUSHALL"], [b"HELLO", b"%d" % (2 + seed % 2)], [b"SET", b"text", b"x"]]
    commands += [make.add(200) for _ in range(4)]
    commands += [make.command() for _ in range(COMMANDS)]
    ours, redis = (link.call(commands) for link in links)
    for i, command in enumerate(commands):
        if command[0] != b"HELLO":
            assert same(command, ours[i], redis[i]), f"{ours[i]!r} is not {redis[i]!r}: command {i}: {b' '.join(command)}"
    assert sum(not reply.startswith((b"-", b"*0", b":0", b"$-1", b"_")) for reply in ours) > COMMANDS / 10


def test_command_getkeys_replies_to_geo_commands_as_in_redis(links):
    commands = [
        [b"COMMAND", b"GETKEYS", *line.split()]
        for line in [
            b"GEOADD g 1 1 a", b"GEODIST g a b", b"GEOSEARCH g FROMMEMBER a BYRADIUS 1 m", b"GEOSEARCHSTORE t g FROMMEMBER a BYRADIUS 1 m",
            b"GEORADIUS g 1 1 1 m", b"GEORADIUS g 1 1 1 m STORE t", b"GEORADIUS g 1 1 1 m COUNT 1 storedist t ASC",
            b"GEORADIUSBYMEMBER g a 1 m", b"GEORADIUSBYMEMBER g a 1 m STORE t", b"GEORADIUS_RO g 1 1 1 m", b"GEORADIUS g 1 1 1 m STORE",
        ]
    ]  # fmt: skip
    assert links[0].call(commands) == links[1].call(commands)


def test_geo_search_of_a_large_sorted_set_returns_every_match(links):
    rng = random.Random(1)
    commands = [[b"FLUSHALL"]]
    commands += [[b"GEOADD", b"big", *[word for i in range(1024) for word in (b"%.5f" % rng.uniform(-180, 180), b"%.5f" % rng.uniform(-85, 85), b"%d" % (1024 * j + i))]] for j in range(16)]
    commands += [[b"GEOSEARCH", b"big", b"FROMLONLAT", b"0", b"0", b"BYRADIUS", b"21000", b"km", *options]
                 for options in ([], [b"ASC", b"WITHCOORD", b"WITHDIST", b"WITHHASH"], [b"COUNT", b"9223372036854775807"], [b"COUNT", b"1000", b"ANY"], [b"DESC", b"COUNT", b"1000"])]  # fmt: skip
    ours, redis = (link.call(commands) for link in links)
    assert ours == redis
    assert ours[-5].startswith(b"*16384\r\n")
