"""Tests that mutations change one line of code each, and that the same seed gives the same mutations."""

import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import mutate


def results(code):
    text = f"\n{code}\n"
    changed = [m.applied_to(text).split("\n")[1] for m in mutate.mutations_of(Path("a.cc"), text)]
    assert code not in changed
    return changed


class Mutations(unittest.TestCase):
    def test_line_of_each_kind_of_code_gets_the_expected_mutations(self):
        for code, changed in (
            ("  while (a < b) {", "  while (a <= b) {"),
            ("  return a + 1;", "  return a;"),
            ("  return a == b && c;", "  return a == b || c;"),
            ("  if (f(a)) return b;", "  if (!(f(a))) return b;"),
            ("  list_.push_back(a);", "  ;"),
            ("  at->size += bytes;", "  ;"),
            ("  ++count;", "  ;"),
            ("  TRY(file->sync());", "  (void)(file->sync());"),
            ("constexpr int kSlots = 16;", "constexpr int kSlots = 17;"),
            ("  a = std::min(a, b);", "  a = std::max(a, b);"),
        ):
            with self.subTest(code):
                self.assertIn(changed, results(code))

    def test_comments_includes_assertions_and_strings_are_not_mutated(self):
        for code in ("// a < b", '#include "x1.h"', "  ASSERT(a < b);", "std::vector<std::pair<Key, Value>> list;", '  say("a < b");'):
            with self.subTest(code):
                self.assertEqual(results(code), ["  ;"] if "say" in code else [])

    def test_line_with_a_declaration_or_return_is_never_removed(self):
        for code in ("  auto it = f(a);", "  return f(a);", "  Status status = f(a);", "  Foo foo(a);"):
            with self.subTest(code):
                self.assertNotIn("  ;", results(code))

    def test_same_seed_draws_the_same_mutations(self):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            for layer in ("wal", "deletes"):
                (root / "engine" / layer).mkdir(parents=True)
                (root / "engine" / layer / "a.cc").write_text("\n".join(f"  if (a{i} < b) ++c{i};" for i in range(50)))

            def drawn(seed):
                return [(layer, m.line, m.new) for layer, m in mutate.draw(root, seed, ["wal", "deletes"])]

            first = drawn(1)
            self.assertEqual(first, drawn(1))
            self.assertNotEqual(first, drawn(2))
            self.assertEqual([layer for layer, *_ in first[:4]], ["wal", "deletes", "wal", "deletes"])
            self.assertEqual(len(first), len(set(first)))


class Resumed(unittest.TestCase):
    def test_resumed_mutation_run_has_the_earlier_results_in_order(self):
        with tempfile.TemporaryDirectory() as folder:
            kept, mutate.STATE = mutate.STATE, Path(folder) / "torture/mutations.json"
            try:
                state = mutate.State(5, ["wal"])
                for number, by in enumerate((None, "", "test_engine_wal: case")):
                    state.keep(mutate.Mutation(Path("engine/wal/a.cc"), number, "a number grows by one", "", ""), by)
                again = mutate.State.resume()
            finally:
                mutate.STATE = kept
        self.assertEqual((again.seed, again.layers, again.verdicts), (5, ["wal"], state.verdicts))
        self.assertEqual(again.verdicts[1], ("engine/wal/a.cc:2: a number grows by one", ""))
        self.assertEqual(again.counted(), [None, "test_engine_wal: case"])


if __name__ == "__main__":
    unittest.main()
