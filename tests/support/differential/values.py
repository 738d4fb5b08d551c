"""Makes random commands on keys and values, valid and invalid."""

import struct

from support.differential.payloads import lzf_compressed, rdb_length, with_footer

EDGES = [b"0", b"1", b"-1", b"2147483647", b"2147483648", b"-2147483648", b"-2147483649", b"4294967296", b"-4294967296",
         b"9223372036854775807", b"-9223372036854775808", b"9223372036854775808", b"-9223372036854775809", b"99999999999999999999",
         b"18446744073709551616", b"", b"1e400", b"-1e400", b"nan", b"inf", b"-inf", b"01", b"+1", b" 1", b"1 ", b"0x10", b"1.5", b"-0",
         b"00", b"abc", b"1e3", b"3.0e-2", b"1\x00", b"-"]  # fmt: skip
# These are times until the expiry in ms, none of which could pass on one server only.
LATER = [edge for edge in EDGES if edge != b"1"] + [b"5000000", b"7000000", b"9000000"]
SECONDS = [edge for edge in EDGES if edge != b"1"] + [b"5000", b"7000", b"9000"]
MOMENTS = [*EDGES, b"99999999999", b"88888888888", b"99999999999000", b"88888888888000"]
SMALL = [b"0", b"1", b"2", b"3", b"7", b"8", b"9", b"15", b"31", b"64", b"100", b"-1", b"-2", b"-8", b"-100"]
FLOATS = [b"0.1", b"-0.1", b"3.14159", b"1e10", b"-1e-10", b"1e17", b"5.0e3", b"0.00000000000000001", b"1e300", b"1e4000", b"-0.0",
          b"0x1p3", b"infinity", b"1.7976931348623157e308", b"123456789012345678901234567890", b"  1", b"1e5000", b"1e-5000", b".5", b"5."]  # fmt: skip
KEYS = [b"a", b"b", b"c", b"key:1", b"key:2", b"", b"nul\x00key", b"h"]
COLLECTION_KEYS = [b"hash", b"hash:2", b"set", b"set:2", b"set:3", b"zset", b"zset:2", b"list", b"list:2"]
ELEMENTS = [b"", b"a", b"element", b"\x00\x01", b"x" * 33]
VALUES = [b"", b"v", b"10", b"-7", b"3.25", b"hello world", b"\x00\xff\r\n", b"9223372036854775807", b"-9223372036854775808", b"0", b"9999",
          b"10000", b"00", b"ohmytext", b"mynewtext", b"a" * 44, b"a" * 45, b"ab" * 200, b"\xff" * 9, b"\x00" * 20, b"\xff\x00" * 40, b"12345678901",
          b"123456789012", b"-128", b"127", b"128", b"-32769", b"2147483648", b"HYLL", b"HYLL\x01\x00\x00\x00" + b"\x00" * 8 + b"\x7f\xff",
          b"HYLL\x01\x00\x00\x00" + b"\x00" * 7 + b"\x80\x7f\xfe", b"HYLL\x00\x00\x00\x00" + b"\x00" * 8, b"HYLL\x02\x00\x00\x00" + b"\x00" * 8,
          b"HYLL\x00\x00\x00\x00" + b"\x00" * 7 + b"\x80" + b"\x41\x10\x04" * 4096]  # fmt: skip


