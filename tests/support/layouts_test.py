"""Tests that layouts include every policy with valid parameters, and are the same for the same seed."""

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
    """Returns {policy: {parameter: (least, most)}} from engine/docs/policies.md. An engine test compares the table there with the
    code."""
    rows = re.findall(r"^\| `(\w+)` \| `(\w+)` \| ([\d.]+) to ([\d.]+)", (ROOT / "engine/docs/policies.md").read_text(), re.MULTILINE)
    table = {}
    for policy, parameter, least, most in rows:
        table.setdefault(policy, {})[parameter] = (float(least), float(most))
    return table


class Layouts(unittest.TestCase):
    def test_layouts_have_valid_parameters_of_every_merge_policy(self):
        table = allowed()
        self.assertEqual(set(POLICIES), set(table))
        for policy, parameters in POLICIES.items():
            for parameter, values in parameters.items():
                least, most = table[policy][parameter]
                self.assertTrue(all(least <= value <= most for value in values), f"{policy}: {parameter}")

    def test_layouts_have_every_merge_policy_once_before_one_occurs_again(self):
        names = [layout["tree.policy.name"] for layout in itertools.islice(layouts(random.Random(7)), 2 * len(POLICIES))]
        self.assertEqual(set(names[: len(POLICIES)]), set(POLICIES))
        self.assertEqual(set(names[len(POLICIES) :]), set(POLICIES))

    def test_layouts_of_the_same_seed_are_the_same(self):
        first, again, other = (list(itertools.islice(layouts(random.Random(seed)), 20)) for seed in (1, 1, 2))
        self.assertEqual(first, again)
        self.assertNotEqual(first, other)

    def test_change_of_a_layout_removes_parameters_of_the_previous_policy(self):
        server = SimpleNamespace(settings={"tree.policy.name": "leveling", "tree.policy.size_ratio": 4, "storage.fsync": "no"})
        change(server, {"tree.policy.name": "binomial", "tree.policy.k": 3, "tree.pages_per_tile": 8})
        self.assertEqual(
            server.settings, {"tree.policy.name": "binomial", "tree.policy.k": 3, "tree.pages_per_tile": 8, "storage.fsync": "no"}
        )
        self.assertEqual(switch(server.settings), ("TREE.POLICY", "binomial", "k", "3"))


if __name__ == "__main__":
    unittest.main()
