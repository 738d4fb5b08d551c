"""Tests that the checker accepts legal histories and refuses illegal histories."""

import random
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.linearizability import NEVER, UNKNOWN, Operation, violation  # noqa: E402


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


if __name__ == "__main__":
    unittest.main()
