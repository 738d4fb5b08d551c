"""Tests that a torture round succeeds only if tests passed, that it ends all processes that it started, and that an interrupted
run can be resumed."""

import contextlib
import fnmatch
import io
import json
import os
import pty
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import run


class Kept(unittest.TestCase):
    """Base of tests with a directory of their own, in which runs store their state."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.addCleanup(setattr, run, "OUT", run.OUT)
        self.folder = run.OUT = Path(folder.name)


class Rounds(Kept):
    def round(self, *printed, status=0):
        """Runs a program with one command per text. The first command exits with the status."""
        commands = [["sh", "-c", f"echo '{text} of seed' $EBBTIDE_SEED; exit {status if text is printed[0] else 0}"] for text in printed]
        return self.run_commands(commands)

    def run_commands(self, commands, preset="release", minutes=20):
        state = run.State("none", 7, preset)
        program = run.Program("", commands, {}, {"tests": r"(\d+) passed"}, minutes)
        return (*run.run_round(program, state), state.figures["tests"])

    def test_round_adds_up_the_tests_that_its_commands_passed(self):
        good, output, tests = self.round("3 passed, 4 passed")
        self.assertEqual((good, tests), (True, 7))
        self.assertIn("of seed 7\n", output)
        self.assertEqual(self.round("3 passed", "4 passed")[::2], (True, 7))

    def test_state_keeps_the_largest_measured_value_of_all_rounds(self):
        state = run.State("none", 7)

        def round_that_says(text):
            program = run.Program("", [["echo", text]], {}, {}, largest={"worst": r"at ([\d.]+)"})
            return run.run_round(program, state)[0]

        self.assertTrue(round_that_says("at 0.25, at 0.875, at 0.5"))
        self.assertTrue(round_that_says("at 0.625"))
        self.assertEqual(state.figures, {"worst": 0.875})
        self.assertTrue(state.summary().endswith(", 0.875 worst"))
        self.assertFalse(round_that_says("nowhere"))

    def test_round_in_which_no_test_passed_fails(self):
        for printed in ("5 skipped", "No test cases matched", "0 passed"):
            self.assertFalse(self.round(printed)[0])

    def test_command_with_an_error_status_fails_the_round_and_the_line_that_repeats_it_is_printed(self):
        good, output, tests = self.round("3 passed", "4 passed", status=1)
        self.assertFalse(good)
        self.assertEqual(tests, 3)  # no command runs after a failed command
        self.assertRegex(output, r"\nrepeat: EBBTIDE_SEED=7 .*3 passed")
        # The printed line must work in a shell.
        line = output.split("\nrepeat: ")[1]
        again = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False)
        self.assertEqual((again.stdout, again.returncode), ("3 passed of seed 7\n", 1))

    def test_report_of_a_sanitizer_fails_the_round(self):
        write = "echo a race >$(echo $TSAN_OPTIONS | sed 's/log_path=//; s/:.*//').1; echo 3 passed"
        good, output, tests = self.run_commands([["sh", "-c", write]], "tsan")
        self.assertEqual((good, tests), (False, 3))
        self.assertIn("\na race\n", output)
        self.assertIn("build/tsan/bin/ebbtide-server", output)
        # The next round must start without this report.
        self.assertTrue(self.run_commands([["sh", "-c", "echo 3 passed"]], "tsan")[0])

    def test_round_that_exceeds_its_time_fails_and_its_output_is_kept(self):
        began = time.monotonic()
        good, output, tests = self.run_commands([["sh", "-c", "echo 3 passed; sleep 1000 & wait"], ["echo", "4 passed"]], minutes=1 / 60)
        self.assertEqual((good, tests), (False, 3))
        self.assertIn("3 passed", output)
        self.assertRegex(output, r"not done after 0.01.* minutes\n")
        self.assertLess(time.monotonic() - began, run.END_SECONDS)

    def test_no_process_outlives_its_round(self):
        """The processes include one that ignores SIGTERM."""
        pids = self.folder / "pids"
        deaf = f"(trap '' TERM; echo $(exec sh -c 'echo $PPID') >>{pids}; while :; do sleep 1; done) &"
        self.assertTrue(self.run_commands([["sh", "-c", f"{deaf} while ! [ -s {pids} ]; do sleep 0.1; done; echo 3 passed"]])[0])
        self.assertTrue(ends(int(pids.read_text())))


def ends(pid, seconds=10):
    """Returns true if the process ends within the seconds. A zombie counts as ended."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
                return True
        except FileNotFoundError:
            return True
        time.sleep(0.05)
    return False


