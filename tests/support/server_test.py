"""Tests that no two servers of one test run get the same port."""

import sys
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.server import free_port  # noqa: E402


class FreePort(unittest.TestCase):
    def test_server_and_its_metrics_get_different_ports(self):
        """Both ports once came from one random draw, which sometimes gave the same number twice."""
        given = [free_port() for _ in range(400)]
        self.assertEqual(len(set(given)), len(given))

    def test_threads_that_ask_for_most_of_the_ports_get_different_ones(self):
        """Calls of several threads once got one port when few ports were left."""
        with ThreadPoolExecutor(8) as pool:
            given = list(pool.map(lambda _: free_port("gw5"), range(1_100)))
        self.assertEqual(len(set(given)), len(given))

    def test_more_servers_than_ports_get_ports_again(self):
        self.assertGreater(len({free_port("gw6") for _ in range(2_600)}), 1_000)

    def test_workers_get_different_ports(self):
        def remainders(worker):
            return {free_port(worker) % 16 for _ in range(20)}

        for other in ("gw1", "gw2", "gw15"):
            self.assertTrue(remainders("gw0").isdisjoint(remainders(other)))


if __name__ == "__main__":
    unittest.main()
