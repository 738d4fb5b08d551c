"""Handles RESP as bytes: encodes commands, splits replies, and exchanges many at once over links."""

import socket
import threading


def encoded(command):
    return b"*%d\r\n" % len(command) + b"".join([b"$%d\r\n%s\r\n" % (len(word), word) for word in command])


def encoded_all(commands):
    return b"".join(map(encoded, commands))


def quoted(value):
    named = {0x22: '\\"', 0x5C: "\\\\", 10: "\\n", 13: "\\r"}
    return '"' + "".join(named.get(byte) or (chr(byte) if 0x20 <= byte < 0x7F else f"\\x{byte:02x}") for byte in value) + '"'


def shown(command):
    """Returns the command as text for people, with long words shortened. The seed is enough to get the whole command."""
    words = [word.decode() if word.isalnum() else quoted(word) for word in command]
    return " ".join(word if len(word) < 300 else f"{word[:80]}... ({len(word)} characters)" for word in words)


def reply_end(data, at):
    """Returns the end of the reply that starts at `at`. Raises ValueError if the reply is incomplete."""
    todo = 1
    while todo:
        todo -= 1
        end = data.index(b"\r\n", at)
        kind, number = data[at], data[at + 1 : end]
        at = end + 2
        if kind in b"$=" and number != b"-1":
            at += int(number) + 2
        elif kind in b"*~>" and number != b"-1":
            todo += int(number)
        elif kind == 0x25:  # %
            todo += 2 * int(number)
    return at


def split_replies(data):
    out, at, size, find = [], 0, len(data), data.index
    while at < size:
        kind = data[at]
        if kind in b"+-:_":
            end = find(b"\r\n", at) + 2
        else:
            end = reply_end(data, at)
        out.append(data[at:end])
        at = end
    return out


def pushes_taken_out(data):
    """Returns the data without its pushes, and the pushes in order. Redis 7.0 writes a transaction's pushes into EXEC's reply."""
    rest, pushes, start, at = [], [], 0, 0
    while at < len(data):
        kind = data[at]
        if kind == 0x3E:  # >
            end = reply_end(data, at)
            rest.append(data[start:at])
            pushes.append(data[at:end])
            start = at = end
            continue
        end = data.index(b"\r\n", at)
        length = data[at + 1 : end]
        at = end + 2 + (int(length) + 2 if kind in b"$=" and length != b"-1" else 0)
    return b"".join([*rest, data[start:]]), pushes


def parsed(reply, at=0):
    """Returns a reply as lists, bytes, numbers and None, and its end. Maps are flat lists; errors begin with '-'."""
    end = reply.index(b"\r\n", at)
    kind, rest, at = reply[at : at + 1], reply[at + 1 : end], end + 2
    if kind in b"$=":
        size = int(rest)
        return (None, at) if size < 0 else (reply[at : at + size], at + size + 2)
    if kind in b"*~>%":
        if rest == b"-1":
            return None, at
        items = []
        for _ in range(int(rest) * (2 if kind == b"%" else 1)):
            item, at = parsed(reply, at)
            items.append(item)
        return items, at
    if kind == b"_":
        return None, at
    if kind == b"-":
        return kind + rest, at
    return (int(rest) if kind == b":" else rest), at


def value_of(reply):
    return parsed(reply)[0]


def elements(reply):
    """Returns the elements of a flat array or set of bulk strings."""
    return value_of(reply)


class Link:
    """A connection that sends commands at once, and splits the received bytes at marks or at the ends of replies."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.marks = 0

    def close(self):
        self.socket.close()

    def receive_until(self, mark):
        """Returns the bytes before the reply `mark`, and removes the mark."""
        parts, tail = [], b""
        while True:
            data = self.socket.recv(1 << 18)
            if not data:
                raise ConnectionError("the server closed the connection")
            parts.append(data)
            tail = (tail + data)[-len(mark) :] if len(data) < len(mark) else data[-len(mark) :]
            if tail == mark:
                return b"".join(parts)[: -len(mark)]

    def send_in_background(self, data):
        """Sends `data` and collects the replies. Afterwards the connection must be in a state in which ECHO gets a reply."""
        self.marks += 1
        word = b"-- end of part %08d --" % self.marks
        self.mark = b"$%d\r\n%s\r\n" % (len(word), word)
        data += encoded([b"ECHO", word])
        self.sender = threading.Thread(target=self.socket.sendall, args=(data,))
        self.sender.start()

    def finish(self):
        """Waits for the collecting to end. Returns the bytes that the server sent as replies."""
        answer = self.receive_until(self.mark)
        self.sender.join()
        return answer

    def exchange(self, data):
        self.send_in_background(data)
        return self.finish()

    def call(self, commands):
        """Sends the commands. Returns one reply for each."""
        replies = split_replies(self.exchange(b"".join(map(encoded, commands))))
        assert len(replies) == len(commands), f"{len(replies)} replies to {len(commands)} commands"
        return replies
