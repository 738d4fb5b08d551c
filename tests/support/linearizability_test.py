"""Tests that the checker accepts legal histories and refuses illegal histories."""

import random
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.linearizability import NEVER, UNKNOWN, Operation, list_step, violation, zset_step  # noqa: E402


def register(state, name, arguments):
    if name == "set":
        return "OK", arguments[0]
    if name == "get":
        return state, state
    if name == "incr":
        return (state or 0) + 1, (state or 0) + 1
    raise ValueError(name)


def history(*rows):
    return [Operation(client, name, tuple(arguments), answer, called, returned) for client, name, arguments, answer, called, returned in rows]


class Checker(unittest.TestCase):
    def legal(self, *rows):
        self.assertIsNone(violation(history(*rows), register, None))

    def illegal(self, *rows):
        self.assertIsNotNone(violation(history(*rows), register, None))

    def test_history_is_illegal_if_a_read_after_a_write_misses_it(self):
        self.legal((1, "set", [1], "OK", 0, 1), (1, "get", [], 1, 2, 3))
        self.illegal((1, "set", [1], "OK", 0, 1), (1, "get", [], None, 2, 3))

    def test_history_with_overlapping_calls_is_legal_in_either_order(self):
        self.legal((1, "set", [1], "OK", 0, 10), (2, "get", [], None, 1, 2), (3, "get", [], 1, 3, 4))
        # A later read has an older value.
        self.illegal((1, "set", [1], "OK", 0, 10), (2, "get", [], 1, 1, 2), (3, "get", [], None, 3, 4))

    def test_history_with_a_stale_read_is_illegal(self):
        self.illegal((1, "set", [1], "OK", 0, 1), (1, "set", [2], "OK", 2, 3), (2, "get", [], 1, 4, 5))

    def test_history_is_illegal_if_readers_see_writes_in_different_orders(self):
        self.illegal(
            (1, "set", [1], "OK", 0, 10), (2, "set", [2], "OK", 0, 10),
            (3, "get", [], 1, 11, 12), (4, "get", [], 2, 13, 14),
        )  # fmt: skip

    def test_history_with_a_lost_update_is_illegal(self):
        self.illegal((1, "incr", [], 1, 0, 5), (2, "incr", [], 1, 0, 5))
        self.legal((1, "incr", [], 1, 0, 5), (2, "incr", [], 2, 0, 5))

    def test_history_is_legal_whether_an_operation_without_a_reply_took_effect_or_not(self):
        self.legal((1, "set", [1], UNKNOWN, 0, NEVER), (2, "get", [], None, 5, 6))
        self.legal((1, "set", [1], UNKNOWN, 0, NEVER), (2, "get", [], 1, 5, 6))
        # The value was read before the call of its write.
        self.illegal((1, "set", [1], UNKNOWN, 4, NEVER), (2, "get", [], 1, 1, 2))
        self.illegal((1, "set", [1], UNKNOWN, 0, NEVER), (2, "get", [], 1, 1, 2), (2, "get", [], None, 3, 4))

    def test_random_history_of_a_register_is_legal_until_one_reply_is_changed(self):
        for seed in range(40):
            choose = random.Random(seed)
            rows, state, moment = [], None, 0.0
            for number in range(60):  # each operation takes effect at `moment`, with its call before and its reply after that
                moment += choose.random()
                name = choose.choice(("set", "get", "incr")) if isinstance(state, int) or state is None else "set"
                arguments = (choose.randrange(1000),) if name == "set" else ()
                answer, state = register(state, name, arguments)
                rows.append(Operation(number, name, arguments, answer, moment - choose.random() * 4, moment + choose.random() * 4))
            self.assertIsNone(violation(rows, register, None), seed)
            # One wrong reply must be found.
            reads = [i for i, row in enumerate(rows) if row.name == "get"]
            i = choose.choice(reads)
            rows[i] = rows[i]._replace(answer=-1)
            self.assertIsNotNone(violation(rows, register, None), seed)


