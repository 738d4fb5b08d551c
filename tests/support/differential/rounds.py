"""Sends random sequences of commands to redis-server and to this server, and finds differences between their replies.

A sequence has a number, its seed, which is enough to repeat it. It starts on two empty servers and a reset connection: even seeds
use RESP2, odd seeds RESP3. There are three kinds of sequences:

    items       A thousand seeds share a pool of some thousand items. An item is a command, or a few
                commands that belong together (sessions.item_maker). A sequence is a random choice of items. Items are encoded
                once, so sequences are cheap.
    pub/sub     One seed in ten has subscriptions, CLIENT REPLY and tracking instead, where replies are more or fewer than commands.
                There all received bytes must be equal.
    events      One seed in twenty receives the events of the keys that it changes: the same events in the same order.

Many sequences are sent at once, with marks between them. Only sequences with different bytes are compared reply by reply. The
first different reply that is on no reviewed list is a difference.
"""

import random
from collections import Counter

from support.differential.reviewed import agree
from support.differential.sessions import EVENTS, NOTIFY, event_sequence, item_maker, pubsub_sequence
from support.differential.values import COLLECTION_KEYS, KEYS
from support.differential.wire import Link, encoded, encoded_all, pushes_taken_out, quoted, reply_end, shown, split_replies, value_of

SEEDS_PER_POOL = 1000
POOL = 3000
ITEMS = 14
BATCH = 64
DATABASES = [b"15", b"2", b"1", b"0"]
ALL_KEYS = [*KEYS, *COLLECTION_KEYS]
LAST_LOOK = [
    *(word for key in KEYS for word in ([b"GET", key], [b"PTTL", key])),
    *([b"TYPE", key] for key in ALL_KEYS),
    *([b"HGETALL", key] for key in COLLECTION_KEYS if key.startswith(b"hash")),
    *([b"SMEMBERS", key] for key in COLLECTION_KEYS if key.startswith(b"set")),
    *([b"ZRANGE", key, b"0", b"-1", b"WITHSCORES"] for key in COLLECTION_KEYS if key.startswith(b"zset")),
    *([b"LRANGE", key, b"0", b"-1"] for key in COLLECTION_KEYS if key.startswith(b"list")),
    [b"EXISTS", *ALL_KEYS],
    [b"DBSIZE"],
]
TAIL = [[b"DISCARD"], [b"SELECT", b"0"], *LAST_LOOK]
TAIL_BYTES = encoded_all(TAIL)
RESET = encoded([b"RESET"])
EMPTY = encoded_all([[b"RESET"], [b"FLUSHALL"], [b"CONFIG", b"SET", NOTIFY, b""]])


def protocol_of(seed):
    return 2 + seed % 2


def is_pubsub(seed):
    return seed % 20 in (8, 9)


def clean(strays=()):
    """Returns commands that remove all keys: the keys of a sequence, and `strays`, which the previous sequence may have left."""
    return [command for database in DATABASES for command in ([b"SELECT", database], [b"DEL", *ALL_KEYS, *strays])]


CLEAN = clean()
STARTS = {2: [[b"RESET"], *CLEAN], 3: [[b"RESET"], [b"HELLO", b"3"], *CLEAN]}
STARTS_BYTES = {protocol: encoded_all(start) for protocol, start in STARTS.items()}


def is_events(seed):
    return seed % 20 == 19


