"""Tests that no two servers of one test run get the same port."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.server import free_port  # noqa: E402


class FreePort(unittest.TestCase):
    def test_server_and_its_metrics_get_different_ports(self):
        """Both ports once came from one random draw, which sometimes gave the same number twice."""
        given = [free_port() for _ in range(400)]
        self.assertEqual(len(set(given)), len(given))

    def test_workers_get_different_ports(self):
        def remainders(worker):
            return {free_port(worker) % 16 for _ in range(20)}

        for other in ("gw1", "gw2", "gw15"):
            self.assertTrue(remainders("gw0").isdisjoint(remainders(other)))


if __name__ == "__main__":
    unittest.main()
