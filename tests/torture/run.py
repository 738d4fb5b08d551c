"""./dev torture NAME: a test of the commit gate, again and again with other seeds, for as long as wanted.

Prints a line a round, keeps where it is in build/torture/NAME.json (a run that was cut off goes on with --resume), and ends with a
line of figures. The first failure ends it: its output is kept, and the line that repeats it is printed.

With --preset asan or tsan it is the server, or the test program, under the address and undefined-behaviour sanitizers or the thread
sanitizer; a report of theirs is a failure. How much memory the server takes is not judged then.
"""

import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OUT = ROOT / "build" / "torture"
SEEDS_A_ROUND = 1000  # of tests that count their seeds: a round takes so many


class Program:
    """What a round runs: commands, one after the other. `counts` finds figures in their output: name -> pattern whose first group is a
    number; all are added up."""

    def __init__(self, about, commands, environment, counts):
        self.about, self.commands, self.environment, self.counts = about, commands, environment, counts


def contract(tests, about, counts=None, **environment):
    pytest = ["/usr/bin/python3", "-m", "pytest", "-q", "-x", "-s", "-p", "no:cacheprovider", f"tests/contract/{tests}"]
    return Program(about, [pytest], environment, {"tests": r"(\d+) passed", **(counts or {})})


def engine(cases, about, counts=None, **environment):
    """cases: {layer: what its tests are called}."""
    tests = [[str(ROOT / "build/{preset}/bin" / f"test_engine_{layer}"), case] for layer, case in cases.items()]
    return Program(about, tests, environment, {"assertions": r"All tests passed \((\d+) assertions", **(counts or {})})


def fuzz(name, about):
    """What a round keeps the next ones go on from, in later runs, too."""
    program = [str(ROOT / "build/fuzz/bin" / f"fuzz_{name}"), "--seconds", "60", "--seed", "{seed}",
               "--keep", f"build/torture/corpus/{name}", f"tests/fuzz/corpus/{name}"]  # fmt: skip
    return Program(f"fuzzing: {about}", [program], {}, {"runs": r"(\d+) runs, \d+ inputs kept, seed"})


PROGRAMS = {
    "kill": contract("test_kill.py", "kill -9 of the server under load; expected state kept outside it", {"kills": r"(\d+) kills survived"}),
    "linearizability": contract(
        "test_linearizability.py", "histories of 8 clients on 10 keys, half of them with kills", {"operations": r"(\d+) operations on"}
    ),
    "atomicity": contract("test_atomicity.py", "transactions of concurrent clients, some with kills", {"transactions": r"(\d+) transactions"}),
    "network": contract("test_limits.py", "clients that never read, dribble, reset or only sit there, and too few file descriptors"),
    "scan": contract("test_stamps.py", "scans while others write, flush and compact; deletes by stamp through kills"),
    "contract": contract("", "every test of the running server; with --preset the one way to see all of it under a sanitizer"),
    "full-disk": contract("test_full_disk.py", "a data directory on a small tmpfs fills up and heals"),
    "differential": contract(
        "test_differential_values.py", "command sequences against redis-server", EBBTIDE_DIFFERENTIAL_SEED="{seed}", EBBTIDE_DIFFERENTIAL_ROUNDS="200"
    ),
    "model": engine(
        {"db": "model:*"},
        "random operations against ordered maps, under every option set",
        {"operations": r"(\d+) model operations"},
        EBBTIDE_MODEL_ROUNDS="12",
    ),
    "power-loss": engine(
        {"db": "power loss*", "wal": "power loss*"},
        f"simulated power loss, {SEEDS_A_ROUND:,} seeds a round",
        EBBTIDE_CRASH_SEEDS=str(SEEDS_A_ROUND),
    ),
    "crash": engine({"db": "a crash*", "version": "a crash*"}, "a crash before every file operation, power lost", EBBTIDE_CRASH_STEP="1"),
    "faults": engine(
        {"db": "an I/O error*,a read that fails*,a file operation that fails*"},
        "an I/O error at each file operation, once and from then on",
        EBBTIDE_FAULTS="1000000",
    ),
    "damage": engine(
        {"db": "damage to any file*", "table": "every byte that flips*", "wal": "every flipped bit*", "version": "every flipped bit*"},
        "files flipped, cut, swapped and stale; nothing wrong is served",
        EBBTIDE_CRASH_SEEDS="10000",
        EBBTIDE_FLIP_STRIDE="1",
    ),
    "deadlines": engine({"db": "[deadlines]"}, "markers of what was deleted, looked for in every file after the deadline", EBBTIDE_FADE_ALL="1"),
    "fuzz-resp": fuzz("resp", "the request parser, whole, in pieces and byte by byte"),
    "fuzz-glob": fuzz("glob", "patterns"),
    "fuzz-config": fuzz("config", "the configuration file, read and written back"),
    "fuzz-wal": fuzz("wal", "segments of the log, checksums mended"),
    "fuzz-manifest": fuzz("manifest", "manifests, checksums mended"),
    "fuzz-table": fuzz("table", "the two files of a table, checksums mended"),
    "fuzz-operations": fuzz("operations", "operations on a database beside ordered maps, with restarts and kills"),
}


MUTATIONS = "  mutations        changes the engine at random and looks whether its tests notice; --count N, --layers; mutations --help"


