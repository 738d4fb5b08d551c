"""Speaks the protocol over plain sockets, without a client library that hides parts of it."""

import socket


def encode(*arguments):
    """Encodes a command. Arguments are bytes or are converted to text."""
    parts = [b"*%d\r\n" % len(arguments)]
    for argument in arguments:
        data = argument if isinstance(argument, bytes) else str(argument).encode()
        parts.append(b"$%d\r\n%s\r\n" % (len(data), data))
    return b"".join(parts)


def receive_all(link):
    """Receives until the peer closes the connection. Returns the data."""
    data = bytearray()
    while True:
        try:
            part = link.recv(65536)
        except ConnectionResetError:
            part = b""
        if not part:
            return bytes(data)
        data += part


def receive_exactly(link, size):
    data = bytearray()
    while len(data) < size:
        part = link.recv(min(1 << 20, size - len(data)))
        assert part, f"the server closed the connection after {len(data)} of {size} bytes: {bytes(data[:100])!r}"
        data += part
    return bytes(data)


def receive_until(link, mark):
    """Receives until the data contains `mark`. Returns the data, including bytes received after the mark."""
    data = b""
    while mark not in data:
        part = link.recv(65536)
        assert part, f"the server closed the connection before {mark!r}: {data[-100:]!r}"
        data += part
    return data


class ReplyError(Exception):
    """Raised for an error reply."""


def read_reply(stream):
    """Reads a reply of RESP2 and returns it as str, int, None or a list of them. Raises ReplyError for an error reply, and
    ConnectionError for a closed connection."""
    line = stream.readline()
    if not line.endswith(b"\r\n"):
        raise ConnectionError("the server closed the connection")
    kind, rest = line[:1], line[1:-2]
    if kind == b"+":
        return rest.decode()
    if kind == b"-":
        raise ReplyError(rest.decode(errors="replace"))
    if kind == b":":
        return int(rest)
    if kind == b"$":
        if rest == b"-1":
            return None
        data = stream.read(int(rest) + 2)
        if not data.endswith(b"\r\n"):
            raise ConnectionError("the server closed the connection")
        return data[:-2].decode(errors="replace")
    if kind == b"*":
        return None if rest == b"-1" else [read_reply(stream) for _ in range(int(rest))]
    raise ConnectionError(f"no reply of the Redis protocol: {line[:60]!r}")


class Link:
    """One connection. Sends commands, and reads replies with read_reply()."""

    def __init__(self, port, timeout=60):
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
        self.socket.sendall(encode(*arguments))
        return read_reply(self.stream)

    def pipeline(self, commands):
        """Sends all commands at once and returns their replies. The replies must be short: none is read while commands are sent."""
        commands = list(commands)
        self.socket.sendall(b"".join(encode(*command) for command in commands))
        return [read_reply(self.stream) for _ in commands]


def pairs(flat):
    """Returns a dictionary of a RESP2 map, in which names and values alternate."""
    return dict(zip(flat[::2], flat[1::2], strict=True))
