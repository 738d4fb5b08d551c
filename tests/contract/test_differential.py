"""Tests that redis-server gives the replies of the transcripts tests/transcripts/redis_*. Unit tests require the same of this
server. ./dev test puts redis-server on the path; without it the tests fail.

Random sequences to both servers are in test_differential_values.py.
"""

import platform
import socket
from pathlib import Path

import pytest

from support.differential.wire import quoted
from support.server import Server, binary, redis_server
from support.sockets import encode

TRANSCRIPTS = Path(__file__).resolve().parents[1] / "transcripts"
X86 = TRANSCRIPTS / ("long_double" if platform.machine() == "x86_64" else "none")  # Redis prints other digits elsewhere


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


def split_line(line):
    """Splits a line of a transcript into words, with the rules of the C++ runner (tests/server/dispatch/harness.h)."""
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
    """Returns (line number, directive words, input lines, expected text) of each case of a transcript."""
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
    with redis_server(tmp_path_factory.mktemp("redis")) as port:
        yield port


@pytest.fixture(scope="module")
def our_port():
    if not binary().exists():
        pytest.fail(f"{binary()} is not built: ./dev build")
    with Server() as server:
        yield server.port


@pytest.mark.parametrize("path", sorted(TRANSCRIPTS.glob("redis_*.txt")) + sorted(X86.glob("redis_*.txt")), ids=lambda path: path.stem)
def test_redis_server_gives_the_replies_in_the_transcript(path, redis_port):
    links = {}
    Link(redis_port).call("FLUSHALL")
    for number, directive, commands, expected in transcript_cases(path):
        client = dict(word.split("=") for word in directive[1:]).get("client", "1")
        link = links.setdefault(client, Link(redis_port) if client not in links else None)
        answers = [link.call(*split_line(command)) for command in commands]
        assert answers == expected, f"{path.name}:{number}"
