"""A round of torture is a success only if it did something."""

import shutil
import unittest

import run


class Rounds(unittest.TestCase):
    def tearDown(self):
        shutil.rmtree(run.OUT / "none-reports", ignore_errors=True)

    def round(self, *printed, status=0):
        """A command for each text; the first ends with the status."""
        state = run.State("none", 7)
        commands = [["sh", "-c", f"echo '{text} of seed' $EBBTIDE_SEED; exit {status if text is printed[0] else 0}"] for text in printed]
        return self.run_commands(state, commands)

    def run_commands(self, state, commands, preset="release"):
        program = run.Program("", commands, {}, {"tests": r"(\d+) passed"})
        return (*run.run_round(program, state, preset), state.figures["tests"])

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

    def test_what_a_sanitizer_reports_is_a_failure(self):
        write = "echo a race >$(echo $TSAN_OPTIONS | sed 's/log_path=//; s/:.*//').1; echo 3 passed"
        good, output, tests = self.run_commands(run.State("none", 7), [["sh", "-c", write]], "tsan")
        self.assertEqual((good, tests), (False, 3))
        self.assertIn("\na race\n", output)
        self.assertIn("build/tsan/bin/ebbtide-server", output)
        # The next round starts without it.
        self.assertTrue(self.run_commands(run.State("none", 7), [["sh", "-c", "echo 3 passed"]], "tsan")[0])


if __name__ == "__main__":
    unittest.main()
