"""The same commands to redis-server and to this server: the replies must be the same.

Two sources of commands: the transcripts whose name starts with redis_ (tests/transcripts/; the unit tests hold this server to the
replies in them, this test holds them against Redis), and random sequences over a few keys with arguments that like to be at the
edge. A sequence that differs is printed with its seed, shortened to the command that differs. ./dev test puts redis-server on the
path; without it the tests fail.

    EBBTIDE_DIFF_SEEDS=1000 pytest tests/contract/test_differential.py
"""

import os
import random
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from support.server import Server, binary, free_port, wait_until
from support.sockets import encode

TRANSCRIPTS = Path(__file__).resolve().parents[1] / "transcripts"
REDIS = shutil.which("redis-server")
SEEDS = int(os.environ.get("EBBTIDE_DIFF_SEEDS", "20"))
COMMANDS_PER_SEED = 400

# Where the answers differ and should. Each entry: (text in our reply or in Redis's, why).
REVIEWED = [
    ("unknown command", "Redis has commands that are not here yet"),
    ("'command|getkeys' command", "Redis 7.0 wants a command with an argument, 7.2 any command"),
]


class Link:
    """A connection that sends a command and returns the reply as text (see show)."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self.data = b""

    def close(self):
        self.socket.close()

    def call(self, *arguments):
        self.socket.sendall(encode(*arguments))
        return self._reply()

    def _more(self):
        data = self.socket.recv(1 << 16)
        if not data:
            raise ConnectionError("the server closed the connection")
        self.data += data

    def _line(self):
        while b"\r\n" not in self.data:
            self._more()
        line, self.data = self.data.split(b"\r\n", 1)
        return line

    def _reply(self):
        line = self._line()
        kind, rest = line[:1], line[1:].decode("latin-1")
        if kind == b"+":
            return rest
        if kind == b"-":
            return f"(error) {rest}"
        if kind == b":":
            return f"(integer) {rest}"
        if kind == b",":
            return f"(double) {rest}"
        if kind == b"#":
            return "(true)" if rest == "t" else "(false)"
        if kind == b"_":
            return "(nil)"
        if kind in b"$=":
            if rest == "-1":
                return "(nil)"
            size = int(rest)
            while len(self.data) < size + 2:
                self._more()
            value, self.data = self.data[:size], self.data[size + 2 :]
            return ("(verbatim) " if kind == b"=" else "") + quoted(value)
        if kind == b"*" and rest == "-1":
            return "(nil)"
        if kind == b"*":
            return "[" + ", ".join(self._reply() for _ in range(int(rest))) + "]"
        if kind == b"~":
            return "<" + ", ".join(self._reply() for _ in range(int(rest))) + ">"
        if kind == b"%":
            return "{" + ", ".join(f"{self._reply()}: {self._reply()}" for _ in range(int(rest))) + "}"
        raise ValueError(f"not a reply: {line!r}")


def quoted(value):
    out = ""
    for byte in value:
        if byte in b'"\\':
            out += "\\" + chr(byte)
        elif byte == 10:
            out += "\\n"
        elif byte == 13:
            out += "\\r"
        elif byte < 0x20 or byte >= 0x7F:
            out += f"\\x{byte:02x}"
        else:
            out += chr(byte)
    return f'"{out}"'


def split_line(line):
    """The words of a transcript's line; the C++ runner has the same rules (tests/server/command/harness.h)."""
    words, i = [], 0
    while True:
        while i < len(line) and line[i] == " ":
            i += 1
        if i == len(line):
            return words
        word, quote = bytearray(), None
        if line[i] in "\"'":
            quote = line[i]
            i += 1
        while i < len(line) and (line[i] != quote if quote else line[i] != " "):
            if quote != '"' or line[i] != "\\" or i + 1 == len(line):
                word += line[i].encode()
                i += 1
                continue
            c = line[i + 1]
            if c == "x":
                word.append(int(line[i + 2 : i + 4], 16))
                i += 4
            else:
                word += {"n": "\n", "r": "\r", "t": "\t"}.get(c, c).encode()
                i += 2
        if quote:
            i += 1
        words.append(bytes(word))