class Queues(unittest.TestCase):
    """Each history is judged twice: of a list, and of a sorted set whose members have the order of the list's elements."""

    STEPS = {"list": list_step, "zset": zset_step}

    def judge(self, kind, rows):
        return violation(history(*rows), self.STEPS[kind], ())

    def legal(self, kind, *rows):
        self.assertIsNone(self.judge(kind, rows))

    def illegal(self, kind, *rows):
        self.assertIsNotNone(self.judge(kind, rows))

    def each(self):
        """Yields, for each kind: its name, functions that make an addition, a pop, and a pop that waits."""
        yield (
            "list",
            lambda called, returned, *names: (1, "RPUSH", names, len(names), called, returned),
            lambda name, called, returned: (2, "LPOP", [], name, called, returned),
            lambda name, called, returned: (3, "BLPOP", [9], name and [name], called, returned),
        )
        yield (
            "zset",
            lambda called, returned, *names: (1, "ZADD", [w for name in names for w in (ord(name), name)], len(names), called, returned),
            lambda name, called, returned: (2, "ZPOPMIN", [], [name, str(ord(name))] if name else [], called, returned),
            lambda name, called, returned: (3, "BZPOPMIN", [9], name and [name, str(ord(name))], called, returned),
        )

    def test_history_in_which_an_element_is_popped_twice_is_illegal(self):
        for kind, add, pop, wait in self.each():
            self.legal(kind, add(0, 1, "a", "b"), pop("a", 2, 5), wait("b", 2, 5))
            self.illegal(kind, add(0, 1, "a", "b"), pop("a", 2, 5), wait("a", 2, 5))
            self.illegal(kind, add(0, 1, "a"), pop("a", 2, 3), pop("a", 4, 5))
            # A pop without a reply does not bring the element back.
            self.illegal(kind, add(0, 1, "a"), (4, pop("a", 0, 0)[1], [], UNKNOWN, 2, NEVER), pop("a", 4, 5), wait("a", 6, 7))

    def test_history_with_pops_out_of_order_is_illegal(self):
        for kind, add, pop, wait in self.each():
            self.legal(kind, add(0, 1, "a", "b"), wait("a", 2, 3), pop("b", 4, 5))
            self.illegal(kind, add(0, 1, "a", "b"), wait("b", 2, 3), pop("a", 4, 5))
            self.legal(kind, add(0, 1, "a", "b"), wait("b", 2, 5), pop("a", 3, 4))  # the second pop may have been first

    def test_history_with_a_timeout_is_legal_only_if_there_was_no_element_at_some_moment_of_the_call(self):
        for kind, add, pop, wait in self.each():
            self.legal(kind, wait(None, 0, 1))
            self.illegal(kind, add(0, 1, "a"), wait(None, 2, 3))
            self.illegal(kind, add(0, 1, "a"), wait(None, 2, 3), pop("a", 4, 5))
            self.legal(kind, wait(None, 0, 3), add(1, 2, "a"), pop("a", 4, 5))  # it was empty when the call began
            self.legal(kind, add(0, 1, "a"), wait(None, 2, 5), pop("a", 3, 4))  # it was empty when the call ended
            second = (1, *add(0, 0, "b")[1:3], 2 if kind == "list" else 1, 2, 3)
            # Another element was added before the first one was popped.
            self.illegal(kind, add(0, 1, "a"), second, wait(None, 2, 7), pop("a", 4, 5))
            self.illegal(kind, add(0, 1, "a"), pop(None, 2, 3))

    def test_history_in_which_an_added_element_is_lost_is_illegal(self):
        for kind, add, pop, _ in self.each():
            whole = "LRANGE" if kind == "list" else "ZRANGE"
            self.legal(kind, add(0, 1, "a", "b"), pop("a", 2, 3), (9, whole, [0, -1], ["b"], 4, 5))
            self.illegal(kind, add(0, 1, "a", "b"), pop("a", 2, 3), (9, whole, [0, -1], [], 4, 5))
            # A pop without a reply, because of a kill, explains one lost element, not two.
            unknown = (4, "BLPOP" if kind == "list" else "BZPOPMIN", [9], UNKNOWN, 2, NEVER)
            self.legal(kind, add(0, 1, "a", "b"), unknown, (9, whole, [0, -1], ["b"], 4, 5))
            self.illegal(kind, add(0, 1, "a", "b"), unknown, (9, whole, [0, -1], [], 4, 5))

    def test_pops_of_several_elements_return_them_from_their_end(self):
        state = ("a", "b", "c", "d")
        self.assertEqual(list_step(state, "LPOP", (3,)), (["a", "b", "c"], ("d",)))
        self.assertEqual(list_step(state, "RPOP", (3,)), (["d", "c", "b"], ("a",)))
        self.assertEqual(list_step(state, "RPOP", (9,)), (["d", "c", "b", "a"], ()))
        self.assertEqual(list_step(state, "RPOP", ()), ("d", ("a", "b", "c")))
        state = ((1, "a"), (2, "b"), (3, "c"))
        self.assertEqual(zset_step(state, "ZPOPMIN", (2,)), (["a", "1", "b", "2"], ((3, "c"),)))
        self.assertEqual(zset_step(state, "ZPOPMAX", (2,)), (["c", "3", "b", "2"], ((1, "a"),)))
        self.assertEqual(zset_step(state, "ZPOPMAX", (9,)), (["c", "3", "b", "2", "a", "1"], ()))


if __name__ == "__main__":
    unittest.main()
