"""Makes random commands on hashes, sets, sorted sets and lists, valid and invalid. Keys and elements come from small sets, so
that commands often meet elements that exist.

Most commands go to the key of their type, the others to any key, which may have another type. Members of sorted sets are short: Redis
finds those of long ones by another way, which gives other results for BYLEX with different scores.
"""

from support.differential.payloads import collection_bodies, with_footer
from support.differential.values import COLLECTION_KEYS, EDGES, FLOATS, SMALL

MEMBERS = [b"a", b"b", b"c", b"d", b"1", b"2", b"-3", b"10", b"", b"ab", b"nul\x00", b"\xff", b"x" * 60]
TEXTS = [*MEMBERS, b"y" * 70, b"9223372036854775807", b"3.5", b"1e3", b"01", b" 1", b"text" * 30]
SCORES = [b"0", b"1", b"1", b"2", b"-1", b"2.5", b"-0", b"inf", b"-inf", b"+inf", b"1e3", b"0.1", b"1e17", b"3.0", b"0x10", b"1e-5",
          b"1700000000000", b"100000000", b"-4.611686018427388e18", b"1e19", b"123456789.5", b"3.14159"]  # fmt: skip
BAD_SCORES = [b"nan", b"x", b"", b" 1", b"1 ", b"1e400", b"(1", b"1e-400", b"1\x00"]
BOUNDS = [b"-inf", b"+inf", b"inf", b"0", b"(0", b"1", b"(1", b"2", b"(2.5", b"", b"(", b"-1", b"1e400", b"1\x00x"]
BAD_BOUNDS = [b"x", b"((1", b"nan", b"1 "]
LEX = [b"-", b"+", b"[a", b"(a", b"[b", b"(c", b"[", b"(", b"[d", b"[1", b"+\x00"]
BAD_LEX = [b"a", b"", b"--", b"+x"]
COUNTS = [b"0", b"1", b"2", b"3", b"5", b"100", b"-1", b"-2", b"-5"]
BAD_COUNTS = [b"x", b"", b"1.5", b"99999999999999999999", b"-9223372036854775808"]
PATTERNS = [b"*", b"a*", b"?", b"[ab]", b"", b"x*", b"\\a"]


class Elements:
    """Makes the arguments of these commands with a Maker's random numbers."""

    def __init__(self, maker):
        self.m, self.rng = maker, maker.rng

    def mostly(self, good, bad, share=0.92):
        return self.rng.choice(good if self.rng.random() < share else bad)

    def key(self, kind):
        roll = self.rng.random()
        own = [key for key in COLLECTION_KEYS if key.startswith(kind)]
        return self.rng.choice(own) if roll < 0.85 else self.rng.choice(COLLECTION_KEYS) if roll < 0.95 else self.m.key()

    def keys(self, kind, low, high):
        return [self.key(kind) for _ in range(self.rng.randint(low, high))]

    def counted(self, kind):
        """Returns a count of keys, and keys: mostly as many as the count says."""
        keys = self.keys(kind, 1, 3)
        number = b"%d" % len(keys) if self.rng.random() < 0.93 else self.rng.choice([b"0", b"-1", b"x", b"", b"9", b"1", b"9223372036854775807"])
        return [number, *keys]

    def member(self):
        return self.rng.choice(MEMBERS)

    def members(self, low=1, high=4):
        return [self.member() for _ in range(self.rng.randint(low, high))]

    def score(self):
        return self.mostly(SCORES, BAD_SCORES, 0.96)

    def bound(self):
        return self.mostly(BOUNDS, BAD_BOUNDS)

    def lex(self):
        return self.mostly(LEX, BAD_LEX)

    def place(self):
        return self.mostly(SMALL, EDGES)

    def limit(self):
        return [b"LIMIT", self.mostly([b"0", b"1", b"2", b"9", b"-1"], EDGES), self.mostly([b"0", b"1", b"2", b"-1", b"9"], EDGES)]

    def payload(self):
        """Returns a collection as RESTORE reads it, in any form and sometimes truncated, with the right checksum."""
        kind = self.rng.choice(["list", "set", "hash", "zset"])
        names = list(dict.fromkeys(self.members(1, 6)))
        scores = [1.0, -2.5, float("inf"), 1e17]
        content = {"set": names, "list": [self.rng.choice(TEXTS) for _ in names], "hash": [(name, self.rng.choice(TEXTS)) for name in names],
                   "zset": [(name, self.rng.choice(scores)) for name in names]}[kind]  # fmt: skip
        body = self.rng.choice([body for _, body in collection_bodies(kind, content, self.rng.random() < 0.3)])
        # Redis reads on into the footer, so more bytes are cut off than the footer has.
        return with_footer(body if self.rng.random() < 0.95 or len(body) < 30 else body[: len(body) - 20])

    def scan(self, name, kind):
        cursor = self.mostly([b"0"], [b"x", b"", b"5", b"-1"])
        return [name, self.key(kind), cursor, *self.m.options([b"MATCH", self.rng.choice(PATTERNS)], [b"COUNT", self.mostly([b"1", b"100"], [b"0", b"x"])])]