def transcript_cases(path):
    """(line number, directive words, input lines, expected text) of each case of a transcript."""
    lines = path.read_text().split("\n")
    i = 0
    while i < len(lines):
        if not lines[i].strip() or lines[i].startswith("#"):
            i += 1
            continue
        number, directive = i + 1, lines[i].split()
        i += 1
        commands = []
        while lines[i] != "----":
            commands.append(lines[i])
            i += 1
        i += 1
        expected = []
        while i < len(lines) and lines[i]:
            expected.append(lines[i])
            i += 1
        yield number, directive, commands, expected


@pytest.fixture(scope="module")
def redis_port(tmp_path_factory):
    if REDIS is None:
        pytest.fail("there is no redis-server to compare with: ./dev test provides one")
    port = free_port()
    home = tmp_path_factory.mktemp("redis")
    process = subprocess.Popen(
        [REDIS, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(home), "--logfile", str(home / "log")]
    )

    def answers():
        assert process.poll() is None, f"redis-server ended:\n{(home / 'log').read_text()}"
        try:
            link = Link(port)
            link.close()
            return True
        except OSError:
            return False

    try:
        wait_until(answers, 30, "redis-server answers")
        yield port
    finally:
        process.terminate()
        process.wait()


@pytest.fixture(scope="module")
def our_port():
    if not binary().exists():
        pytest.fail(f"{binary()} is not built: ./dev build")
    with Server() as server:
        yield server.port


@pytest.mark.parametrize("path", sorted(TRANSCRIPTS.glob("redis_*.txt")), ids=lambda path: path.stem)
def test_transcript_says_what_redis_says(path, redis_port):
    links = {}
    Link(redis_port).call("FLUSHALL")
    for number, directive, commands, expected in transcript_cases(path):
        client = dict(word.split("=") for word in directive[1:]).get("client", "1")
        link = links.setdefault(client, Link(redis_port) if client not in links else None)
        answers = [link.call(*split_line(command)) for command in commands]
        assert answers == expected, f"{path.name}:{number}"


EDGES = ["0", "1", "-1", "2147483647", "2147483648", "-2147483648", "-2147483649", "4294967296", "-4294967296",
         "9223372036854775807", "-9223372036854775808", "9223372036854775808", "99999999999999999999", "", "1e400", "nan", "inf",
         "-inf", "01", "+1", " 1", "1 ", "0x10", "1.5", "-0", "abc", "1e3", "3.0e-2"]  # fmt: skip
# A key that lives for a second or a millisecond may be gone on one server and not yet on the other.
TIMES = [edge for edge in EDGES if edge != "1"]
KEYS = ["k1", "k2", "k3", b"nul\x00key", "", "user:1", "user:2"]
VALUES = ["v", "", "10", "-7", "3.25", "hello world", b"\x00\xff\r\n", "9223372036854775807", "x" * 300]


