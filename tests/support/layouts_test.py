"""Layouts: every policy has its turn, with parameters that it has; a seed repeats them."""

import itertools
import random
import re
import sys
import unittest
from pathlib import Path
from types import SimpleNamespace

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.layouts import POLICIES, change, layouts, switch  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]


def allowed():
    """{policy: {parameter: (least, most)}} of engine/docs/policies.md, whose table a test of the engine holds against the registry."""
    rows = re.findall(r"^\| `(\w+)` \| `(\w+)` \| ([\d.]+) to ([\d.]+)", (ROOT / "engine/docs/policies.md").read_text(), re.MULTILINE)
    table = {}
    for policy, parameter, least, most in rows:
        table.setdefault(policy, {})[parameter] = (float(least), float(most))
    return table


class Layouts(unittest.TestCase):
    def test_all_policies_are_there_with_parameters_that_they_have(self):
        table = allowed()
        self.assertEqual(set(POLICIES), set(table))
        for policy, parameters in POLICIES.items():
            for parameter, values in parameters.items():
                least, most = table[policy][parameter]
                self.assertTrue(all(least <= value <= most for value in values), f"{policy}: {parameter}")

    def test_each_policy_comes_before_any_comes_again(self):
        names = [layout["tree.policy.name"] for layout in itertools.islice(layouts(random.Random(7)), 2 * len(POLICIES))]
        self.assertEqual(set(names[: len(POLICIES)]), set(POLICIES))
        self.assertEqual(set(names[len(POLICIES) :]), set(POLICIES))

    def test_a_seed_repeats_them(self):
        first, again, other = (list(itertools.islice(layouts(random.Random(seed)), 20)) for seed in (1, 1, 2))
        self.assertEqual(first, again)
        self.assertNotEqual(first, other)

    def test_parameters_of_another_policy_do_not_stay(self):
        server = SimpleNamespace(settings={"tree.policy.name": "leveling", "tree.policy.size_ratio": 4, "storage.fsync": "no"})
        change(server, {"tree.policy.name": "binomial", "tree.policy.k": 3, "tree.pages_per_tile": 8})
        self.assertEqual(
            server.settings, {"tree.policy.name": "binomial", "tree.policy.k": 3, "tree.pages_per_tile": 8, "storage.fsync": "no"}
        )
        self.assertEqual(switch(server.settings), ("TREE.POLICY", "binomial", "k", "3"))


if __name__ == "__main__":
    unittest.main()
