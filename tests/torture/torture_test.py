"""A round of torture is a success only if it did something."""

import unittest

import run


class Rounds(unittest.TestCase):
    def round(self, *printed, status=0):
        """A command for each text; the first ends with the status."""
        state = run.State("none", 7)
        commands = [["sh", "-c", f"echo '{text} of seed' $EBBTIDE_SEED; exit {status if text is printed[0] else 0}"] for text in printed]
        program = run.Program("", commands, {}, {"tests": r"(\d+) passed"})
        return (*run.run_round(program, state), state.figures["tests"])

    def test_figures_are_added_up(self):
        good, output, tests = self.round("3 passed, 4 passed")
        self.assertEqual((good, tests), (True, 7))
        self.assertIn("of seed 7\n", output)
        self.assertEqual(self.round("3 passed", "4 passed")[::2], (True, 7))

    def test_a_round_that_did_nothing_has_failed(self):
        for printed in ("5 skipped", "No test cases matched", "0 passed"):
            self.assertFalse(self.round(printed)[0])

    def test_a_status_is_a_failure_and_is_repeated(self):
        good, output, tests = self.round("3 passed", "4 passed", status=1)
        self.assertFalse(good)
        self.assertEqual(tests, 3)  # nothing comes after a failure
        self.assertRegex(output, r"\nrepeat: EBBTIDE_SEED=7 .*3 passed")


if __name__ == "__main__":
    unittest.main()