class Programs(unittest.TestCase):
    """Tests that the tests and files named in the programs exist."""

    def commands(self, name):
        program = run.PROGRAMS[name]
        return [[word.format(seed=1, preset="release") for word in words] for words in program.commands]

    def test_torture_programs_of_the_engine_name_existing_tests(self):
        named = 0
        for program in run.PROGRAMS:
            for binary, *options, case in self.commands(program):
                layer = Path(binary).name.removeprefix("test_engine_")
                if layer == Path(binary).name:
                    continue
                folder = run.ROOT / "tests/engine" / layer
                sources = [path.read_text() for path in (*folder.glob("*_test.cc"), *folder.glob("scenarios/*_test.cc"))]
                cases = re.findall(r'TEST_CASE\(\s*"([^"]*)"(?:,\s*"([^"]*)")?', "\n".join(sources))
                self.assertEqual(options, ["--warn", "NoTests"])  # otherwise Catch2 exits with 0 if there is no such test
                found = [tags for name, tags in cases if (case in tags if case.startswith("[") else fnmatch.fnmatchcase(name, case))]
                self.assertTrue(found, (program, case))
                # A test with threads would be of use under the thread sanitizer.
                self.assertFalse(any("[threads]" in tags for tags in found), (program, case))
                named += 1
        self.assertGreater(named, 10)

    def test_torture_programs_of_the_contract_name_existing_files(self):
        for program in run.PROGRAMS:
            for words in self.commands(program):
                for word in words:
                    if word.startswith("tests/contract/"):
                        self.assertTrue((run.ROOT / word).exists(), (program, word))

    def test_build_preset_that_a_program_does_not_use_is_refused(self):
        for name, preset in (("model", "tsan"), ("damage", "tsan"), ("fuzz-wal", "asan"), ("fuzz-wal", "tsan")):
            with contextlib.redirect_stderr(io.StringIO()) as said, self.assertRaises(SystemExit) as ended:
                run.main([name, "--preset", preset])
            self.assertEqual(ended.exception.code, 2)
            self.assertIn(f"{name} with --preset {preset}: ", said.getvalue())


