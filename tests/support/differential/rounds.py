"""Random sequences of commands to redis-server and to this server, and what differs between the replies.

A sequence has a number, its seed, and can be repeated by it alone. It starts on two empty servers and a reset connection: even
seeds speak RESP2, odd ones RESP3. What it is made of:

    items       a thousand seeds share a pool of some thousand items, each a command or a few that belong together
                (sessions.item_maker); a sequence is a random choice of them. Made once and encoded once, they cost nothing.
    pub/sub     one seed in ten has subscriptions, CLIENT REPLY and tracking instead, where replies are more or fewer than commands:
                there everything that comes must be the same bytes.

Many sequences go out at once, with marks between them; only those whose bytes differ are looked at reply by reply. The first reply
that differs and is on no reviewed list is a difference.
"""

import random

from support.differential.reviewed import agree
from support.differential.sessions import item_maker, pubsub_sequence
from support.differential.values import KEYS
from support.differential.wire import Link, encoded, quoted, reply_end, shown, split_replies, value_of

SEEDS_PER_POOL = 1000
POOL = 3000
ITEMS = 14
BATCH = 64
DATABASES = [b"15", b"2", b"1", b"0"]
LAST_LOOK = [word for key in KEYS for word in ([b"GET", key], [b"PTTL", key])] + [[b"EXISTS", *KEYS], [b"DBSIZE"]]
CLEAN = [command for database in DATABASES for command in ([b"SELECT", database], [b"DEL", *KEYS])]


def protocol_of(seed):
    return 2 + seed % 2


def is_pubsub(seed):
    return seed % 20 in (8, 9)


def start_of(seed, flush):
    hello = [[b"HELLO", b"3"]] if protocol_of(seed) == 3 else []
    return [[b"RESET"], *([[b"FLUSHALL"]] if flush else []), *hello, *CLEAN]


