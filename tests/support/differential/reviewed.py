"""Lists the intended differences between replies, which were reviewed. Every other difference is a failure.

Each entry has commands, a condition that the two replies must still meet, and the reason for the difference.
"""

import math
import struct
from collections import Counter

from support.differential.payloads import crc64, undumped
from support.differential.wire import elements, value_of


def number(reply):
    return int(reply[1:-2]) if reply[:1] == b":" else None


def times_agree(command, mine, theirs):
    """Accepts two remaining times or expiry times if they differ by the time between the two commands at most."""
    unit = {b"TTL": 1, b"EXPIRETIME": 1, b"PTTL": 1000, b"PEXPIRETIME": 1000}[command[0].upper()]
    a, b = number(mine), number(theirs)
    return a is not None and b is not None and min(a, b) >= 0 and abs(a - b) <= 60 * unit


def dumps_agree(_, mine, theirs):
    if mine[:1] != b"$" or theirs[:1] != b"$" or b"$-1" in (mine[:3], theirs[:3]):
        return False
    ours, redis = value_of(mine), value_of(theirs)
    sound = struct.unpack("<Q", ours[-8:])[0] == crc64(ours[:-8]) and struct.unpack("<H", ours[-10:-8])[0] == 8
    if ours[0] != 0:  # a collection: contract/test_dump.py compares what is in the payloads
        return sound and redis[0] in FORMS[ours[0]]
    return sound and redis[0] == 0 and undumped(ours) == undumped(redis)


# The types of payloads that Redis 7.0 writes, by that of this server.
FORMS = {1: (18,), 2: (2, 11), 4: (4, 16), 5: (5, 17)}


def same_kind(_, mine, theirs):
    return mine[:1] == theirs[:1] != b"-"


def scans_agree(_, mine, theirs):
    """Accepts replies to a scan in one page if both have the end cursor and the same keys, in any order."""
    a, b = value_of(mine), value_of(theirs)
    if not (isinstance(a, list) and isinstance(b, list)):
        return False
    return a[0] != b"0" or b[0] != b"0" or sorted(a[1]) == sorted(set(b[1]))


def hellos_agree(_, mine, theirs):
    a, b = value_of(mine), value_of(theirs)
    if not (isinstance(a, list) and isinstance(b, list)) or mine[:1] != theirs[:1]:
        return False
    mine, theirs = (dict(zip(each[::2], each[1::2], strict=True)) for each in (a, b))
    return list(mine) == list(theirs) and all(mine[key] == theirs[key] for key in mine if key not in (b"version", b"id"))


def helps_agree(_, mine, theirs):
    """Accepts a help text that has every line of Redis 7.0 and the lines added in 7.2."""
    a, b = value_of(mine), value_of(theirs)
    return isinstance(a, list) and isinstance(b, list) and a[0] == b[0] and set(b) <= set(a)


def config_errors_agree(_, mine, theirs):
    """Accepts two errors that name the same parameter."""
    start = b"-ERR CONFIG SET failed (possibly related to argument '"
    return mine.startswith(start) and mine.partition(b" - ")[0] == theirs.partition(b" - ")[0]


def is_named(*names):
    return lambda command: command[0].upper() in names


def is_sub(name, *subs):
    """Returns a condition that accepts these subcommands of a container command, or all subcommands if there are no arguments."""
    return lambda command: command[0].upper() == name and (not subs or (len(command) > 1 and command[1].upper() in subs))


def either(*tests):
    return lambda command: any(test(command) for test in tests)


def has_no_sort_order(command):
    words = [word.upper() for word in command]
    return words[0] in (b"SORT", b"SORT_RO") and b"BY" in words and b"STORE" not in words and b"LIMIT" not in words


def asks_for_keys(command):
    return command[0].upper() == b"COMMAND" and len(command) > 2 and command[1].upper() in (b"GETKEYS", b"GETKEYSANDFLAGS")