class Maker:
    def __init__(self, rng):
        self.rng = rng

    def key(self):
        return self.rng.choice(KEYS if self.rng.random() < 0.95 else COLLECTION_KEYS)

    def value(self):
        roll = self.rng.random()
        if roll < 0.8:
            return self.rng.choice(VALUES)
        return self.rng.choice(EDGES + FLOATS) if roll < 0.9 else self.rng.randbytes(self.rng.randint(1, 60))

    def number(self):
        return self.rng.choice(SMALL if self.rng.random() < 0.7 else EDGES)

    def some(self, make, low, high):
        return [make() for _ in range(self.rng.randint(low, high))]

    def options(self, *choices):
        """Returns a random selection of the choices in any order, rarely one choice twice. Each choice is a list of words."""
        picked = [choice for choice in choices if self.rng.random() < 0.35]
        if picked and self.rng.random() < 0.1:
            picked.append(self.rng.choice(picked))
        self.rng.shuffle(picked)
        return [word for choice in picked for word in choice]

    def expiry(self):
        word = self.rng.choice([b"EX", b"PX", b"EXAT", b"PXAT"])
        return [word, self.rng.choice({b"EX": SECONDS, b"PX": LATER}.get(word, MOMENTS))]

    def expire(self, name, times, unit):
        """Makes an expiry command. GT and LT get a time of their own, since the clocks would decide which of two equal times is
        later."""
        conditions = [[], [b"NX"], [b"XX"], [b"GT"], [b"LT"], [b"NX", b"XX"], [b"GT", b"LT"], [b"XX", b"GT"], [b"nx", b"nx"], [b"zz"]]
        condition = self.rng.choice(conditions)
        time = self.rng.choice(times)
        if b"GT" in condition or b"LT" in condition:
            time = b"%d" % (self.rng.randrange(2_000_000, 900_000_000) // unit)
        return [name, self.key(), time, *condition]

    def payload(self):
        value, rng = self.value(), self.rng
        form = rng.randrange(8)
        if form == 0:
            body = b"\x00\xc0" + rng.randbytes(1)
        elif form == 1:
            body = b"\x00\xc1" + rng.randbytes(2)
        elif form == 2:
            body = b"\x00\xc2" + rng.randbytes(4)
        elif form in (3, 4) and value:
            packed = lzf_compressed(value)
            body = b"\x00\xc3" + rdb_length(len(packed)) + rdb_length(len(value)) + packed
        elif form == 5:
            body = b"\x00\x80" + struct.pack(">I", len(value)) + value
        else:
            body = b"\x00" + rdb_length(len(value)) + value
        roll = rng.random()
        if roll < 0.05:
            return rng.choice([b"", b"short", b"\x00" * 9, body])
        whole = with_footer(body, rng.choice([0, 1, 6, 9, 10, 10, 10, 10, 10, 1000]))
        if roll < 0.1:
            at = rng.randrange(len(whole))
            whole = whole[:at] + bytes([whole[at] ^ 1 << rng.randrange(8)]) + whole[at + 1 :]
        elif roll < 0.13:
            # The payloads are truncated, with a correct checksum. Redis reads on into the footer, so the lengths exceed the
            # footer, too: this server never reads a checksum as a value.
            whole = with_footer(rng.choice([b"\x00", b"\x00\xc3\x05", b"\x00\xc4\x05", b"\x00\x82\x00", b"\x00\x80\x00\x00\x10\x00abc"]))
        return whole

    def field(self):
        rng = self.rng
        kind = rng.choice([b"u1", b"u2", b"u7", b"u8", b"u16", b"u32", b"u63", b"i1", b"i2", b"i8", b"i13", b"i32", b"i63", b"i64"])
        if rng.random() < 0.04:
            kind = rng.choice([b"u64", b"i65", b"u0", b"i0", b"8", b"", b"i", b"U8", b"u-1", b"u08", b"i99999999999999999999"])
        offset = rng.choice([b"0", b"1", b"3", b"7", b"8", b"60", b"100", b"#0", b"#1", b"#2", b"#5"])
        if rng.random() < 0.06:
            offset = rng.choice([b"#", b"#-1", b"-1", b"", b"##1", b"# 1", b"#9223372036854775807", b"#4611686018427387904", *EDGES])
        return [kind, offset]

    def field_op(self):
        rng = self.rng
        number = rng.choice([*SMALL, b"127", b"128", b"-128", b"-129", b"255", b"256", b"32767", b"-40000", b"9223372036854775806", *EDGES])
        return rng.choice(
            [
                lambda: [b"GET", *self.field()],
                lambda: [b"SET", *self.field(), number],
                lambda: [b"INCRBY", *self.field(), number],
                lambda: [b"OVERFLOW", rng.choice([b"WRAP", b"SAT", b"FAIL", b"SAT", b"FAIL", b"x"])],
            ]
        )()

    def elements(self):
        """Returns few or many elements, so that sketches have both encodings and change between them."""
        rng = self.rng
        roll = rng.random()
        if roll < 0.5:
            return self.some(lambda: rng.choice(ELEMENTS), 0, 3)
        n = rng.randint(1, 40) if roll < 0.9 else rng.randint(200, 900)
        base = rng.randrange(20_000)
        return [b"e%d" % (base + i) for i in range(n)]


def shapes(m):
    """Returns (weight, maker) of each kind of command."""
    rng = m.rng
    pick = rng.choice
    unit = lambda: pick([[], [b"BYTE"], [b"BIT"], [b"bit"], [b"x"]])  # noqa: E731
    database = lambda: pick([b"0", b"1", b"1", b"2", b"15", b"16", *EDGES])  # noqa: E731
    return [
        (6, lambda: [b"SET", m.key(), m.value()]),
        (3, lambda: [b"SET", m.key(), m.value(), *m.options([b"NX"], [b"XX"], [b"GET"], [b"KEEPTTL"], m.expiry(), m.expiry(), [b"PERSIST"])]),
        (2, lambda: [b"GET", m.key()]),
        (2, lambda: [b"GETEX", m.key(), *m.options([b"PERSIST"], m.expiry(), m.expiry(), [b"KEEPTTL"])]),
        (2, lambda: [pick([b"GETDEL", b"STRLEN", b"TYPE", b"INCR", b"DECR", b"PERSIST"]), m.key()]),
        (2, lambda: [pick([b"GETSET", b"SETNX", b"APPEND"]), m.key(), m.value()]),
        (1, lambda: [b"SETEX", m.key(), pick(SECONDS), m.value()]),
        (1, lambda: [b"PSETEX", m.key(), pick(LATER), m.value()]),
        (2, lambda: [pick([b"MSET", b"MSETNX"]), *[w for _ in range(rng.randint(1, 3)) for w in (m.key(), m.value())]]),
        (1, lambda: [pick([b"MGET", b"DEL", b"UNLINK", b"EXISTS", b"TOUCH"]), *m.some(m.key, 1, 4)]),
        (2, lambda: [pick([b"INCRBY", b"DECRBY"]), m.key(), m.number()]),
        (2, lambda: [b"INCRBYFLOAT", m.key(), pick(FLOATS) if rng.random() < 0.7 else m.number()]),
        (2, lambda: [pick([b"GETRANGE", b"SUBSTR"]), m.key(), m.number(), m.number()]),
        (2, lambda: [b"SETRANGE", m.key(), m.number(), m.value()]),
        (2, lambda: [b"LCS", m.key(), m.key(), *m.options([b"IDX"], [b"LEN"], [b"WITHMATCHLEN"], [b"MINMATCHLEN", m.number()])]),
        (3, lambda: [b"SETBIT", m.key(), m.number(), pick([b"0", b"1", b"1", m.number()])]),
        (2, lambda: [b"GETBIT", m.key(), m.number()]),
        (3, lambda: [b"BITCOUNT", m.key(), *pick([[], [m.number(), m.number(), *unit()], [m.number()]])]),
        (4, lambda: [b"BITPOS", m.key(), pick([b"0", b"1", b"0", b"1", m.number()]), *pick([[], [m.number()], [m.number(), m.number(), *unit()]])]),
        (3, lambda: [b"BITOP", pick([b"AND", b"OR", b"XOR", b"not", b"NAND"]), m.key(), *m.some(m.key, 1, 4)]),
        (4, lambda: [b"BITFIELD", m.key(), *[w for _ in range(rng.randint(0, 5)) for w in m.field_op()]]),
        (1, lambda: [b"BITFIELD_RO", m.key(), *[w for _ in range(rng.randint(0, 3)) for w in ([b"GET", *m.field()] if rng.random() < 0.9 else m.field_op())]]),
        (4, lambda: [b"PFADD", pick([b"h", m.key()]), *m.elements()]),
        (2, lambda: [b"PFCOUNT", *m.some(lambda: pick([b"h", m.key()]), 1, 3)]),
        (2, lambda: [b"PFMERGE", *m.some(lambda: pick([b"h", m.key()]), 1, 3)]),
        (2, lambda: [pick([b"RENAME", b"RENAMENX"]), m.key(), m.key()]),
        (2, lambda: [b"COPY", m.key(), m.key(), *m.options([b"REPLACE"], [b"DB", database()])]),
        (1, lambda: [b"MOVE", m.key(), database()]),
        (1, lambda: [b"SELECT", pick([b"0", b"0", b"1", b"2", *EDGES])]),
        (2, lambda: m.expire(pick([b"EXPIRE", b"expire"]), SECONDS, 1000)),
        (2, lambda: m.expire(b"PEXPIRE", LATER, 1)),
        (2, lambda: m.expire(pick([b"EXPIREAT", b"PEXPIREAT"]), MOMENTS, 1)),
        (2, lambda: [pick([b"TTL", b"PTTL", b"EXPIRETIME", b"PEXPIRETIME"]), m.key()]),
        (1, lambda: [b"KEYS", pick([b"*", b"key:*", b"k?y:[12]", b"", b"a", b"[a-c]", b"nul*", b"\\a", b"[^a]"])]),
        (1, lambda: [pick([b"RANDOMKEY", b"DBSIZE"])]),
        (1, lambda: [b"OBJECT", pick([b"ENCODING", b"REFCOUNT", b"IDLETIME", b"FREQ", b"HELP", b"NOSUCH"]), m.key()]),
        (1, lambda: [b"DUMP", m.key()]),
        (4, lambda: [b"RESTORE", m.key(), pick([b"0", b"0", b"0", *LATER]), m.payload(),
                     *m.options([b"REPLACE"], [b"REPLACE"], [b"ABSTTL"], [b"IDLETIME", m.number()], [b"FREQ", m.number()])]),  # fmt: skip
        (1, lambda: [b"WAIT", pick([b"0", b"-1", b"abc", b""]), pick([b"0", b"1", *EDGES])]),
    ]


def is_number(word):
    try:
        return -(1 << 63) <= int(word) < 1 << 63
    except ValueError:
        return False


def allowed(command):
    """Returns false for commands that would take minutes or gigabytes, or affect the whole server."""
    name = command[0].upper()
    if name in (b"SETBIT", b"BITFIELD"):
        return not any(b"2147483647" in word or b"2147483648" in word for word in command[2:])
    if name == b"WAIT":
        return not (len(command) == 3 and is_number(command[1]) and int(command[1]) > 0)
    if name == b"RESTORE" and len(command) > 4 and b"ABSTTL" not in command:
        return command[2] != b"1"
    return True


def broken(rng, command):
    """Breaks a command: removes an argument, adds one, or replaces one by an argument of another command."""
    at = rng.randrange(1, len(command) + 1)
    roll = rng.random()
    if roll < 0.3 and at < len(command):
        return command[:at] + command[at + 1 :]
    if roll < 0.6:
        return command[:at] + [rng.choice(EDGES + KEYS)] + command[at:]
    if at < len(command) and command[0].upper() not in (b"SETEX", b"PSETEX", b"EXPIRE", b"PEXPIRE", b"GETEX", b"SET", b"RESTORE"):
        return command[:at] + [rng.choice(EDGES)] + command[at + 1 :]
    return [command[0].swapcase(), *command[1:]]