def listening(seed):
    return [[b"CONFIG", b"SET", NOTIFY, EVENTS[seed // 20 % len(EVENTS)]], [b"PSUBSCRIBE", b"__key*__:*"]]


NOT_LISTENING = [[b"DISCARD"], [b"PUNSUBSCRIBE"], [b"CONFIG", b"SET", NOTIFY, b""]]


class Sequences:
    """Makes sequences by seed. Ascending seeds are cheap, since the current pool is kept."""

    def __init__(self):
        self.pool_number = None

    def _fill(self, number):
        self.pool_number = number
        rng = random.Random(number)
        make = item_maker(rng)
        # Each entry is (commands, their bytes, keys outside of KEYS that the item may leave).
        made = (make() for _ in range(POOL))
        self.pool = [(commands, encoded_all(commands), stray_keys(commands) if strays else ()) for commands, strays in made]

    def make(self, seed):
        """Returns (commands, bytes, keys outside of KEYS that the sequence may leave)."""
        rng = random.Random(seed)
        if is_pubsub(seed):
            commands = pubsub_sequence(rng, protocol_of(seed))
            return commands, encoded_all(commands), ()
        if is_events(seed):
            commands = event_sequence(rng)
            return commands, encoded_all(commands), ()
        if self.pool_number != seed // SEEDS_PER_POOL:
            self._fill(seed // SEEDS_PER_POOL)
        items = rng.choices(self.pool, k=ITEMS)
        commands = [command for each, _, _ in items for command in each]
        strays = {key for _, _, keys in items for key in keys}
        return commands, b"".join([data for _, data, _ in items]), strays


def stray_keys(commands):
    """Returns the keys that invalid commands may create: any of their words."""
    return {word for command in commands for word in command[1:]}.difference(ALL_KEYS)


def whole_bytes(seed, data, strays=()):
    start = STARTS[protocol_of(seed)][: -len(CLEAN)]
    start = encoded_all([*start, *clean(strays)]) if strays else STARTS_BYTES[protocol_of(seed)]
    if is_events(seed):
        data = encoded_all(listening(seed)) + data + encoded_all(NOT_LISTENING)
    return start + data + (RESET if is_pubsub(seed) else TAIL_BYTES)


def queued_agree(queue, mine, theirs):
    """Returns true if the replies in EXEC agree, command by command."""
    if mine[:1] != b"*" or mine.partition(b"\r\n")[0] != theirs.partition(b"\r\n")[0]:
        return False
    parts = [split_replies(reply[reply.index(b"\r\n") + 2 :]) for reply in (mine, theirs)]
    if not len(parts[0]) == len(parts[1]) == len(queue):
        return False
    return all(agree(*each) for each in zip(queue, *parts, strict=True))


def end_of_replies(data, count):
    at = 0
    for _ in range(count):
        at = reply_end(data, at)
    return at


MESSAGES = (b">3\r\n$7\r\nmessage", b">4\r\n$8\r\npmessage", b">3\r\n$8\r\nsmessage")
INVALIDATION = b">2\r\n$10\r\ninvalidate"


def as_pushes(data):
    """Returns RESP2 data with its messages in the form of RESP3 pushes."""
    for message in MESSAGES:
        data = data.replace(b"*" + message[1:], message)
    return data


def in_one_order(pushes):
    """Sorts the pushes of one message that matches several patterns, since each server may choose their order."""
    out, same = [], []
    for each in [*pushes, b""]:
        if same and (not each.startswith(b">4\r\n$8\r\npmessage") or value_of(each)[2:] != value_of(same[0])[2:]):
            out += sorted(same)
            same = []
        (same if each.startswith(b">4") else out).append(each)
    return out[:-1]


def pushes_agree(commands, mine, theirs):
    """Returns true if the replies are equal and in the same order, and the pushes, too.

    From Redis 7.2 on, and in this server, a push follows the reply to the command that caused it. In a transaction it follows the
    reply to EXEC. In Redis 7.0 the push precedes the reply. If CLIENT TRACKING is switched off and on again, Redis still
    invalidates keys that were read before.
    """
    names = [[word.upper() for word in command[:3]] for command in commands]
    ours, our_pushes = pushes_taken_out(mine)
    redis, their_pushes = pushes_taken_out(theirs)
    our_pushes, their_pushes = in_one_order(our_pushes), in_one_order(their_pushes)
    if [b"CLIENT", b"TRACKING", b"OFF"] in names:
        more = Counter(each for each in their_pushes if each.startswith(INVALIDATION)) - Counter(our_pushes)
        for each in more.elements():
            their_pushes.remove(each)
    if ours == redis and our_pushes == their_pushes:
        return True
    if not any(name[0] == b"EXEC" for name in names):
        return False

    def told(pushes, messages):
        return in_one_order([each for each in pushes if each.startswith(MESSAGES) is messages])

    return ours == redis and all(told(our_pushes, kind) == told(their_pushes, kind) for kind in (True, False))


PARTED = "parted"


def compare(seed, commands, mine, theirs, parted_before=False):
    """Returns the difference as (command, our reply, Redis's reply), or None. For a sequence with subscriptions, the difference
    has the bytes from the first different byte on.

    Returns PARTED if there were only allowed differences, but the servers had different keys from some command on. Later replies
    were not compared then.
    """
    start = STARTS[protocol_of(seed)]
    # HELLO's reply has the connection's id. The replies of the clean-up show which keys the sequence before left, and must be
    # equal, too.
    skipped = start if is_pubsub(seed) or parted_before else start[: -len(CLEAN)]
    mine, theirs = (each[end_of_replies(each, len(skipped)) :] for each in (mine, theirs))
    if mine == theirs:
        return None
    if is_pubsub(seed):
        if pushes_agree(commands, mine, theirs) if protocol_of(seed) == 3 else pushes_agree(commands, as_pushes(mine), as_pushes(theirs)):
            return None
        at = next((i for i in range(min(len(mine), len(theirs))) if mine[i] != theirs[i]), 0)
        at = max(mine.rfind(b"\r\n", 0, at), 0)
        return [b"(any", b"of", b"these)"], mine[at : at + 300], theirs[at : at + 300]
    cleaning = [] if parted_before else CLEAN
    whole = [*cleaning, *commands, *TAIL]
    if is_events(seed):
        mine, told = pushes_taken_out(mine)
        theirs, redis_told = pushes_taken_out(theirs)
        difference = first_event_that_differs(told, redis_told, commands)
        if difference is not None:
            return difference
        whole = [*cleaning, *listening(seed)[:1], *commands, *(command for command in NOT_LISTENING if command != [b"PUNSUBSCRIBE"]), *TAIL]
    ours, redis = split_replies(mine), split_replies(theirs)
    if not len(ours) == len(redis) == len(whole):
        return [b"(the", b"number", b"of", b"replies)"], b"%d" % len(ours), b"%d" % len(redis)
    return first_difference(whole, ours, redis)


SET_OPERATIONS = (b"SINTER", b"SUNION", b"SDIFF", b"SINTERSTORE", b"SUNIONSTORE", b"SDIFFSTORE", b"SINTERCARD")


def first_event_that_differs(ours, redis, commands):
    """Compares events like compare(), without the events `expired`, since each server chooses its moment. If the sequence has set
    operations, events of missing keys are left out, too: Redis sends these before it finds a key of another type."""
    left_out = [b"expired\r\n", *([b"keymiss\r\n"] if any(command[0] in SET_OPERATIONS for command in commands) else [])]
    ours, redis = ([each for each in told if not any(name in each for name in left_out)] for told in (ours, redis))
    if ours == redis:
        return None
    at = next((i for i, pair in enumerate(zip(ours, redis, strict=False)) if pair[0] != pair[1]), min(len(ours), len(redis)))
    return [b"(events,", b"from", b"where", b"they", b"part)"], b"".join(ours[at : at + 3]), b"".join(redis[at : at + 3])


def first_difference(commands, ours, redis):
    """Compares replies one by one like compare()."""
    for at, (command, mine, theirs) in enumerate(zip(commands, ours, redis, strict=True)):
        executed = command[0].upper() == b"EXEC"
        if mine != theirs:
            if executed and theirs in (b"*-1\r\n", b"_\r\n") and history_was_lost(commands[:at]):
                # A watched key was absent, was created, and vanished with its history: this server then counts the key as
                # unchanged.
                return PARTED
            if executed and mine in (b"*-1\r\n", b"_\r\n") and may_have_made_a_key(commands[:at]):
                return PARTED
            if not agree(command, mine, theirs) and not (executed and queued_agree(queued_before(commands, redis, at), mine, theirs)):
                return command, mine, theirs
        if b"-INVALIDOBJ" in mine and (executed or command[0].upper() == b"PFADD"):
            # Redis adds the elements before the damage, while in this server a failed command changes nothing.
            return PARTED
    return None


def history_was_lost(commands):
    """Returns true if, since the first WATCH, a database was emptied or swapped, or a key may have been set that expired at once.
    An EXEC without MULTI does not end a WATCH."""
    names = [command[0].upper() for command in commands]
    since = names.index(b"WATCH") if b"WATCH" in names else len(names)
    expired = any(word.upper() in (b"EXAT", b"PXAT") for command in commands[since:] for word in command[3:])
    return expired or any(name in (b"SWAPDB", b"FLUSHDB", b"FLUSHALL") for name in names[since:])


def may_have_made_a_key(commands):
    """Returns true if all operations of a BITFIELD on a watched key may have failed. The command creates the key all the same,
    and Redis does not abort the watching transaction."""
    watched = set()
    for command in commands:
        if command[0].upper() == b"WATCH":
            watched.update(command[1:])
        elif command[0].upper() == b"BITFIELD" and command[1:2] and command[1] in watched and b"FAIL" in map(bytes.upper, command):
            return True
    return False


def queued_before(commands, replies, at):
    """Returns the commands that the EXEC at `at` runs: those queued since the last MULTI."""
    begun = max(i for i in range(at) if replies[i] == b"+OK\r\n" and commands[i][0].upper() == b"MULTI")
    return [commands[i] for i in range(begun, at) if replies[i] == b"+QUEUED\r\n"]


class Batch:
    """Sequences that are sent together, each followed by a mark."""

    def __init__(self, sequences, seeds, strays):
        """strays: keys that the sequence before the batch may have left."""
        self.sequences = []  # (seed, commands)
        parts = []
        for seed in seeds:
            commands, data, left = sequences.make(seed)
            self.sequences.append((seed, commands))
            parts += [whole_bytes(seed, data, strays), encoded([b"ECHO", b"-- seed %010d --" % seed])]
            strays = left
        self.data = b"".join(parts)
        self.strays = strays  # keys that the last sequence may leave

    def compare(self, ours, redis, parted_before=False):
        """Returns the first seed with different replies, and the difference. Returns None and PARTED if the last sequence ended
        with PARTED, otherwise None and None.

        parted_before: true if the sequence before the batch ended with PARTED.
        """
        if ours == redis:
            return None, None
        difference = PARTED if parted_before else None
        for seed, commands in self.sequences:
            mark = b"$21\r\n-- seed %010d --\r\n" % seed
            mine, found, ours = ours.partition(mark)
            theirs, found_too, redis = redis.partition(mark)
            if not found or not found_too:
                return seed, None
            difference = None if mine == theirs else compare(seed, commands, mine, theirs, difference == PARTED)
            if difference not in (None, PARTED):
                return seed, difference
        return None, difference


class Differ:
    """Has two links, to this server and to Redis, and compares their replies."""

    def __init__(self, our_port, redis_port):
        self.links = (Link(our_port), Link(redis_port))
        self.sequences = Sequences()
        self.commands = 0
        self.difference = None  # the difference of the sequence that run() returned, as found within its batch

    def close(self):
        for link in self.links:
            link.close()

    def _empty(self):
        for link in self.links:
            link.exchange(EMPTY)

    def run_one(self, seed, commands):
        """Runs one sequence alone, on empty servers. Returns the difference, or None."""
        self._empty()
        data = whole_bytes(seed, encoded_all(commands))
        difference = compare(seed, commands, *(link.exchange(data) for link in self.links))
        return None if difference == PARTED else difference

    def run(self, first, count):
        """Returns the first seed of [first, first + count) whose replies differ, or None.

        While the servers run a batch, the next batch is made and the one before is compared.
        """
        self._empty()
        sent, strays, self.difference = None, (), None
        for at in [*range(first, first + count, BATCH), None]:
            made = None if at is None else Batch(self.sequences, range(at, min(at + BATCH, first + count)), strays)
            answers = [link.finish() for link in self.links] if sent else None
            if made:
                strays = made.strays
                for link in self.links:
                    link.send_in_background(made.data)
            if sent:
                self.commands += sum(len(commands) for _, commands in sent.sequences)
                failed, self.difference = sent.compare(*answers, self.difference == PARTED)
                if failed is not None:
                    if made:
                        for link in self.links:
                            link.finish()
                    return failed
            sent = made
        return None

    def shrunk(self, seed, commands):
        """Returns as few of the commands as possible that still get different replies from the two servers."""
        size = len(commands)
        while size > 0:
            at = 0
            while at < len(commands):
                shorter = commands[:at] + commands[at + size :]
                if self.run_one(seed, shorter) is not None:
                    commands = shorter
                else:
                    at += size
            size //= 2
        return commands

    def report(self, seed):
        commands = self.sequences.make(seed)[0]
        if self.run_one(seed, commands) is None:
            text = f"seed {seed}, RESP{protocol_of(seed)}: differed among other sequences, but not alone"
            if self.difference not in (None, PARTED):
                command, mine, theirs = self.difference
                text += f": {shown(command)}\nwas here  {quoted(mine)}\nin Redis  {quoted(theirs)}"
            return text
        commands = self.shrunk(seed, commands)
        difference = self.run_one(seed, commands)
        if difference is None:
            return f"seed {seed}, RESP{protocol_of(seed)}: differed once, but not when repeated"
        command, mine, theirs = difference
        lines = [f"seed {seed}, RESP{protocol_of(seed)}: after", *(f"  {shown(each)}" for each in commands), "the replies to", f"  {shown(command)}"]
        return "\n".join([*lines, f"are here  {quoted(mine)}", f"in Redis  {quoted(theirs)}"])
