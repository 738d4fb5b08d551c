"""Tests the comparison of replies with those of redis-server, on given bytes, without a server."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.differential.reviewed import agree  # noqa: E402
from support.differential.rounds import (  # noqa: E402
    CLEAN,
    PARTED,
    TAIL,
    Batch,
    Sequences,
    as_pushes,
    compare,
    is_events,
    is_pubsub,
    pushes_agree,
    stray_keys,
)
from support.differential.wire import encoded, pushes_taken_out, split_replies  # noqa: E402

PUSH = b">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$4\r\n>x\r\n\r\n"
HELLO = b"%1\r\n$2\r\nid\r\n:7\r\n"


def replies(protocol, middle):
    """Returns a server's replies to a whole sequence: start, `middle`, end."""
    start = b"+RESET\r\n" + (HELLO if protocol == 3 else b"") + b"+OK\r\n:0\r\n" * (len(CLEAN) // 2)
    return start + b"".join(middle) + b"+OK\r\n" * len(TAIL)


class Comparison(unittest.TestCase):
    def test_push_messages_are_separated_from_replies_also_inside_of_arrays(self):
        data = b"+a\r\n" + PUSH + b"*2\r\n" + PUSH + b":1\r\n$3\r\n>1\r\r\n" + b"$-1\r\n" + PUSH
        rest, pushes = pushes_taken_out(data)
        self.assertEqual(rest, b"+a\r\n*2\r\n:1\r\n$3\r\n>1\r\r\n$-1\r\n")
        self.assertEqual(pushes, [PUSH] * 3)

    def test_bytes_of_several_replies_are_split_into_replies(self):
        parts = [b"+OK\r\n", b"$5\r\na\r\nb+\r\n", b"*2\r\n*1\r\n:1\r\n%1\r\n+k\r\n_\r\n", b"$-1\r\n", b"*-1\r\n", b"-ERR x\r\n", b"#t\r\n", b",1.5\r\n"]
        self.assertEqual(split_replies(b"".join(parts)), parts)

    def test_compare_returns_the_first_different_reply_with_its_command(self):
        commands = [[b"SET", b"k", b"1"], [b"GET", b"k"]]
        mine = replies(2, [b"+OK\r\n", b"$1\r\n1\r\n"])
        self.assertIsNone(compare(0, commands, mine, mine))
        theirs = replies(2, [b"+OK\r\n", b"$1\r\n2\r\n"])
        self.assertEqual(compare(0, commands, mine, theirs), ([b"GET", b"k"], b"$1\r\n1\r\n", b"$1\r\n2\r\n"))
        # A missing reply is a difference, and so are keys that the sequence before left on one server only.
        self.assertIsNotNone(compare(0, commands, mine, replies(2, [b"+OK\r\n"])))
        self.assertIsNotNone(compare(0, commands, mine, mine.replace(b":0\r\n", b":1\r\n", 1)))

    def test_score_printed_with_17_digits_equals_the_shortest_text_of_the_same_number(self):
        command = [b"ZSCORE", b"z", b"a"]
        for mine, theirs in [(b"0.1", b"0.10000000000000001"), (b"100000000000000000", b"1e+17"), (b"1e-7", b"9.9999999999999995e-08"), (b"-1.5e+20", b"-1.5000000000000000e+20")]:
            self.assertTrue(agree(command, b"$%d\r\n%s\r\n" % (len(mine), mine), b"$%d\r\n%s\r\n" % (len(theirs), theirs)), mine)
        for mine, theirs in [(b"1e+8", b"100000000"), (b"1.7e+12", b"1700000000000"), (b"0.100", b"0.10000000000000001"), (b"1", b"2")]:
            self.assertFalse(agree(command, b"$%d\r\n%s\r\n" % (len(mine), mine), b"$%d\r\n%s\r\n" % (len(theirs), theirs)), mine)

    def test_accepted_difference_of_a_pttl_reply_is_accepted_also_in_exec(self):
        commands = [[b"MULTI"], [b"PTTL", b"k"], [b"GET", b"k"], [b"EXEC"]]
        answer = [b"+OK\r\n", b"+QUEUED\r\n", b"+QUEUED\r\n"]
        mine = replies(3, [*answer, b"*2\r\n:5000\r\n$1\r\n1\r\n"])
        self.assertIsNone(compare(1, commands, mine, replies(3, [*answer, b"*2\r\n:4990\r\n$1\r\n1\r\n"])))
        self.assertIsNotNone(compare(1, commands, mine, replies(3, [*answer, b"*2\r\n:4990\r\n$1\r\n2\r\n"])))

    def test_replies_after_both_servers_refused_a_corrupt_hyperloglog_are_not_compared(self):
        commands = [[b"PFADD", b"k", b"a"], [b"GET", b"k"]]
        refused = b"-INVALIDOBJ Corrupted HLL object detected\r\n"
        self.assertEqual(compare(0, commands, replies(2, [refused, b"$1\r\n1\r\n"]), replies(2, [refused, b"$1\r\n2\r\n"])), PARTED)
        self.assertIsInstance(compare(0, commands, replies(2, [refused, b"$-1\r\n"]), replies(2, [b":1\r\n", b"$-1\r\n"])), tuple)

    def test_exec_may_succeed_in_redis_or_fail_if_a_key_was_watched_before_swapdb(self):
        middle = [[b"INCR", b"k"], [b"SWAPDB", b"0", b"1"], [b"WATCH", b"b"], [b"MULTI"], [b"EXEC"]]
        mine, theirs = ([b"+OK\r\n", b":1\r\n", b"+OK\r\n", b"+OK\r\n", b"+OK\r\n", executed] for executed in (b"*0\r\n", b"*-1\r\n"))
        self.assertEqual(compare(0, [[b"WATCH", b"k"], *middle], replies(2, mine), replies(2, theirs)), PARTED)
        self.assertIsInstance(compare(0, [[b"SET", b"k", b"0"], *middle], replies(2, mine), replies(2, theirs)), tuple)

    def test_push_messages_of_exec_may_come_inside_or_after_its_reply(self):
        own = b">3\r\n$11\r\nunsubscribe\r\n$1\r\nc\r\n:0\r\n"
        commands = [[b"MULTI"], [b"PUBLISH", b"c", b"x"], [b"UNSUBSCRIBE", b"c"], [b"EXEC"]]
        here, there = b"*2\r\n:1\r\n" + own + PUSH, b"*2\r\n" + PUSH + b":1\r\n" + own
        self.assertTrue(pushes_agree(commands, here, there))
        self.assertFalse(pushes_agree(commands, here + PUSH, there))
        self.assertFalse(pushes_agree(commands, here.replace(b":0", b":1"), there))
        # Outside of a transaction, the order of pushes and replies must be equal.
        self.assertFalse(pushes_agree(commands[1:3], here, there))
        here, there = (each.replace(b">3", b"*3") for each in (here, there))
        self.assertFalse(pushes_agree(commands, here, there))
        self.assertTrue(pushes_agree(commands, as_pushes(here), as_pushes(there)))

    def test_redis_may_send_invalidations_after_client_tracking_off(self):
        told = b">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nc\r\n"
        off = [[b"CLIENT", b"TRACKING", b"off"], [b"GET", b"c"]]
        self.assertTrue(pushes_agree(off, b":1\r\n", b":1\r\n" + told))
        self.assertFalse(pushes_agree(off, b":1\r\n" + told, b":1\r\n"))
        self.assertFalse(pushes_agree(off[1:], b":1\r\n", b":1\r\n" + told))

    def test_seed_always_gives_the_same_command_sequence_and_every_kind_of_sequence_occurs(self):
        made = Sequences()
        first = {seed: made.make(seed) for seed in range(40)}
        self.assertEqual({seed: Sequences().make(seed) for seed in (0, 8, 9, 19, 39)}, {seed: first[seed] for seed in (0, 8, 9, 19, 39)})
        self.assertTrue(any(is_pubsub(seed) for seed in first) and any(is_events(seed) for seed in first))
        for commands, data, _ in first.values():
            self.assertEqual(data, b"".join(map(encoded, commands)))

    def test_batch_of_sequences_first_deletes_keys_that_the_batch_before_may_have_left(self):
        self.assertEqual(stray_keys([[b"SET", b"a", b"stray"], [b"DEL"]]), {b"stray"})
        batch = Batch(Sequences(), range(1), {b"left behind"})
        self.assertEqual(batch.data.count(b"$11\r\nleft behind\r\n"), 4)  # once in each database
        self.assertEqual(batch.compare(b"same", b"same"), (None, None))
        self.assertEqual(batch.compare(b"one", b"other"), (0, None))


if __name__ == "__main__":
    unittest.main()