def show_time(seconds):
    return f"{seconds / 3600:.1f} h" if seconds >= 7200 else f"{seconds / 60:.1f} min" if seconds >= 120 else f"{seconds:.0f} s"


def sanitizer_options(directory):
    """They write their reports into the directory, whatever becomes of the output of what they are in."""
    options = {"ASAN": "", "UBSAN": "print_stacktrace=1", "LSAN": "", "TSAN": "detect_deadlocks=0"}  # its detector ends at 64 locks at once
    return {f"{name}_OPTIONS": f"log_path={directory / name.lower()}:{more}" for name, more in options.items()}


class State:
    """Where a run is; written after each round."""

    def __init__(self, name, seed):
        self.path = OUT / f"{name}.json"
        self.name, self.seed, self.rounds, self.seconds, self.figures = name, seed, 0, 0.0, {}

    @classmethod
    def resume(cls, name):
        state = cls(name, 0)
        if not state.path.exists():
            sys.exit(f"torture: there is nothing to resume: {state.path} does not exist")
        kept = json.loads(state.path.read_text())
        state.seed, state.rounds, state.seconds, state.figures = (kept[key] for key in ("seed", "rounds", "seconds", "figures"))
        return state

    def keep(self):
        OUT.mkdir(parents=True, exist_ok=True)
        fields = ("name", "seed", "rounds", "seconds", "figures")
        self.path.write_text(json.dumps({key: getattr(self, key) for key in fields}, indent=2) + "\n")

    def summary(self):
        figures = "".join(f", {count:,} {what}" for what, count in self.figures.items())
        return f"torture {self.name}: {self.rounds:,} rounds in {show_time(self.seconds)} from seed {self.seed}{figures}"


def run_round(program, state, preset="release"):
    """(whether all was well, what was printed); a round in which nothing was counted is not well. The seeds of two rounds do not
    meet."""
    seed = state.seed + state.rounds * SEEDS_A_ROUND
    environment = {key: value.format(seed=seed) for key, value in program.environment.items()}
    environment = {"EBBTIDE_SEED": str(seed), **environment, "PYTHONPATH": str(ROOT / "tests")}
    reports = OUT / f"{state.name}-reports"
    shutil.rmtree(reports, ignore_errors=True)  # of the round before
    if preset != "release":
        reports.mkdir(parents=True)
        environment |= {"EBBTIDE_SANITIZED": "1", "EBBTIDE_SERVER": str(ROOT / f"build/{preset}/bin/ebbtide-server"), **sanitizer_options(reports)}
    good, output, repeat = True, "", ""
    for words in program.commands:
        command = [word.format(seed=seed, preset=preset) for word in words]
        done = subprocess.run(command, cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True, errors="replace", check=False)
        output += done.stdout + done.stderr
        good = done.returncode == 0
        repeat = " ".join([*(f"{key}={value}" for key, value in environment.items()), *command])
        if not good:
            break
    for report in sorted(reports.glob("*")) if reports.exists() else []:
        good, output = False, f"{output}\n{report.read_text(errors='replace')}"
    for what, pattern in program.counts.items():
        found = sum(map(int, re.findall(pattern, output)))
        state.figures[what] = state.figures.get(what, 0) + found
        if good and found == 0:  # skipped, or no test has that name any more
            good, output = False, f"{output}\nno {what} in this round"
    return good, f"{output}\nrepeat: {repeat}\n"


def main():
    names = "\n".join(f"  {name:<16} {program.about}" for name, program in PROGRAMS.items())
    parser = argparse.ArgumentParser(
        prog="./dev torture", description=__doc__, epilog=f"names:\n{names}\n{MUTATIONS}", formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", choices=PROGRAMS, metavar="NAME", help="what to run; the names stand below")
    parser.add_argument("--minutes", type=float, default=10, metavar="N", help="stop after the round that is under way by then (default: 10)")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="first seed; by default one that is new")
    parser.add_argument("--preset", choices=("release", "asan", "tsan"), default="release", help="what it is built as (default: release)")
    parser.add_argument("--resume", action="store_true", help="go on where the last run of this name stopped")
    options = parser.parse_args()
    program = PROGRAMS[options.name]
    state = State.resume(options.name) if options.resume else State(options.name, options.seed or random.SystemRandom().randrange(1, 2**30))
    print(f"torture {options.name}: {program.about}; seed {state.seed}", flush=True)
    end = time.monotonic() + options.minutes * 60
    try:
        while True:
            began = time.monotonic()
            good, output = run_round(program, state, options.preset)
            took = time.monotonic() - began
            state.seconds += took
            if not good:
                OUT.mkdir(parents=True, exist_ok=True)
                log = OUT / f"{options.name}-{state.seed + state.rounds * SEEDS_A_ROUND}.log"
                log.write_text(output)
                print("\n".join(output.splitlines()[-40:]))
                print(f"torture {options.name}: FAILED in round {state.rounds + 1}; everything it said: {log}")
                return 1
            state.rounds += 1
            state.keep()
            print(f"  round {state.rounds:<5} {took:6.1f} s   left: {show_time(max(0.0, end - time.monotonic()))}", flush=True)
            if time.monotonic() >= end:
                break
    except KeyboardInterrupt:
        print("stopped; --resume goes on")
    print(state.summary())
    return 0


if __name__ == "__main__":
    sys.exit(main())
