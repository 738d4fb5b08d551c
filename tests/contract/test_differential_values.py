"""Strings, bitmaps, HyperLogLogs and keys of any type: random sequences to redis-server and to this server, compared byte by byte.

A round is one seed: a sequence over a few keys, in RESP2 or RESP3, sent to both servers in one go. Commands are made from the shapes
below (every option, numbers at every edge), and some of them are then broken: an argument too few, one too many, one from elsewhere.
At the end every key is read. The first reply that differs, and is not one of REVIEWED, fails the test, which prints the seed and the
sequence, without the commands that it does not need.

    EBBTIDE_DIFFERENTIAL_ROUNDS=100000 pytest tests/contract/test_differential_values.py     # 500 otherwise
    EBBTIDE_DIFFERENTIAL_SEED=4711 EBBTIDE_DIFFERENTIAL_ROUNDS=1 ...                         # that one alone
"""

import os
import random
import socket
import struct

import pytest
from test_differential import our_port, quoted, redis_port  # noqa: F401 (fixtures)

ROUNDS = int(os.environ.get("EBBTIDE_DIFFERENTIAL_ROUNDS", "500"))
FIRST_SEED = int(os.environ.get("EBBTIDE_DIFFERENTIAL_SEED", "0"))
COMMANDS_PER_ROUND = 60
ROUNDS_PER_TEST = 500

# --- talking


class RawLink:
    """A connection that sends commands in one go and returns each reply as the bytes that came."""

    def __init__(self, port, protocol):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self.data = b""
        self.at = 0
        if protocol == 3:
            self.call([[b"HELLO", b"3"]])

    def close(self):
        self.socket.close()

    def call(self, commands):
        self.socket.sendall(b"".join(encoded(command) for command in commands))
        replies = []
        for command in commands:
            try:
                replies.append(self.reply())
            except OSError as error:
                raise AssertionError(f"no reply to {shown(command)}: {error}") from None
        self.data, self.at = self.data[self.at :], 0
        return replies

    def more(self):
        data = self.socket.recv(1 << 18)
        if not data:
            raise ConnectionError("the server closed the connection")
        self.data += data

    def reply(self):
        start = self.at
        todo = 1
        while todo:
            todo -= 1
            while (end := self.data.find(b"\r\n", self.at)) < 0:
                self.more()
            kind, number = self.data[self.at : self.at + 1], self.data[self.at + 1 : end]
            self.at = end + 2
            if kind in b"$=" and number != b"-1":
                self.at += int(number) + 2
                while len(self.data) < self.at:
                    self.more()
            elif kind in b"*~>" and number != b"-1":
                todo += int(number)
            elif kind == b"%":
                todo += 2 * int(number)
        return self.data[start : self.at]


def encoded(command):
    return b"*%d\r\n" % len(command) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in command)


def shown(command):
    return " ".join(word.decode() if word.isalnum() else quoted(word) for word in command)


def elements(reply):
    """The elements of a flat array or set of bulk strings."""
    out = []
    at = reply.index(b"\r\n") + 2
    while at < len(reply):
        end = reply.index(b"\r\n", at)
        size = int(reply[at + 1 : end])
        out.append(reply[end + 2 : end + 2 + size])
        at = end + 4 + size
    return out


# --- values as DUMP writes them

CRC_TABLE = []
for byte in range(256):
    for _ in range(8):
        byte = byte >> 1 ^ (0x95AC9329AC4BC9B5 if byte & 1 else 0)  # noqa: PLW2901
    CRC_TABLE.append(byte)


def crc64(data):
    crc = 0
    for byte in data:
        crc = CRC_TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc


def with_footer(body, version=10):
    body += struct.pack("<H", version)
    return body + struct.pack("<Q", crc64(body))


def rdb_length(n):
    if n < 1 << 6:
        return bytes([n])
    return struct.pack(">H", 0x4000 | n) if n < 1 << 14 else b"\x80" + struct.pack(">I", n)


