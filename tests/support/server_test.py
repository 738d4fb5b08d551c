"""Tests that no two servers of one test run get the same port."""

import sys
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.server import free_port  # noqa: E402


class FreePort(unittest.TestCase):
    def test_free_port_returns_no_port_twice_in_400_calls(self):
        """Both ports once came from one random draw, which sometimes gave the same number twice."""
        given = [free_port() for _ in range(400)]
        self.assertEqual(len(set(given)), len(given))

    def test_free_port_returns_different_ports_to_concurrent_threads(self):
        """Calls of several threads once got one port when few ports were left."""
        with ThreadPoolExecutor(8) as pool:
            given = list(pool.map(lambda _: free_port("gw5"), range(1_100)))
        self.assertEqual(len(set(given)), len(given))

    def test_free_port_returns_earlier_ports_again_when_all_were_used(self):
        self.assertGreater(len({free_port("gw6") for _ in range(2_600)}), 1_000)

    def test_free_port_returns_different_ports_to_different_pytest_workers(self):
        def remainders(worker):
            return {free_port(worker) % 16 for _ in range(20)}

        for other in ("gw1", "gw2", "gw15"):
            self.assertTrue(remainders("gw0").isdisjoint(remainders(other)))


if __name__ == "__main__":
    unittest.main()
