"""Makes values in the form of DUMP: RDB strings in every encoding, LZF, the footer with its CRC64."""

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