def replies(mine=None, theirs=None):
    """Returns a condition that accepts replies with these beginnings."""
    return lambda _, a, b: (mine is None or a.startswith(mine)) and (theirs is None or b.startswith(theirs))


def sorted_agree(_, mine, theirs):
    """Accepts the same elements in any order, in a reply of the same kind."""
    a, b = value_of(mine), value_of(theirs)
    return mine[:1] == theirs[:1] and isinstance(a, list) and isinstance(b, list) and Counter(a) == Counter(b)


def hashes_agree(command, mine, theirs):
    """Accepts the same fields with the same values in any order."""
    a, b = value_of(mine), value_of(theirs)
    if mine[:1] != theirs[:1] or not (isinstance(a, list) and isinstance(b, list)):
        return False
    if command[0].upper() != b"HGETALL":
        return sorted(a) == sorted(b)
    return sorted(zip(a[::2], a[1::2], strict=True)) == sorted(zip(b[::2], b[1::2], strict=True))


def element_scans_agree(command, mine, theirs):
    """Accepts scans whose only page has the same elements in any order. If Redis returns a large hash or set in pages, or the
    command begins at another cursor than 0, only the cursor of this server is checked: it must be the end cursor."""
    a, b = value_of(mine), value_of(theirs)
    if not (isinstance(a, list) and isinstance(b, list)) or a[0] != b"0" or b[0] != b"0" or command[2] != b"0":
        return isinstance(b, list) and isinstance(a, list) and a[0] == b"0"
    step = 1 if command[0].upper() == b"SSCAN" else 2

    def rows(elements):
        return sorted(tuple(map(as_number, elements[i : i + step])) for i in range(0, len(elements), step))

    return rows(a[1]) == rows(b[1])


def as_number(text):
    """Returns a value that is equal for all texts of the same number."""
    try:
        return (0, float(text), b"") if text is not None else (2, 0.0, b"")
    except (ValueError, TypeError):
        return (1, 0.0, text)


def score_text(number):
    """Returns the text of a score in 7.2: an integer up to half of int64 with all digits, another number as its shortest text."""
    if number == int(number) and abs(number) <= 1 << 62:
        return b"%d" % int(number)
    mantissa, _, exponent = (b"%r" % number).partition(b"e")
    whole, _, fraction = mantissa.lstrip(b"-").partition(b".")
    digits, scale = whole + fraction.removesuffix(b"0" if fraction == b"0" else b""), int(exponent or 0)
    scale -= len(digits) - len(whole)
    digits = digits.lstrip(b"0")
    stripped = digits.rstrip(b"0")
    scale += len(digits) - len(stripped)
    sign, top = b"-" if number < 0 else b"", scale + len(stripped) - 1
    if scale >= 0 and top < len(stripped) + 7:
        return sign + stripped + b"0" * scale
    if scale < 0 and (scale > -7 or abs(top) < 4):
        padded = stripped.rjust(1 - scale, b"0")
        return sign + padded[:scale] + b"." + padded[scale:]
    rest = b"." + stripped[1:] if len(stripped) > 1 else b""
    return sign + stripped[:1] + rest + b"e%+d" % top


def scores_agree(_, mine, theirs):
    """Accepts equal replies in which this server has the texts of 7.2 for scores that 7.0 writes with 17 digits."""

    def same(a, b):
        if isinstance(a, list) and isinstance(b, list):
            return len(a) == len(b) and all(map(same, a, b))
        if a == b or not (isinstance(a, bytes) and isinstance(b, bytes)):
            return a == b
        number = as_number(b)[1]
        if a == b"0" and b == b"-0":  # SORT turns a small sorted set into a large one, which has -0
            return True
        return number != 0 and not math.isinf(number) and a == score_text(number)

    return mine[:1] == theirs[:1] and mine[:1] != b"-" and same(value_of(mine), value_of(theirs))