class Runs(Kept):
    """Tests whole runs as processes of their own, with a program whose rounds are shell commands."""

    def start(self, shell, *options, stdout=subprocess.PIPE, patch=""):
        code = f"""
import pathlib, run, sys
run.OUT = pathlib.Path({str(self.folder)!r})
run.PROGRAMS = {{"none": run.Program("", [["sh", "-c", {shell!r}]], {{}}, {{"tests": r"(\\d+) passed"}})}}
{patch}
sys.exit(run.main(["none", *sys.argv[1:]]))
"""
        here = {**os.environ, "PYTHONPATH": str(Path(run.__file__).parent), "PYTHONDONTWRITEBYTECODE": "1", "HERE": str(self.folder)}
        process = subprocess.Popen([sys.executable, "-c", code, *options], env=here, stdout=stdout, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def whole(self, shell, *options):
        """Runs the program for one round. Returns (output, status)."""
        process = self.start(shell, "--minutes", "0", *options)
        said = process.communicate(timeout=60)[0]
        return said, process.returncode

    def kept(self, name="none"):
        return json.loads((self.folder / f"{name}.json").read_text())

    def wait_for(self, path):
        until = time.monotonic() + 30
        while not (path.exists() and path.read_text().endswith("\n")):
            self.assertLess(time.monotonic(), until)
            time.sleep(0.02)
        return path.read_text()

    def test_resumed_torture_run_continues_where_the_last_one_stopped(self):
        said, status = self.whole("echo 3 passed of $EBBTIDE_SEED", "--seed", "7")
        self.assertEqual(status, 0)
        self.assertRegex(said, r"\ntorture none: 1 round in \d+ s from seed 7, 3 tests\n$")
        said, status = self.whole("echo 3 passed; echo $EBBTIDE_SEED >$HERE/seed", "--resume")
        self.assertRegex(said, r"\ntorture none: 2 rounds in \d+ s from seed 7, 6 tests\n$")
        self.assertEqual((self.folder / "seed").read_text(), f"{7 + run.SEEDS_A_ROUND}\n")

    def test_torture_run_that_failed_in_its_first_round_can_be_resumed(self):
        self.whole("echo 3 passed", "--seed", "7")
        said, status = self.whole("echo 2 passed; echo no; exit 1", "--seed", "8")
        self.assertEqual(status, 1)
        self.assertRegex(said, r"\nno\n\nrepeat: EBBTIDE_SEED=8 ")
        self.assertRegex(said, r"\ntorture none: FAILED in round 1; .*none-8.log\ntorture none: 0 rounds in \d+ s from seed 8, 2 tests\n$")
        self.assertIn("2 passed\nno\n", (self.folder / "none-8.log").read_text())
        self.assertEqual((self.kept()["seed"], self.kept()["rounds"], self.kept()["figures"]), (8, 0, {}))
        said, status = self.whole("echo 3 passed", "--resume")
        self.assertRegex(said, r"\ntorture none: 1 round in \d+ s from seed 8, 3 tests\n$")

    def test_torture_runs_of_each_build_preset_have_a_state_of_their_own(self):
        self.whole("echo 3 passed", "--seed", "7")
        said, status = self.whole("echo 4 passed", "--seed", "8", "--preset", "tsan")
        self.assertRegex(said, r"\ntorture none-tsan: 1 round in \d+ s from seed 8, 4 tests\n$")
        self.assertEqual((self.kept()["seed"], self.kept("none-tsan")["seed"]), (7, 8))
        said, status = self.whole("echo 3 passed", "--resume", "--preset", "asan")
        self.assertEqual(status, 1)
        self.assertIn("nothing to resume", said)

    def test_signal_to_a_torture_run_ends_its_processes_and_keeps_its_state(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            pids = self.folder / f"pids-{number}"
            first = f"$HERE/first-{number}"
            rounds = f"echo 3 passed; if ! [ -e {first} ]; then touch {first}; exit; fi; sleep 1000 & echo $$ $! >{pids}; wait"
            process = self.start(rounds, "--seed", "7")
            running = list(map(int, self.wait_for(pids).split()))
            process.send_signal(number)
            said = process.communicate(timeout=60)[0]
            self.assertEqual(process.returncode, 128 + number)
            self.assertRegex(said, rf"\nstopped by {number.name}; .*\ntorture none: 1 round in \d+ s from seed 7, 3 tests\n$")
            self.assertEqual((self.kept()["seed"], self.kept()["rounds"], self.kept()["figures"]), (7, 1, {"tests": 3}))
            for pid in running:
                self.assertTrue(ends(pid), pid)

    def test_process_that_ignores_sigterm_is_killed_at_the_second_signal(self):
        pid = self.folder / "pid"
        process = self.start(f"trap '' TERM; echo $$ >{pid}; while :; do sleep 1; done")
        running = int(self.wait_for(pid))
        process.send_signal(signal.SIGTERM)
        with self.assertRaises(subprocess.TimeoutExpired):
            process.wait(1)
        process.send_signal(signal.SIGTERM)
        self.assertIn("\nstopped by SIGTERM", process.communicate(timeout=20)[0])
        self.assertTrue(ends(running))

    def test_terminal_shows_the_time_of_a_running_round(self):
        ours, theirs = pty.openpty()
        self.addCleanup(os.close, ours)
        process = self.start("sleep 1; echo 3 passed", "--minutes", "0", "--seed", "7", stdout=theirs, patch="run.TELL_SECONDS = 0.1")
        os.close(theirs)
        said = b""
        try:
            while part := os.read(ours, 65536):
                said += part
        except OSError:
            pass  # reading fails once the other side is closed
        self.assertEqual(process.wait(), 0)
        said = said.decode()
        self.assertRegex(said, "\r\x1b\\[K  round 1     0 s so far\r\x1b\\[K.*\r\x1b\\[K  round 1 +1\\.\\d s   left: 0 s\r\n")
        self.assertNotIn("so far", self.whole("sleep 1; echo 3 passed")[0])


if __name__ == "__main__":
    unittest.main()