def lzf_compressed(value):
    """Not small, but with every kind of token: literal runs, short and long repetitions."""
    out, at, literal = b"", 0, b""

    def flush(literal):
        return b"".join(bytes([len(part) - 1]) + part for part in (literal[i : i + 32] for i in range(0, len(literal), 32)))

    while at < len(value):
        best, distance = 0, 0
        for back in range(1, min(at, 40) + 1):
            n = 0
            while at + n < len(value) and n < 264 and value[at - back + n] == value[at + n]:
                n += 1
            if n > best:
                best, distance = n, back
        if best < 3:
            literal += value[at : at + 1]
            at += 1
            continue
        out += flush(literal)
        literal = b""
        n, offset = best - 2, distance - 1
        head = [n << 5 | offset >> 8] if n < 7 else [7 << 5 | offset >> 8, n - 7]
        out += bytes([*head, offset & 0xFF])
        at += best
    return out + flush(literal)


def lzf_decompressed(data):
    out, at = bytearray(), 0
    while at < len(data):
        control = data[at]
        at += 1
        if control < 32:
            out += data[at : at + control + 1]
            at += control + 1
            continue
        n = control >> 5
        if n == 7:
            n += data[at]
            at += 1
        start = len(out) - ((control & 31) << 8 | data[at]) - 1
        at += 1
        for i in range(n + 2):
            out.append(out[start + i])
    return bytes(out)


def take_length(data):
    first = data[0]
    if first < 0x40:
        return first, data[1:]
    if first < 0x80:
        return (first & 0x3F) << 8 | data[1], data[2:]
    return struct.unpack(">I", data[1:5])[0], data[5:]


def undumped(payload):
    """The string in a payload that is known to be sound."""
    body = payload[1:-10]
    for code, form in ((0xC0, "<b"), (0xC1, "<h"), (0xC2, "<i")):
        if body[0] == code:
            return b"%d" % struct.unpack(form, body[1:])[0]
    if body[0] == 0xC3:
        _, rest = take_length(body[1:])
        length, rest = take_length(rest)
        value = lzf_decompressed(rest)
        assert len(value) == length
        return value
    length, rest = take_length(body)
    assert len(rest) == length
    return rest


# --- making commands

EDGES = [b"0", b"1", b"-1", b"2147483647", b"2147483648", b"-2147483648", b"-2147483649", b"4294967296", b"-4294967296",
         b"9223372036854775807", b"-9223372036854775808", b"9223372036854775808", b"-9223372036854775809", b"99999999999999999999",
         b"18446744073709551616", b"", b"1e400", b"-1e400", b"nan", b"inf", b"-inf", b"01", b"+1", b" 1", b"1 ", b"0x10", b"1.5", b"-0",
         b"00", b"abc", b"1e3", b"3.0e-2", b"1\x00", b"-"]  # fmt: skip
# Expiries from now in ms: none that passes on one server before the other.
LATER = [edge for edge in EDGES if edge != b"1"] + [b"5000000", b"7000000", b"9000000"]
SECONDS = [edge for edge in EDGES if edge != b"1"] + [b"5000", b"7000", b"9000"]
MOMENTS = [*EDGES, b"99999999999", b"88888888888", b"99999999999000", b"88888888888000"]
SMALL = [b"0", b"1", b"2", b"3", b"7", b"8", b"9", b"15", b"31", b"64", b"100", b"-1", b"-2", b"-8", b"-100"]
FLOATS = [b"0.1", b"-0.1", b"3.14159", b"1e10", b"-1e-10", b"1e17", b"5.0e3", b"0.00000000000000001", b"1e300", b"1e4000", b"-0.0",
          b"0x1p3", b"infinity", b"1.7976931348623157e308", b"123456789012345678901234567890", b"  1", b"1e5000", b"1e-5000", b".5", b"5."]  # fmt: skip
