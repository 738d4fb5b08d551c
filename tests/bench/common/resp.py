"""As much of the Redis protocol as a benchmark needs to ask a server how it is. Needs nothing but Python."""

import socket


class ReplyError(Exception):
    """An error reply."""


class Client:
    """One connection. Replies are str, int, None or lists of them; an error reply is raised."""

    def __init__(self, port, timeout=600):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=timeout)
        self.stream = self.socket.makefile("rb")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.stream.close()
        self.socket.close()

    def call(self, *arguments):
        words = [str(argument).encode() for argument in arguments]
        self.socket.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words))
        return read_reply(self.stream)

    def info(self, *sections):
        return parse_info(self.call("INFO", *sections))

    def pairs(self, *arguments):
        """A reply that is a map, as a dictionary."""
        flat = self.call(*arguments)
        return dict(zip(flat[::2], flat[1::2]))


def read_reply(stream):
    line = stream.readline()
    if not line.endswith(b"\r\n"):
        raise ConnectionError("the server closed the connection")
    kind, rest = line[:1], line[1:-2]
    if kind == b"+":
        return rest.decode()
    if kind == b"-":
        raise ReplyError(rest.decode())
    if kind == b":":
        return int(rest)
    if kind == b"$":
        return None if rest == b"-1" else stream.read(int(rest) + 2)[:-2].decode(errors="replace")
    if kind == b"*":
        return None if rest == b"-1" else [read_reply(stream) for _ in range(int(rest))]
    raise ConnectionError(f"no reply of the Redis protocol: {line[:60]!r}")


def parse_info(text):
    """{field: value} of INFO's answer, numbers as int or float."""

    def value(word):
        for kind in (int, float):
            try:
                return kind(word)
            except ValueError:
                pass
        return word

    lines = (line.split(":", 1) for line in text.splitlines() if ":" in line and not line.startswith("#"))
    return {name: value(word) for name, word in lines}