def hash_shapes(e):
    rng, pick, m = e.rng, e.rng.choice, e.m
    key = lambda: e.key(b"hash")  # noqa: E731
    pairs = lambda: [w for _ in range(rng.randint(1, 4)) for w in (e.member(), pick(TEXTS))]  # noqa: E731
    return [
        (4, lambda: [pick([b"HSET", b"HSET", b"HMSET"]), key(), *pairs()]),
        (1, lambda: [b"HSETNX", key(), e.member(), pick(TEXTS)]),
        (2, lambda: [pick([b"HGET", b"HEXISTS", b"HSTRLEN"]), key(), e.member()]),
        (1, lambda: [b"HMGET", key(), *e.members()]),
        (2, lambda: [b"HDEL", key(), *e.members()]),
        (2, lambda: [pick([b"HGETALL", b"HKEYS", b"HVALS", b"HLEN", b"hgetall"]), key()]),
        (2, lambda: [b"HINCRBY", key(), e.member(), m.number()]),
        (2, lambda: [b"HINCRBYFLOAT", key(), e.member(), pick(FLOATS) if rng.random() < 0.6 else m.number()]),
        (1, lambda: e.scan(b"HSCAN", b"hash")),
        (1, lambda: [b"HRANDFIELD", key(), *pick([[], [e.mostly(COUNTS, BAD_COUNTS)], [e.mostly(COUNTS, BAD_COUNTS), pick([b"WITHVALUES", b"x"])]])]),
    ]  # fmt: skip


def set_shapes(e):
    pick = e.rng.choice
    key = lambda: e.key(b"set")  # noqa: E731
    return [
        (5, lambda: [b"SADD", key(), *e.members()]),
        (3, lambda: [b"SREM", key(), *e.members()]),
        (2, lambda: [pick([b"SMEMBERS", b"SCARD"]), key()]),
        (1, lambda: [b"SISMEMBER", key(), e.member()]),
        (1, lambda: [b"SMISMEMBER", key(), *e.members()]),
        (2, lambda: [b"SMOVE", key(), key(), e.member()]),
        # The popped members are random, so only none or all of them are popped.
        (2, lambda: [b"SPOP", key(), *pick([[b"0"], [b"100"], [b"-1"], [b"x"], [b"1", b"2"]])]),
        (1, lambda: [b"SRANDMEMBER", key(), *pick([[], [e.mostly(COUNTS, BAD_COUNTS)], [b"1", b"2"]])]),
        (3, lambda: [pick([b"SINTER", b"SUNION", b"SDIFF"]), *e.keys(b"set", 1, 3)]),
        (3, lambda: [pick([b"SINTERSTORE", b"SUNIONSTORE", b"SDIFFSTORE"]), *e.keys(b"set", 2, 4)]),
        (2, lambda: [b"SINTERCARD", *e.counted(b"set"), *e.m.options([b"LIMIT", e.mostly([b"0", b"1", b"5"], [b"-1", b"x"])])]),
        (1, lambda: e.scan(b"SSCAN", b"set")),
    ]  # fmt: skip