KEYS = [b"a", b"b", b"c", b"key:1", b"key:2", b"", b"nul\x00key", b"h"]
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
        return self.rng.choice(KEYS)

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
        """Each choice, a list of words, is there or not; in any order, seldom twice."""
        picked = [choice for choice in choices if self.rng.random() < 0.35]
        if picked and self.rng.random() < 0.1:
            picked.append(self.rng.choice(picked))
        self.rng.shuffle(picked)
        return [word for choice in picked for word in choice]

    def expiry(self):
        word = self.rng.choice([b"EX", b"PX", b"EXAT", b"PXAT"])
        return [word, self.rng.choice({b"EX": SECONDS, b"PX": LATER}.get(word, MOMENTS))]

    def expire(self, name, times, unit):
        """GT and LT get a time that no other command has: of two that are equal, the clocks decide which is later."""
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
            # Cut off, with a checksum that is right. Redis reads on into the footer: what is asked for is more than that has, as
            # here nobody takes a checksum for a value.
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
        """Many or few, so that sketches are met in both forms, and on their way from one to the other."""
        rng = self.rng
        roll = rng.random()
        if roll < 0.5:
            return self.some(lambda: rng.choice(ELEMENTS), 0, 3)
        n = rng.randint(1, 40) if roll < 0.9 else rng.randint(200, 900)
        base = rng.randrange(20_000)
        return [b"e%d" % (base + i) for i in range(n)]


def shapes(m):
    """(how often, what makes one)"""
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
    """Not what would take minutes, gigabytes or the whole server."""
    name = command[0].upper()
    if name in (b"SETBIT", b"BITFIELD"):
        return not any(b"2147483647" in word or b"2147483648" in word for word in command[2:])
    if name == b"WAIT":
        return not (len(command) == 3 and is_number(command[1]) and int(command[1]) > 0)
    if name == b"RESTORE" and len(command) > 4 and b"ABSTTL" not in command:
        return command[2] != b"1"
    return True


def broken(rng, command):
    """One argument too few, too many, or from elsewhere."""
    at = rng.randrange(1, len(command) + 1)
    roll = rng.random()
    if roll < 0.3 and at < len(command):
        return command[:at] + command[at + 1 :]
    if roll < 0.6:
        return command[:at] + [rng.choice(EDGES + KEYS)] + command[at:]
    if at < len(command) and command[0].upper() not in (b"SETEX", b"PSETEX", b"EXPIRE", b"PEXPIRE", b"GETEX", b"SET", b"RESTORE"):
        return command[:at] + [rng.choice(EDGES)] + command[at + 1 :]
    return [command[0].swapcase(), *command[1:]]


def make_sequence(seed):
    rng = random.Random(seed)
    weighted = shapes(Maker(rng))
    weights = [weight for weight, _ in weighted]
    commands = []
    while len(commands) < COMMANDS_PER_ROUND:
        command = rng.choices(weighted, weights)[0][1]()
        if rng.random() < 0.06:
            command = broken(rng, command)
        if not allowed(command):
            continue
        if command[0] in (b"DBSIZE", b"RANDOMKEY"):
            # Redis counts, and may name, keys that have expired until it meets them.
            commands.append([b"EXISTS", *KEYS])
        if command[0] == b"OBJECT" and len(command) > 2:
            # How a value is kept depends in Redis on how it came about; here only on the value.
            commands.append([b"SET", command[2], rng.choice(VALUES)])
        commands.append(command)
    return commands


LAST_LOOK = [word for key in KEYS for word in ([b"GET", key], [b"PTTL", key])] + [[b"EXISTS", *KEYS], [b"DBSIZE"]]

# --- comparing


def number(reply):
    return int(reply[1:-2]) if reply[:1] == b":" else None


def times_agree(command, mine, theirs):
    """What is left of a time, and when it ends, may differ by what the servers' clocks did between the two."""
    unit = {b"TTL": 1, b"EXPIRETIME": 1, b"PTTL": 1000, b"PEXPIRETIME": 1000}[command[0].upper()]
    a, b = number(mine), number(theirs)
    return a is not None and b is not None and min(a, b) >= 0 and abs(a - b) <= 2 * unit


