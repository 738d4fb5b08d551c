"""Tests that an exception in a thread beside a test fails the test."""

import sys
import threading
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.meanwhile import meanwhile  # noqa: E402


class Meanwhile(unittest.TestCase):
    def test_meanwhile_calls_every_function_before_its_block_ends(self):
        done = []
        with meanwhile(lambda: done.append("a"), lambda: done.append("b")):
            pass
        self.assertEqual(set(done), {"a", "b"})

    def test_meanwhile_raises_the_exception_of_a_thread_at_its_end(self):
        def fail():
            raise ValueError("seen")

        with self.assertRaisesRegex(ValueError, "seen"):
            with meanwhile(fail, lambda: None):
                pass

    def test_meanwhile_ends_its_threads_if_its_block_raises_an_exception(self):
        before = threading.active_count()
        with self.assertRaises(KeyError):
            with meanwhile(lambda: None):
                raise KeyError
        self.assertEqual(threading.active_count(), before)


if __name__ == "__main__":
    unittest.main()
