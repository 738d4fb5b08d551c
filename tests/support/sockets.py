"""The protocol over plain sockets: what a client library would hide."""


def encode(*arguments):
    """A command as clients send it. Arguments are bytes, or become text."""
    parts = [b"*%d\r\n" % len(arguments)]
    for argument in arguments:
        data = argument if isinstance(argument, bytes) else str(argument).encode()
        parts.append(b"$%d\r\n%s\r\n" % (len(data), data))
    return b"".join(parts)


def receive_all(link):
    """Everything until the peer closes."""
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
        assert part, f"closed after {len(data)} of {size} bytes: {bytes(data[:100])!r}"
        data += part
    return bytes(data)