def dumps_agree(command, mine, theirs):
    if mine[:1] != b"$" or theirs[:1] != b"$" or b"$-1" in (mine[:3], theirs[:3]):
        return False
    ours, redis = (elements(b"*1\r\n" + reply)[0] for reply in (mine, theirs))
    sound = struct.unpack("<Q", ours[-8:])[0] == crc64(ours[:-8])
    return sound and struct.unpack("<H", ours[-10:-8])[0] == 11 and undumped(ours) == undumped(redis)


def is_subcommand(name):
    return lambda command: len(command) > 1 and command[0].upper() == b"OBJECT" and command[1].upper() == name


def is_named(*names):
    return lambda command: command[0].upper() in names


# Where the replies differ and should: (which commands, which replies, why).
REVIEWED = [
    (is_named(b"TTL", b"PTTL", b"EXPIRETIME", b"PEXPIRETIME"), times_agree, "the two servers run the command at different moments"),
    (is_named(b"KEYS"), lambda _, a, b: sorted(elements(a)) == sorted(elements(b)), "Redis has no order of keys, this server has"),
    (is_named(b"RANDOMKEY"), lambda _, a, b: a[:1] == b[:1] == b"$", "which key is left to chance"),
    (is_named(b"DUMP"), dumps_agree, "Redis 7.0 writes version 10 and compresses; 7.2 has version 11, which is written here, without LZF"),
    (is_subcommand(b"REFCOUNT"), lambda _, a, b: a == b":1\r\n" and number(b) is not None,
     "Redis shares small integers and counts how often; here every value is its own"),
    (is_subcommand(b"IDLETIME"), lambda _, a, b: a == b":0\r\n" and number(b) is not None, "nobody notes here when a key was read"),
    (is_subcommand(b"HELP"), lambda _, a, b: a[:1] == b[:1] == b"*", "the texts are this server's own"),
    (is_named(b"WAIT"), lambda _, a, b: a == b"-ERR timeout is out of range\r\n" and b == b":0\r\n",
     "7.2 sees that the timeout overflows, 7.0 does not"),
    (is_named(b"EXPIRETIME"), lambda _, a, b: (number(b) or 0) < -2 and number(a) == 9223372036854776,
     "Redis adds 500 ms before it divides, which overflows close to the end of time"),
]  # fmt: skip


def agree(command, mine, theirs):
    return mine == theirs or any(concerns(command) and fine(command, mine, theirs) for concerns, fine, _ in REVIEWED)


def first_difference(links, commands):
    """Index, our reply and Redis's of the first command whose replies differ; None if none does."""
    whole = [[b"SELECT", b"0"], [b"FLUSHALL"], *commands, [b"SELECT", b"0"], *LAST_LOOK]
    mine, theirs = (link.call(whole) for link in links)
    for i, command in enumerate(whole):
        if not agree(command, mine[i], theirs[i]):
            return command, mine[i], theirs[i]
        if command[0].upper() == b"PFADD" and mine[i].startswith(b"-INVALIDOBJ"):
            # Redis has added the elements that it met before the damage; here a command that fails changes nothing.
            return None
    return None


def shrunk(links, commands):
    """The same failure, or another one, with fewer commands."""
    size = len(commands)
    while size > 0:
        at = 0
        while at < len(commands):
            shorter = commands[:at] + commands[at + size :]
            if first_difference(links, shorter) is not None:
                commands = shorter
            else:
                at += size
        size //= 2
    return commands


def report(seed, protocol, links, commands):
    commands = shrunk(links, commands)
    difference = first_difference(links, commands)
    if difference is None:
        return f"seed {seed}, RESP{protocol}: differed once, and not when repeated"
    command, mine, theirs = difference
    lines = [f"seed {seed}, RESP{protocol}: after", *(f"  {shown(each)}" for each in commands), "the replies to", f"  {shown(command)}"]
    return "\n".join([*lines, f"are here  {quoted(mine)}", f"in Redis  {quoted(theirs)}"])