def random_command(rng):
    key, value, edge = (lambda: rng.choice(KEYS)), (lambda: rng.choice(VALUES)), (lambda: rng.choice(EDGES))
    small = lambda: rng.choice(["0", "1", "2", "-1", "-2", "5", "100"])  # noqa: E731
    # Far from now, so that what is left of it reads the same on both servers, and far from each other, so that GT and LT agree.
    far = lambda: str(rng.randint(100_000, 900_000))  # noqa: E731
    when = lambda: rng.choice(TIMES)  # noqa: E731
    number = lambda: edge() if rng.random() < 0.5 else small()  # noqa: E731
    forms = [
        lambda: ["SET", key(), value()],
        lambda: ["SET", key(), value(), *rng.sample(["NX", "XX", "GET", "KEEPTTL", "EX", far(), "PERSIST", "bogus"], rng.randint(1, 3))],
        lambda: ["SET", key(), value(), rng.choice(["EX", "EXAT", "PXAT", "ex"]), rng.choice([when(), far() + "00000000"])],
        lambda: ["GET", key()],
        lambda: ["GETEX", key(), *rng.choice([[], ["PERSIST"], ["EX", far()], ["EXAT", when()], ["PX"], ["NX"]])],
        lambda: [rng.choice(["GETDEL", "STRLEN", "TYPE", "PERSIST", "EXPIRETIME", "INCR", "DECR", "TTL"]), key()],
        lambda: [rng.choice(["GETSET", "SETNX", "APPEND"]), key(), value()],
        lambda: [rng.choice(["SETEX", "PSETEX"]), key(), rng.choice([when(), far()]), value()],
        lambda: ["MSET", *[x for _ in range(rng.randint(1, 3)) for x in (key(), value())], *rng.choice([[], [key()]])],
        lambda: ["MSETNX", *[x for _ in range(rng.randint(1, 3)) for x in (key(), value())]],
        lambda: [rng.choice(["MGET", "DEL", "UNLINK", "EXISTS", "TOUCH"]), *[key() for _ in range(rng.randint(1, 4))]],
        lambda: [rng.choice(["INCRBY", "DECRBY", "INCRBYFLOAT"]), key(), number()],
        lambda: [rng.choice(["GETRANGE", "SUBSTR"]), key(), number(), number()],
        lambda: ["SETRANGE", key(), rng.choice(["-1", "0", "3", "", "9223372036854775807", "abc"]), value()],
        lambda: [rng.choice(["EXPIRE", "PEXPIRE", "EXPIREAT", "PEXPIREAT"]), key(), rng.choice([when(), far()]),
                 *rng.choice([[], ["NX"], ["XX"], ["GT"], ["LT"], ["NX", "XX"], ["GT", "LT"], ["XX", "GT"], ["zz"]])],  # fmt: skip
        lambda: ["SELECT", rng.choice(["0", "1", "0", "0", edge()])],
        lambda: ["DBSIZE"],
        lambda: ["ECHO", value()],
        lambda: ["PING", *rng.choice([[], ["x"], ["x", "y"]])],
        lambda: ["SWAPDB", rng.choice(["0", "1", edge()]), rng.choice(["0", "1", edge()])],
        lambda: ["FLUSHDB", *rng.choice([[], ["ASYNC"], ["SYNC"], ["x"], ["SYNC", "x"]])] if rng.random() < 0.2 else ["DBSIZE"],
        lambda: [rng.choice(["get", "set", "incr", "del", "client", "config", "nosuchcommand", "ttl", "hello"]), *[value() for _ in range(rng.randint(0, 1))]],
        lambda: ["CLIENT", rng.choice(["GETNAME", "SETNAME", "NOSUCH", "REPLY"]), *rng.choice([[], ["a"], ["a b"]])],
        lambda: ["SCAN", rng.choice(["abc", "-", "1.5", "0"]), *rng.choice([["COUNT", "0"], ["COUNT", edge()], ["MATCH"], ["x", "y"]])],
        lambda: ["COMMAND", "GETKEYS", *rng.choice([["GET", "a"], ["MSET", "a", "b", "c", "d"], ["PING"], ["nosuch"], ["GET"]])],
    ]
    return rng.choice(forms)()


def comparable(command, reply):
    """What has to be equal of a reply: everything, but for what has the moment or the place in it."""
    if command[0] == "SCAN" and not reply.startswith("(error)"):
        return "(a page of a scan)"
    if command[0] == "TTL" and reply.startswith("(integer) ") and int(reply[10:]) > 100:
        return f"(integer) about {round(int(reply[10:]), -2)}"
    if command[0] in ("hello", "EXPIRETIME") and "error" not in reply:
        return "(depends on the moment)"
    return reply


@pytest.mark.parametrize("seed", range(SEEDS))
def test_random_sequences(seed, redis_port, our_port):
    rng = random.Random(seed)
    ours, theirs = Link(our_port), Link(redis_port)
    for link in (ours, theirs):
        link.call("FLUSHALL")
    history = []
    for _ in range(COMMANDS_PER_SEED):
        command = random_command(rng)
        history.append(command)
        if command[0] == "DBSIZE":
            # Redis counts keys that have expired until it meets them.
            for link in (ours, theirs):
                link.call("EXISTS", *KEYS)
        try:
            mine, expected = comparable(command, ours.call(*command)), comparable(command, theirs.call(*command))
        except TimeoutError:
            raise AssertionError(f"seed {seed}, command {len(history)}: {command} was never answered") from None
        if mine != expected and not any(text in mine or text in expected for text, _ in REVIEWED):
            raise AssertionError(
                f"seed {seed}, command {len(history)}: {command}\n  here:  {mine}\n  redis: {expected}\n"
                + "  before: "
                + "\n          ".join(map(str, history[-6:-1]))
            )
    ours.close()
    theirs.close()