def random_elements_agree(_, mine, theirs):
    """Accepts replies of the same kind with as many elements."""
    a, b = value_of(mine), value_of(theirs)
    return mine[:1] == theirs[:1] != b"-" and (not isinstance(a, list) or len(a) == len(b))


INT, EMBSTR, RAW = b"$3\r\nint\r\n", b"$6\r\nembstr\r\n", b"$3\r\nraw\r\n"
ENCODINGS = [(INT, EMBSTR), (INT, RAW), (EMBSTR, RAW)]
TYPE_ENCODINGS = [{b"listpack", b"hashtable"}, {b"listpack", b"hashtable", b"intset"}, {b"listpack", b"skiplist"}, {b"listpack", b"quicklist"}]

# Each entry is (commands, replies, reason).
REVIEWED = [
    (is_named(b"TTL", b"PTTL", b"EXPIRETIME", b"PEXPIRETIME"), times_agree, "the two servers run the command at different moments"),
    (is_named(b"KEYS"), lambda _, a, b: a[:1] == b[:1] == b"*" and sorted(elements(a)) == sorted(elements(b)),
     "keys are ordered here, not in Redis"),
    (is_named(b"SCAN"), scans_agree, "keys are ordered here, not in Redis, and a page may have any number of keys"),
    (is_named(b"SMEMBERS", b"SINTER", b"SUNION", b"SDIFF", b"SPOP"), sorted_agree, "members of a set have no order; here it is that of their bytes"),
    (has_no_sort_order, sorted_agree, "elements that compare equal, and those of a set that is not sorted, have no order"),
    (is_named(b"HGETALL", b"HKEYS", b"HVALS"), hashes_agree, "Redis has no order of fields once a value is longer than 64 bytes"),
    (is_named(b"HSCAN", b"SSCAN", b"ZSCAN"), element_scans_agree, "the same, and a collection is one page here"),
    (is_named(b"HRANDFIELD", b"SRANDMEMBER", b"ZRANDMEMBER"), random_elements_agree, "the elements are random"),
    (lambda command: command[0].upper().startswith(b"Z"), scores_agree, "7.0 writes scores with 17 digits"),
    (is_named(b"ZRANK", b"ZREVRANK"), replies(theirs=b"-ERR wrong number of arguments for"), "WITHSCORE is new in 7.2"),
    (is_named(b"RANDOMKEY"), lambda _, a, b: a[:1] == b[:1] == b"$", "the key is random"),
    (is_named(b"DUMP"), dumps_agree, "Redis 7.0 writes version 10 with LZF; this server writes version 8, which Redis 4.0 reads, without LZF, and collections in plain forms"),
    (is_named(b"LCS"), replies(b"-ERR LCS inside a transaction compares at most"), "a larger LCS would keep its event loop busy"),
    (is_named(b"DBSIZE"), lambda _, a, b: a[:1] == b":" and number(a) < (number(b) or 0),
     "Redis counts expired keys until it removes them"),
    (is_sub(b"OBJECT", b"REFCOUNT"), lambda _, a, b: a == b":1\r\n" and number(b) is not None,
     "Redis shares small integers and counts references; here no value is shared"),
    (is_sub(b"OBJECT", b"ENCODING"), lambda _, a, b: (a, b) in ENCODINGS,
     "Redis changes the encoding of a value modified in place; here it is that of a new value"),
    (is_sub(b"OBJECT", b"ENCODING"), lambda _, a, b: any({value_of(a), value_of(b)} <= names for names in TYPE_ENCODINGS),
     "the same for collections; in 7.0 small sets and lists have no listpack"),
    (is_sub(b"OBJECT", b"IDLETIME"), lambda _, a, b: a == b":0\r\n" and number(b) is not None, "this server does not record when a key was read"),
    (is_named(b"WAIT"), lambda _, a, b: a == b"-ERR timeout is out of range\r\n" and b == b":0\r\n",
     "7.2 refuses a timeout that overflows, 7.0 does not"),
    (is_named(b"EXPIRETIME"), lambda _, a, b: (number(b) or 0) < -2 and number(a) == 9223372036854776,
     "Redis adds 500 ms before it divides, which overflows close to the end of time"),
    (is_named(b"HELLO"), hellos_agree, "the version and the connection's id"),
    (is_sub(b"CLIENT", b"ID", b"INFO", b"LIST"), same_kind, "ids, addresses, ages and sizes of connections"),
    (is_named(b"TIME"), same_kind, "the moment"),
    (is_named(b"INFO"), same_kind, "the state of the server; another test checks the fields"),
    (is_named(b"LOLWUT"), same_kind, "another picture"),
    (is_sub(b"SLOWLOG", b"GET", b"LEN"), same_kind, "what was slow"),
    (is_sub(b"LATENCY", b"LATEST", b"HISTORY", b"HISTOGRAM", b"DOCTOR"), same_kind, "what was slow"),
    (is_sub(b"MEMORY", b"USAGE", b"STATS", b"DOCTOR", b"MALLOC-STATS"), same_kind, "the size of a key in memtables and files, not on a heap"),
    (is_sub(b"MEMORY", b"USAGE"), lambda _, a, b: a in (b"$-1\r\n", b"_\r\n") and number(b) is not None,
     "Redis shows expired keys until it removes them"),
    (is_sub(b"COMMAND", b"COUNT", b"LIST", b"INFO", b"DOCS"), same_kind,
     "each server has commands that the other lacks; another test checks the descriptions"),
    (is_sub(b"ACL", b"LIST"), lambda _, a, b: a.replace(b"$51", b"$34").replace(b" sanitize-payload", b"") == b, "7.2 names one flag more"),
    (is_sub(b"ACL", b"CAT"), same_kind, "each server has commands that the other lacks"),
    (lambda command: len(command) > 1 and command[1].upper() == b"HELP", helps_agree, "7.2 has more lines than 7.0"),
    (is_sub(b"CLIENT", b"SETINFO", b"NO-TOUCH"), replies(theirs=b"-ERR unknown subcommand"), "new in 7.2"),
    (asks_for_keys, replies(theirs=b"-ERR wrong number of arguments for 'command|getkeys"), "Redis 7.0 requires a command with an argument, 7.2 does not"),
    (either(is_sub(b"CLIENT", b"LIST", b"KILL"), is_sub(b"CONFIG", b"SET", b"REWRITE"), is_sub(b"ACL", b"LOAD")),
     replies(b"-ERR Command not allowed inside a transaction", b"+QUEUED"), "they wait for other threads, so they are refused and the transaction is aborted"),
    (is_sub(b"CONFIG", b"SET"), config_errors_agree, "the error lists the allowed values, here in the form of the configuration file"),
    (is_sub(b"CONFIG", b"GET"), lambda _, a, b: b"AKE" in b and a.replace(b"n\r\n", b"\r\n")[-5:] == b[-5:],
     "Redis omits n if A is set"),
    (lambda command: b"\x00" in command[0], replies(b"-ERR unknown command"),
     "Redis compares names up to a zero byte if they have the same place in its hash table"),
    (lambda command: command[0].upper() == b"SCAN" and len(command) > 1 and b"\x00" in command[1], replies(b"-ERR invalid cursor"),
     "Redis reads a cursor up to its first zero byte"),
    (lambda command: command[0].upper() in (b"HSCAN", b"SSCAN", b"ZSCAN") and len(command) > 2 and b"\x00" in command[2], replies(b"-ERR invalid cursor"),
     "the same"),
    (lambda command: command[0].upper() == b"SCAN" and len(command) > 1 and command[1] not in (b"0", b""),
     replies(b"-ERR unknown cursor", b"*"), "an unknown cursor is a position in Redis's hash table; here it is an error"),
]  # fmt: skip


def agree(command, mine, theirs):
    return mine == theirs or any(concerns(command) and fine(command, mine, theirs) for concerns, fine, _ in REVIEWED)
