"""Connects, sends some bytes and resets the connection, repeatedly and as fast as possible. This is a process of its own, so that
it does not slow down the test.

    python3 -m support.resets PORT COUNT WORDS      WORDS as a Python bytes literal: "b'PING'"
"""

import ast
import contextlib
import socket
import struct
import sys


def main(port, count, words):
    """Makes `count` connections and resets each. Returns the number of connections made; a refused connection is no failure."""
    made = 0
    for _ in range(count):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=60) as link:
            link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            link.sendall(words)
            made += 1
    return made


if __name__ == "__main__":
    print(main(int(sys.argv[1]), int(sys.argv[2]), ast.literal_eval(sys.argv[3])))