def zset_shapes(e):
    rng, pick, m = e.rng, e.rng.choice, e.m
    key = lambda: e.key(b"zset")  # noqa: E731
    pairs = lambda n: [w for _ in range(rng.randint(1, n)) for w in (e.score(), e.member())]  # noqa: E731
    add_options = lambda: m.options([b"NX"], [b"XX"], [b"GT"], [b"lt"], [b"CH"])  # noqa: E731
    weights = lambda: [b"WEIGHTS", *[e.mostly([b"1", b"2", b"-1", b"0", b"0.5", b"inf"], BAD_SCORES) for _ in range(rng.randint(1, 3))]]  # noqa: E731
    aggregate = lambda: [b"AGGREGATE", pick([b"SUM", b"MIN", b"max", b"x"])]  # noqa: E731
    with_scores = [b"WITHSCORES"]
    options = lambda: m.options([b"BYSCORE"], [b"BYLEX"], [b"REV"], with_scores, e.limit())  # noqa: E731
    ends = lambda: pick([[e.place(), e.place()], [e.bound(), e.bound()], [e.lex(), e.lex()]])  # noqa: E731
    pop = lambda name: [name, key(), *pick([[], [], [e.mostly([b"0", b"1", b"2", b"9"], [b"-1", b"x"])], [b"1", b"2"]])]  # noqa: E731
    return [
        (5, lambda: [b"ZADD", key(), *pairs(4)]),
        (3, lambda: [b"ZADD", key(), *add_options(), *pairs(3)]),
        (2, lambda: [b"ZADD", key(), *add_options(), b"INCR", *pairs(1 if rng.random() < 0.9 else 2)]),
        (2, lambda: [b"ZINCRBY", key(), e.score(), e.member()]),
        (2, lambda: [b"ZREM", key(), *e.members()]),
        (2, lambda: [pick([b"ZSCORE", b"ZRANK", b"ZREVRANK"]), key(), e.member()]),
        (1, lambda: [b"ZMSCORE", key(), *e.members()]),
        (1, lambda: [b"ZCARD", key()]),
        (2, lambda: [b"ZCOUNT", key(), e.bound(), e.bound()]),
        (2, lambda: [b"ZLEXCOUNT", key(), e.lex(), e.lex()]),
        (4, lambda: [b"ZRANGE", key(), *ends(), *options()]),
        (1, lambda: [b"ZREVRANGE", key(), e.place(), e.place(), *m.options(with_scores, e.limit())]),
        (2, lambda: [pick([b"ZRANGEBYSCORE", b"ZREVRANGEBYSCORE"]), key(), e.bound(), e.bound(), *m.options(with_scores, e.limit())]),
        (2, lambda: [pick([b"ZRANGEBYLEX", b"ZREVRANGEBYLEX"]), key(), e.lex(), e.lex(), *m.options(e.limit())]),
        (2, lambda: [b"ZRANGESTORE", key(), key(), *ends(), *m.options([b"BYSCORE"], [b"BYLEX"], [b"REV"], e.limit())]),
        (1, lambda: [b"ZREMRANGEBYRANK", key(), e.place(), e.place()]),
        (1, lambda: [b"ZREMRANGEBYSCORE", key(), e.bound(), e.bound()]),
        (1, lambda: [b"ZREMRANGEBYLEX", key(), e.lex(), e.lex()]),
        (2, lambda: pop(pick([b"ZPOPMIN", b"ZPOPMAX"]))),
        (2, lambda: [b"ZMPOP", *e.counted(b"zset"), pick([b"MIN", b"MAX", b"max", b"x"]), *m.options([b"COUNT", e.mostly([b"1", b"2", b"9"], [b"0", b"x"])])]),
        (3, lambda: [pick([b"ZUNION", b"ZINTER"]), *e.counted(pick([b"zset", b"zset", b"set"])), *m.options(weights(), aggregate(), with_scores)]),
        (1, lambda: [b"ZDIFF", *e.counted(b"zset"), *m.options(with_scores)]),
        (1, lambda: [b"ZINTERCARD", *e.counted(b"zset"), *m.options([b"LIMIT", e.mostly([b"0", b"1", b"5"], [b"-1", b"x"])])]),
        (3, lambda: [pick([b"ZUNIONSTORE", b"ZINTERSTORE"]), key(), *e.counted(pick([b"zset", b"zset", b"set"])), *m.options(weights(), aggregate())]),
        (1, lambda: [b"ZDIFFSTORE", key(), *e.counted(b"zset")]),
        (1, lambda: [b"ZRANDMEMBER", key(), *pick([[], [e.mostly(COUNTS, BAD_COUNTS)], [e.mostly(COUNTS, BAD_COUNTS), pick([b"WITHSCORES", b"x"])]])]),
        (1, lambda: e.scan(b"ZSCAN", b"zset")),
    ]  # fmt: skip