class Sequences:
    """Makes sequences by seed. Seeds in order are cheap: the pool at hand is kept."""

    def __init__(self):
        self.pool_number = None

    def _fill(self, number):
        self.pool_number = number
        rng = random.Random(number)
        make = item_maker(rng)
        # (commands, their bytes, whether keys may be left that CLEAN does not know)
        self.pool = [(commands, b"".join(map(encoded, commands)), strays) for commands, strays in (make() for _ in range(POOL))]

    def make(self, seed):
        """(commands, bytes, whether keys may be left behind)"""
        rng = random.Random(seed)
        if is_pubsub(seed):
            commands = pubsub_sequence(rng, protocol_of(seed))
            return commands, b"".join(map(encoded, commands)), False
        if self.pool_number != seed // SEEDS_PER_POOL:
            self._fill(seed // SEEDS_PER_POOL)
        items = rng.choices(self.pool, k=ITEMS)
        commands = [command for each, _, _ in items for command in each]
        return commands, b"".join(data for _, data, _ in items), any(strays for _, _, strays in items)


TAIL = [[b"DISCARD"], [b"SELECT", b"0"], *LAST_LOOK]
TAIL_BYTES = b"".join(map(encoded, TAIL))
RESET = encoded([b"RESET"])


def whole_bytes(seed, flush, data):
    return b"".join(map(encoded, start_of(seed, flush))) + data + (RESET if is_pubsub(seed) else TAIL_BYTES)


def queued_agree(queue, mine, theirs):
    """The replies of EXEC, each by its own command."""
    if mine[:1] != b"*" or theirs[:1] != b"*":
        return False
    parts = [split_replies(reply[reply.index(b"\r\n") + 2 :]) for reply in (mine, theirs)]
    if not len(parts[0]) == len(parts[1]) == len(queue):
        return False
    return all(agree(*each) for each in zip(queue, *parts, strict=True))


def start_end(data, count):
    """Where the replies to the start of a sequence end; among them is HELLO's, which has the connection's number. One is optional."""
    at = 0
    for _ in range(count):
        at = reply_end(data, at)
    return at


def pushes_apart(data):
    """What was asked for and what came by itself, each in its order. From 7.2 on a push follows the reply to the command that made it,
    here too; in 7.0 it comes before.
    """
    try:
        replies = split_replies(data)
    except ValueError:
        return data
    pushes, same = [], []
    for each in [*(each for each in replies if each[:1] == b">"), b""]:
        # Of one message that several patterns match, each server has its own order.
        if same and (not each.startswith(b">4\r\n$8\r\npmessage") or value_of(each)[2:] != value_of(same[0])[2:]):
            pushes += sorted(same)
            same = []
        (same if each.startswith(b">4") else pushes).append(each)
    return [each for each in replies if each[:1] != b">"], pushes


def compare(seed, commands, mine, theirs):
    """None, or what differs: (command, our reply, Redis's). For a sequence with subscriptions, the bytes from where they part."""
    start = start_of(seed, False)
    if is_pubsub(seed):
        mine, theirs = (each[start_end(each, len(start)) :] for each in (mine, theirs))
        if mine == theirs or (protocol_of(seed) == 3 and pushes_apart(mine) == pushes_apart(theirs)):
            return None
        at = next((i for i in range(min(len(mine), len(theirs))) if mine[i] != theirs[i]), 0)
        at = max(mine.rfind(b"\r\n", 0, at), 0)
        return [b"(any", b"of", b"these)"], mine[at : at + 300], theirs[at : at + 300]
    replies = [split_replies(each) for each in (mine, theirs)]
    # A flush at the start has a reply that another start has not.
    whole = [*start, *commands, *TAIL]
    for each in replies:
        if len(each) == len(whole) + 1:
            del each[1]
    if not len(replies[0]) == len(replies[1]) == len(whole):
        return [b"(the", b"number", b"of", b"replies)"], b"%d" % len(replies[0]), b"%d" % len(replies[1])
    queue = []
    for command, ours, redis in zip(whole, *replies, strict=True):
        name = command[0].upper()
        if redis == b"+QUEUED\r\n" and ours == redis:
            queue.append(command)
            continue
        if not agree(command, ours, redis) and not (name == b"EXEC" and queued_agree(queue, ours, redis)):
            return command, ours, redis
        if b"-INVALIDOBJ" in ours and (name == b"PFADD" or name == b"EXEC"):
            # Redis has added the elements that it met before the damage; here a command that fails changes nothing.
            return None
        if (name in (b"EXEC", b"DISCARD", b"RESET") and len(command) == 1) or redis.startswith(b"-EXECABORT"):
            queue = []
    return None


class Differ:
    """Two links, to this server and to Redis, and the comparison of what comes through them."""

    def __init__(self, our_port, redis_port):
        self.links = (Link(our_port), Link(redis_port))
        self.sequences = Sequences()
        self.dirty = True
        self.commands = 0
        self.difference = None  # of the sequence that run() has returned, as it was in its row

    def close(self):
        for link in self.links:
            link.close()

    def run_one(self, seed, commands):
        """The difference of one sequence on empty servers, or None."""
        data = whole_bytes(seed, True, b"".join(map(encoded, commands)))
        return compare(seed, commands, *(link.exchange(data) for link in self.links))

    def run(self, first, count):
        """The first seed of [first, first + count) that differs, or None."""
        for at in range(first, first + count, BATCH):
            failed = self._run_batch(range(at, min(at + BATCH, first + count)))
            if failed is not None:
                return failed
        return None

    def _run_batch(self, seeds):
        made, parts = [], []
        for seed in seeds:
            commands, data, strays = self.sequences.make(seed)
            made.append(commands)
            parts += [whole_bytes(seed, self.dirty, data), encoded([b"ECHO", b"-- seed %010d --" % seed])]
            self.dirty = strays
            self.commands += len(commands)
        data = b"".join(parts)
        answers = []
        for link in self.links:
            link.send_in_background(data)
        for link in self.links:
            answers.append(link.finish())
        if answers[0] == answers[1]:
            return None
        for seed, commands in zip(seeds, made, strict=True):
            mark = b"$21\r\n-- seed %010d --\r\n" % seed
            pair = []
            for i, answer in enumerate(answers):
                mine, found, answers[i] = answer.partition(mark)
                if not found:
                    return seed
                pair.append(mine)
            self.difference = None if pair[0] == pair[1] else compare(seed, commands, *pair)
            if self.difference is not None:
                return seed
        return None

    def shrunk(self, seed, commands):
        """The same failure, or another one, with fewer commands."""
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
            text = f"seed {seed}, RESP{protocol_of(seed)}: differed in a row of others, and not alone"
            if self.difference is not None:
                command, mine, theirs = self.difference
                text += f": {shown(command)}\nwas here  {quoted(mine)}\nin Redis  {quoted(theirs)}"
            return text
        commands = self.shrunk(seed, commands)
        difference = self.run_one(seed, commands)
        if difference is None:
            return f"seed {seed}, RESP{protocol_of(seed)}: differed once, and not when repeated"
        command, mine, theirs = difference
        lines = [f"seed {seed}, RESP{protocol_of(seed)}: after", *(f"  {shown(each)}" for each in commands), "the replies to", f"  {shown(command)}"]
        return "\n".join([*lines, f"are here  {quoted(mine)}", f"in Redis  {quoted(theirs)}"])
