"""Makes values in the form of DUMP: RDB strings and collections in every encoding, LZF, the footer with its CRC64."""

import functools
import struct

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


@functools.lru_cache
def lzf_compressed(value):
    """Compresses with every kind of token: literal runs, short and long repetitions. The result is not the shortest possible."""
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
    """Returns the string in a valid payload."""
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


# --- collections


def as_integer(text):
    """Returns the integer of 64 bits whose text this is, or None."""
    digits = text.removeprefix(b"-")
    if not digits.isdigit() or len(text) > 20 or (digits.startswith(b"0") and text != b"0"):
        return None
    return int(text) if -(1 << 63) <= int(text) < 1 << 63 else None


def signed(number, size):
    return number.to_bytes(size, "little", signed=True)


def rdb_string(text, compressed=False):
    """Returns the text in the form of RDB: as an integer if it is one, otherwise as it is, or compressed."""
    number = as_integer(text)
    for code, size in ((b"\xc0", 1), (b"\xc1", 2), (b"\xc2", 4)):
        if number is not None and -(1 << 8 * size - 1) <= number < 1 << 8 * size - 1:
            return code + signed(number, size)
    if compressed and text:
        packed = lzf_compressed(text)
        return b"\xc3" + rdb_length(len(packed)) + rdb_length(len(text)) + packed
    return rdb_length(len(text)) + text


def back_length(n):
    out, rest = bytes([n & 127]), n >> 7
    while rest:
        out = bytes([rest & 127]) + bytes([out[0] | 128]) + out[1:]
        rest >>= 7
    return out


def listpack_data(item):
    number = as_integer(item)
    if number is None:
        if len(item) < 64:
            return bytes([0x80 | len(item)]) + item
        return (struct.pack(">H", 0xE000 | len(item)) if len(item) < 4096 else b"\xf0" + struct.pack("<I", len(item))) + item
    if 0 <= number < 128:
        return bytes([number])
    if -4096 <= number < 4096:
        return struct.pack(">H", 0xC000 | number & 0x1FFF)
    size = next(n for n in (2, 3, 4, 8) if -(1 << 8 * n - 1) <= number < 1 << 8 * n - 1)
    return {2: b"\xf1", 3: b"\xf2", 4: b"\xf3", 8: b"\xf4"}[size] + signed(number, size)


def listpack(items):
    data = [listpack_data(item) for item in items]
    body = b"".join(each + back_length(len(each)) for each in data)
    return struct.pack("<IH", 7 + len(body), min(len(items), 65535)) + body + b"\xff"


def ziplist_data(item):
    number = as_integer(item)
    if number is None:
        if len(item) < 64:
            return bytes([len(item)]) + item
        return (struct.pack(">H", 0x4000 | len(item)) if len(item) < 16384 else b"\x80" + struct.pack(">I", len(item))) + item
    if 0 <= number <= 12:
        return bytes([0xF1 + number])
    size = next(n for n in (1, 2, 3, 4, 8) if -(1 << 8 * n - 1) <= number < 1 << 8 * n - 1)
    return {1: b"\xfe", 2: b"\xc0", 3: b"\xf0", 4: b"\xd0", 8: b"\xe0"}[size] + signed(number, size)


def ziplist(items):
    body, last, before = [], 10, 0
    at = 10
    for item in items:
        entry = (bytes([before]) if before < 254 else b"\xfe" + struct.pack("<I", before)) + ziplist_data(item)
        last, before, at = at, len(entry), at + len(entry)
        body.append(entry)
    return struct.pack("<IIH", at + 1, last, min(len(items), 65535)) + b"".join(body) + b"\xff"


def zipmap(items, free=0):
    def length(n):
        return bytes([n]) if n < 254 else b"\xfe" + struct.pack("<I", n)

    pairs = zip(items[::2], items[1::2], strict=True)
    body = b"".join(length(len(f)) + f + length(len(v)) + bytes([free]) + v + b"-" * free for f, v in pairs)
    return bytes([min(len(items) // 2, 254)]) + body + b"\xff"


def intset(numbers):
    size = next(n for n in (2, 4, 8) if all(-(1 << 8 * n - 1) <= number < 1 << 8 * n - 1 for number in numbers))
    return struct.pack("<II", size, len(numbers)) + b"".join(signed(number, size) for number in sorted(numbers))


def text_score(score):
    if score in (float("inf"), float("-inf")):
        return b"\xfe" if score > 0 else b"\xff"
    text = b"%.17g" % score
    return bytes([len(text)]) + text


def packed_scores(pairs):
    """Returns members and scores as the items of a packed form. They are ordered by score, which Redis relies on."""
    return [item for score, member in sorted((score, member) for member, score in pairs) for item in (member, b"%.17g" % score)]


def collection_bodies(kind, content, compressed=False):
    """Yields the name and the payload without its footer of each form that Redis 7.0 reads. `content`: texts of a list or set, pairs of
    a hash (text, text) or sorted set (text, number)."""

    def string(text):
        return rdb_string(text, compressed)

    count = rdb_length(len(content))
    if kind == "list":
        parts = [content[i : i + 7] for i in range(0, len(content), 7)]
        yield "strings", b"\x01" + count + b"".join(map(string, content))
        yield "ziplist", b"\x0a" + string(ziplist(content))
        yield "ziplists", b"\x0e" + rdb_length(len(parts)) + b"".join(string(ziplist(part)) for part in parts)
        nodes = [b"\x02" + string(listpack(part)) if i % 3 or not all(part) else b"".join(b"\x01" + string(item) for item in part) for i, part in enumerate(parts)]
        single = sum(len(part) - 1 for i, part in enumerate(parts) if not (i % 3 or not all(part)))
        yield "listpacks", b"\x12" + rdb_length(len(parts) + single) + b"".join(nodes)
    elif kind == "set":
        yield "strings", b"\x02" + count + b"".join(map(string, content))
        if all(as_integer(item) is not None for item in content):
            yield "intset", b"\x0b" + string(intset([int(item) for item in content]))
    elif kind == "hash":
        items = [item for pair in content for item in pair]
        yield "strings", b"\x04" + count + b"".join(map(string, items))
        yield "zipmap", b"\x09" + string(zipmap(items, free=len(items) % 4))
        yield "ziplist", b"\x0d" + string(ziplist(items))
        yield "listpack", b"\x10" + string(listpack(items))
    else:
        yield "text scores", b"\x03" + count + b"".join(string(member) + text_score(score) for member, score in content)
        yield "scores", b"\x05" + count + b"".join(string(member) + struct.pack("<d", score) for member, score in content)
        yield "ziplist", b"\x0c" + string(ziplist(packed_scores(content)))
        yield "listpack", b"\x11" + string(listpack(packed_scores(content)))