def list_shapes(e):
    rng, pick, m = e.rng, e.rng.choice, e.m
    key = lambda: e.key(b"list")  # noqa: E731
    end = lambda: e.mostly([b"LEFT", b"RIGHT", b"left"], [b"x"])  # noqa: E731
    text = lambda: pick(TEXTS)  # noqa: E731
    search = lambda: m.options([b"RANK", e.mostly([b"1", b"2", b"-1", b"-2"], [b"0", b"x"])], [b"COUNT", e.mostly([b"0", b"1", b"2"], [b"-1", b"x"])],
                               [b"MAXLEN", e.mostly([b"0", b"2", b"5"], [b"-1", b"x"])])  # noqa: E731
    return [
        (5, lambda: [pick([b"LPUSH", b"RPUSH"]), key(), *[text() for _ in range(rng.randint(1, 4))]]),
        (1, lambda: [pick([b"LPUSHX", b"RPUSHX"]), key(), *[text() for _ in range(rng.randint(1, 3))]]),
        (3, lambda: [pick([b"LPOP", b"RPOP"]), key(), *pick([[], [], [e.mostly([b"0", b"1", b"2", b"9"], [b"-1", b"x"])], [b"1", b"2"]])]),
        (2, lambda: [b"LMPOP", *e.counted(b"list"), end(), *m.options([b"COUNT", e.mostly([b"1", b"2", b"9"], [b"0", b"x"])])]),
        (2, lambda: [b"LRANGE", key(), e.place(), e.place()]),
        (1, lambda: [b"LLEN", key()]),
        (1, lambda: [b"LINDEX", key(), e.place()]),
        (2, lambda: [b"LSET", key(), e.place(), text()]),
        (2, lambda: [b"LINSERT", key(), pick([b"BEFORE", b"AFTER", b"after", b"x"]), text(), text()]),
        (2, lambda: [b"LREM", key(), e.mostly([b"0", b"1", b"2", b"-1", b"-2"], [b"x", b""]), text()]),
        (2, lambda: [b"LTRIM", key(), e.place(), e.place()]),
        (2, lambda: [b"LMOVE", key(), key(), end(), end()]),
        (1, lambda: [b"RPOPLPUSH", key(), key()]),
        (2, lambda: [b"LPOS", key(), text(), *search()]),
    ]  # fmt: skip