@pytest.fixture(scope="module")
def links(redis_port, our_port):  # noqa: F811
    both = {protocol: (RawLink(our_port, protocol), RawLink(redis_port, protocol)) for protocol in (2, 3)}
    yield both
    for pair in both.values():
        for link in pair:
            link.close()


@pytest.mark.parametrize("first", range(FIRST_SEED, FIRST_SEED + ROUNDS, ROUNDS_PER_TEST))
def test_random_sequences(links, first):
    for seed in range(first, min(first + ROUNDS_PER_TEST, FIRST_SEED + ROUNDS)):
        protocol = 2 + seed % 2
        commands = make_sequence(seed)
        if first_difference(links[protocol], commands) is not None:
            pytest.fail(report(seed, protocol, links[protocol], commands), pytrace=False)


def test_dumps_go_both_ways(links):
    ours, redis = links[2]
    for value in [*VALUES, *EDGES, b"abc" * 10_000]:
        for source, target in ((ours, redis), (redis, ours)):
            _, reply = source.call([[b"SET", b"from", value], [b"DUMP", b"from"]])
            payload = elements(b"*1\r\n" + reply)[0]
            if source is ours:
                payload = with_footer(payload[:-10])  # Redis 7.0 refuses the version of 7.2
            replies = target.call([[b"RESTORE", b"to", b"0", payload, b"REPLACE"], [b"GET", b"to"]])
            assert replies == [b"+OK\r\n", b"$%d\r\n%s\r\n" % (len(value), value)]


def test_sketches_are_the_same_bytes(links):
    """From empty over sparse to dense, element by element where the form changes, with and without a count that is kept."""
    ours, redis = links[2]
    rng = random.Random(7)
    for pair in (ours, redis):
        pair.call([[b"DEL", b"h", b"other"]])
    for step in range(60):
        more = [b"PFADD", b"h", *[b"%d" % rng.randrange(1 << 40) for _ in range(1 + step * step // 3)]]
        commands = [more, [b"GET", b"h"]]
        if step % 3 == 0:
            commands += [[b"PFCOUNT", b"h"], [b"GET", b"h"]]
        if step % 7 == 0:
            commands += [[b"PFMERGE", b"other", b"h"], [b"GET", b"other"], [b"PFCOUNT", b"h", b"other"]]
        assert ours.call(commands) == redis.call(commands), f"step {step}"


def parsed(reply, at=0):
    """A RESP2 reply as lists, bytes and numbers, and where it ends."""
    end = reply.index(b"\r\n", at)
    kind, rest, at = reply[at : at + 1], reply[at + 1 : end], end + 2
    if kind == b"$":
        size = int(rest)
        return (None, at) if size < 0 else (reply[at : at + size], at + size + 2)
    if kind == b"*":
        items = []
        for _ in range(int(rest)):
            item, at = parsed(reply, at)
            items.append(item)
        return items, at
    return (int(rest) if kind == b":" else rest), at


# (command, field): what is different here, or in 7.2, and why.
REVIEWED_INFO = {
    (b"wait", "flags"): "noscript in 7.0, not in 7.2",
    (b"client", "categories"): "the container's own, which nobody can run, has that of its subcommands here",
    (b"monitor", "flags"): "no_multi: refused when it is queued, where Redis lets EXEC answer with the error",
    **{
        (name, field): "a shard channel is no key here: Redis lists it as one, marked not_key, so that a cluster can route by it"
        for name in (b"ssubscribe", b"sunsubscribe", b"spublish")
        for field in ("positions", "keys")
    },
}


def test_commands_are_described_as_redis_describes_them(links):
    """Arity, flags, keys, categories and key specifications of every command that both have; without tips and notes."""

    def described(info):
        specs = [dict(zip(spec[::2], spec[1::2], strict=True)) for spec in info[8]]
        keys = [(sorted(spec[b"flags"]), spec[b"begin_search"], spec[b"find_keys"]) for spec in specs]
        return {"arity": info[1], "flags": sorted(info[2]), "positions": info[3:6], "categories": sorted(info[6]), "keys": keys}

    ours, redis = links[2]
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
