"""What the compressed blocks of tables hold, found by their form alone: in any bytes, of files with a name or without, whatever the
manifest says of them. grep sees nothing of what is compressed.

    block   = payload, zeros, length of the payload u32, type u8, checksum u64
    payload = length of what it holds u32, compressed bytes                    (engine/docs/formats.md)

Nothing is checked but that a payload gives as much as it says: who looks for what should be gone rather sees too much.
"""

import ctypes
import re

# Those that the server itself uses.
_lz4, _zstd = ctypes.CDLL("liblz4.so.1"), ctypes.CDLL("libzstd.so.1")
_lz4.LZ4_decompress_safe.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_int]
_zstd.ZSTD_decompress.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t]
_zstd.ZSTD_decompress.restype = ctypes.c_size_t

LZ4_TYPES, ZSTD_TYPES = (0x01, 0x09), (0x02, 0x0A)  # of a page, of a part of a large value
TYPE = re.compile(rb"\x00[\x01\x09\x02\x0a]")  # behind the highest byte of the length: no payload has 16 MiB
LONGEST = 64 << 20
LONGEST_PADDING = 4096
LZ4_BEST = 255  # how many bytes one byte can stand for
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"


def unpacked(data, start, length, kind):
    """What the payload at `start` holds; None if there is none."""
    size = int.from_bytes(data[start : start + 4], "little")
    if not length <= size - size // 8 <= LONGEST:  # it is compressed only if that saves an eighth
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
    """What each compressed block in `data` holds."""
    for found in TYPE.finditer(data):
        end = found.start() - 3  # of payload and zeros
        length = int.from_bytes(data[end : end + 4], "little") if end > 0 else 0
        if length <= 4:
            continue
        # How many of the zeros are padding only the payload itself can tell.
        for start in range(end - length, max(end - length - LONGEST_PADDING, -1), -1):
            content = unpacked(data, start, length, found[0][1])
            if content is not None:
                yield content
                break
            if data[start + length - 1] != 0:
                break