def sort_shapes(e):
    """Makes SORT commands. Where Redis promises no order of the reply, there are neither LIMIT nor STORE, which would show it."""
    rng, pick, m = e.rng, e.rng.choice, e.m
    key = lambda: e.key(pick([b"list", b"list", b"set", b"zset"]))  # noqa: E731
    numbers = lambda: [pick([b"1", b"2", b"-3", b"10", b"01", b" 1", b"3.5", b"1e3", b"0x10", b"inf", b""]) for _ in range(rng.randint(1, 5))]  # noqa: E731
    weights = [b"key:*", b"*", b"hash:*->a", b"*->a", b"hash*->1", b"*->", b"set:*", b"x*", b"key:*->a"]
    gets = [*weights, b"#", b"x", b"#x", b"*\x00->a", b"#\x00"]
    order = lambda: m.options([b"ASC"], [b"DESC"], [b"desc"])  # noqa: E731
    get = lambda: [word for _ in range(pick([0, 0, 1, 2])) for word in (b"GET", pick(gets))]  # noqa: E731
    limit = lambda: e.limit() if rng.random() < 0.4 else []  # noqa: E731
    store = lambda: [b"STORE", key()] if rng.random() < 0.4 else []  # noqa: E731
    shuffled = lambda *parts: [word for part in rng.sample(parts, len(parts)) for word in part]  # noqa: E731
    name = lambda: pick([b"SORT", b"SORT", b"sort", b"SORT_RO"])  # noqa: E731
    own = lambda kind: pick([each for each in COLLECTION_KEYS if each.startswith(kind)])  # noqa: E731
    return [
        (2, lambda: [b"RPUSH", e.key(b"list"), *numbers()]),
        (1, lambda: [b"SADD", e.key(b"set"), *numbers()]),
        (3, lambda: [name(), key(), *shuffled(order(), limit(), get(), store(), [b"BY", pick(weights)] if rng.random() < 0.6 else [])]),
        (3, lambda: [name(), key(), *shuffled(order(), limit(), get(), store(), [b"ALPHA"])]),
        (2, lambda: [name(), key(), *shuffled(order(), get(), [b"ALPHA"], [b"BY", pick(weights)])]),
        (1, lambda: [name(), own(b"set"), *shuffled(order(), get(), [b"BY", b"nosort"])]),
        (1, lambda: [b"SORT", own(b"set"), *shuffled(order(), get(), limit(), [b"BY", pick([b"nosort", b"", b"#"])], [b"STORE", key()])]),
        (2, lambda: [name(), own(pick([b"list", b"zset"])), *shuffled(order(), get(), limit(), store(), [b"BY", pick([b"nosort", b"#", b"x\x00*"])])]),
        (1, lambda: [name(), key(), *pick([[b"BY"], [b"GET"], [b"STORE"], [b"LIMIT", b"1"], [b"LIMIT", b"1", b"x"], [b"x"], [b"STORE", key(), b"STORE", key()],
                                           [b"BY", b"nosort", b"BY", b"key:*"], [b"STORE", b"BY", b"ALPHA"]])]),
    ]  # fmt: skip


def collection_shapes(m):
    """(weight, maker) of each kind of command."""
    e = Elements(m)
    any_key = lambda: m.rng.choice(COLLECTION_KEYS)  # noqa: E731
    many = lambda: [b"e%d" % i for i in range(m.rng.choice([1, 20, 130, 600]))]  # noqa: E731
    scored = lambda: [word for element in many() for word in (m.rng.choice([b"0", b"1", b"2.5", b"-3"]), element)]  # noqa: E731
    generic = [
        (2, lambda: [m.rng.choice([b"TYPE", b"DEL", b"EXISTS", b"UNLINK", b"PERSIST"]), any_key()]),
        (2, lambda: [m.rng.choice([b"RENAME", b"RENAMENX"]), any_key(), any_key()]),
        (1, lambda: [b"OBJECT", m.rng.choice([b"ENCODING", b"REFCOUNT", b"IDLETIME", b"FREQ"]), any_key()]),
        (1, lambda: [b"MEMORY", b"USAGE", any_key()]),
        (1, lambda: [b"SCAN", b"0", b"COUNT", b"1000", b"TYPE", m.rng.choice([b"hash", b"set", b"zset", b"list", b"LIST", b"stream", b"x"])]),
        (1, lambda: m.rng.choice([[b"SADD", e.key(b"set"), *many()], [b"RPUSH", e.key(b"list"), *many()], [b"HSET", e.key(b"hash"), *many(), *many()],
                                  [b"ZADD", e.key(b"zset"), *scored()]])),
        (2, lambda: [b"COPY", any_key(), any_key(), *m.options([b"REPLACE"])]),
        (1, lambda: [b"DUMP", any_key()]),
        (3, lambda: [b"RESTORE", any_key(), m.rng.choice([b"0", b"0", b"5000000"]), e.payload(), *m.options([b"REPLACE"], [b"REPLACE"], [b"ABSTTL"])]),
        (1, lambda: [b"SET", any_key(), b"text", *m.options([b"NX"], [b"GET"], [b"KEEPTTL"])]),
        (1, lambda: [m.rng.choice([b"GET", b"APPEND", b"INCR", b"STRLEN", b"GETDEL"]), any_key()]),
    ]  # fmt: skip
    return [*hash_shapes(e), *set_shapes(e), *zset_shapes(e), *list_shapes(e), *sort_shapes(e), *generic]
