"""Finds the contents of compressed blocks of tables in any bytes by the form of the blocks alone. The bytes may be those of files
with or without a name, and the manifest is not needed. grep cannot read compressed text.

    block   = payload, zeros, length of the payload u32, type u8, checksum u64
    payload = length of the contents u32, compressed bytes                     (engine/docs/formats.md)

The only check is that a payload decompresses to its length. A search for purged data should find too much rather than too little.
"""

import ctypes
import re

# The server uses these libraries, too.
_lz4, _zstd = ctypes.CDLL("liblz4.so.1"), ctypes.CDLL("libzstd.so.1")
_lz4.LZ4_decompress_safe.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_int]
_zstd.ZSTD_decompress.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t]
_zstd.ZSTD_decompress.restype = ctypes.c_size_t

# The first number of each pair is the type of a page, the second that of a part of a large value.
LZ4_TYPES, ZSTD_TYPES = (0x01, 0x09), (0x02, 0x0A)
TYPE = re.compile(rb"\x00[\x01\x09\x02\x0a]")  # the zero is the highest byte of the length, which is below 16 MiB
LONGEST = 64 << 20
LONGEST_PADDING = 4096
LZ4_BEST = 255  # largest compression ratio
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"


def unpacked(data, start, length, kind):
    """Returns the contents of the payload at `start`, or None if it is no payload."""
    size = int.from_bytes(data[start : start + 4], "little")
    if not length <= size - size // 8 <= LONGEST:  # pages are compressed only if that saves an eighth
        return None
    if kind in LZ4_TYPES and size > LZ4_BEST * length or kind in ZSTD_TYPES and data[start + 4 : start + 8] != ZSTD_MAGIC:
        return None
    packed, out = data[start + 4 : start + length], ctypes.create_string_buffer(size)
    if kind in LZ4_TYPES:
        got = _lz4.LZ4_decompress_safe(packed, out, len(packed), size)
    else:
        got = _zstd.ZSTD_decompress(out, size, packed, len(packed))
    return out.raw if got == size else None


def decompressed(data):
    """Yields the contents of each compressed block in `data`."""
    for found in TYPE.finditer(data):
        end = found.start() - 3  # the end of payload and zeros, where their length begins
        length = int.from_bytes(data[end : end + 4], "little") if end > 0 else 0
        if length <= 4:
            continue
        # The number of zeros that are padding is unknown, so each possible start of the payload is tried.
        for start in range(end - length, max(end - length - LONGEST_PADDING, -1), -1):
            content = unpacked(data, start, length, found[0][1])
            if content is not None:
                yield content
                break
            if data[start + length - 1] != 0:
                break
