"""./dev torture NAME: repeats a test of ./dev test with new seeds for as long as wanted.

The program prints a line per round, stores its state in build/torture/NAME.json for --resume, and always ends with a line of
figures. The first failure ends the run: its output is stored, and the line that repeats it is printed. A round that takes far too
long is a failure, too. On a signal, the running round is ended with all its processes and does not count; the exit status is 128
plus the signal's number.

With --preset asan or tsan, the server or the test program runs under the address and undefined-behaviour sanitizers or the thread
sanitizer, and a sanitizer's report is a failure. The server's memory is not checked then. Such a run has a state of its own
(NAME-asan.json).
"""

import argparse
import json
import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OUT = ROOT / "build" / "torture"
SEEDS_A_ROUND = 1000  # seeds of a round, for tests that count their seeds
SLOWER = 3  # factor of a round's time limit under sanitizers
END_SECONDS = 30  # processes get this time to end: servers stop, file systems are unmounted
TELL_SECONDS = 5  # interval of the progress line on a terminal
LOOK_SECONDS = 0.2


class Program:
    """The commands of a round, run one after the other. `counts` finds figures in their output: {name: pattern whose first group
    is a number}; the numbers of all matches are added up. `largest` does the same, but keeps the largest number. A round longer
    than `minutes` counts as hanging; most rounds take less than one minute. `never`: {refused preset: reason}."""

    def __init__(self, about, commands, environment, counts, minutes=20, largest=None, never=None):
        self.about, self.commands, self.environment, self.counts, self.minutes = about, commands, environment, counts, minutes
        self.largest, self.never = largest or {}, never or {}


def contract(tests, about, counts=None, minutes=20, **environment):
    """Returns a program of contract tests. tests: file names separated by blanks; if empty, all files."""
    files = [f"tests/contract/{name}" for name in tests.split() or [""]]
    pytest = ["/usr/bin/python3", "-m", "pytest", "-q", "-x", "-s", "-p", "no:cacheprovider", *files]
    return Program(about, [pytest], environment, {"tests": r"(\d+) passed", **(counts or {})}, minutes)


def engine(cases, about, counts=None, largest=None, **environment):
    """Returns a program of the engine's tests. cases: {layer: names of its tests, separated by commas}; each name becomes a
    command. A name that no test has is an error."""
    tests = [
        [str(ROOT / "build/{preset}/bin" / f"test_engine_{layer}"), "--warn", "NoTests", name]
        for layer, names in cases.items()
        for name in names.split(",")
    ]
    never = {"tsan": "its tests have one thread, so the thread sanitizer can find nothing"}
    counts = {"assertions": r"All tests passed \((\d+) assertions", **(counts or {})}
    return Program(about, tests, environment, counts, largest=largest, never=never)


def fuzz(name, about):
    """Returns a fuzz program. Later rounds and runs continue from the inputs that a round keeps."""
    program = [str(ROOT / "build/fuzz/bin" / f"fuzz_{name}"), "--seconds", "60", "--seed", "{seed}",
               "--keep", f"build/torture/corpus/{name}", f"tests/fuzz/corpus/{name}"]  # fmt: skip
    none = dict.fromkeys(("asan", "tsan"), "it is built with the address and undefined-behaviour sanitizers anyway, and has one thread")
    return Program(f"fuzzing: {about}", [program], {}, {"runs": r"(\d+) runs, \d+ inputs kept, seed"}, never=none)


PROGRAMS = {
    "kill": contract("test_kill.py", "kill -9 of the server under load; its state is compared with a model", {"kills": r"(\d+) kills survived"}),
    "linearizability": contract(
        "test_linearizability.py", "histories of 8 clients on strings and queues, most of them with kills", {"operations": r"(\d+) operations on"}
    ),
    "indexes": contract(
        "test_index.py test_spatial.py", "indexes compared with scans of the records, through random commands, kills and restarts"
    ),
    "atomicity": contract("test_atomicity.py", "transactions of concurrent clients, some with kills", {"transactions": r"(\d+) transactions"}),
    "network": contract(
        "test_limits.py test_memory.py", "clients that never read, send slowly, reset or stay idle; too few file descriptors; too little memory"
    ),
    "scan": contract("test_stamps.py", "scans while others write, flush and compact; deletes by stamp through kills"),
    "contract": contract("", "every test of the running server; with --preset, all of it under a sanitizer", minutes=60),
    "full-disk": contract(
        "test_full_disk.py",
        "a data directory on a small tmpfs fills up and heals",
        {"cycles": r"(\d+) times a full disk healed"},
        EBBTIDE_FULL_DISK_CYCLES="20",
    ),
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
        {"db": "power loss*", "wal": "power is lost*"},
        f"simulated power loss, {SEEDS_A_ROUND:,} seeds a round",
        EBBTIDE_CRASH_SEEDS=str(SEEDS_A_ROUND),
    ),
    "crash": engine({"db": "crash*", "version": "power is lost*"}, "a crash before every file operation, power lost", EBBTIDE_CRASH_STEP="1"),
    "faults": engine(
        {
            "db": "file operation fails*,n-th file operation of a page drop*,read from the disk fails*,file operation of a checkpoint*",
            "version": "manifest write fails*",
        },
        "an I/O error at each file operation, once or permanently",
        EBBTIDE_FAULTS="1000000",
    ),
    "damage": engine(
        {
            "db": "any file is damaged*",
            "table": "any byte of a table is flipped*,file of a table is truncated*",
            "wal": "any bit of a segment is flipped*",
            "version": "any bit of a manifest is flipped*",
        },
        "flipped, truncated, swapped and stale files; no wrong data is served",
        EBBTIDE_CRASH_SEEDS="10000",
        EBBTIDE_FLIP_STRIDE="1",
    ),
    "deadlines": engine(
        {"db": "[deadlines]"},
        "searches of every file for deleted markers after the deadline",
        {"trees": r"(\d+) trees, \d+ markers deleted", "markers": r"(\d+) markers deleted"},
        {"max(age/deadline)": r"markers deleted, max\(age/deadline\) ([\d.]+)"},
        EBBTIDE_FADE_ALL="1",
    ),
    "fuzz-resp": fuzz("resp", "the request parser, whole, in pieces and byte by byte"),
    "fuzz-glob": fuzz("glob", "patterns"),
    "fuzz-collection": fuzz("collection", "bytes of collections"),
    "fuzz-dump": fuzz("dump", "payloads of RESTORE"),
    "fuzz-config": fuzz("config", "the configuration file, read and written back"),
    "fuzz-acl": fuzz("acl", "the users file, read and printed back"),
    "fuzz-wal": fuzz("wal", "segments of the log with corrected checksums"),
    "fuzz-manifest": fuzz("manifest", "manifests with corrected checksums"),
    "fuzz-table": fuzz("table", "the two files of a table with corrected checksums"),
    "fuzz-operations": fuzz("operations", "operations on a database, compared with ordered maps, with restarts and kills"),
}


MUTATIONS = "  mutations        changes the engine at random and checks whether a test fails; --count N, --layers; mutations --help"


def show_time(seconds):
    return f"{seconds / 3600:.1f} h" if seconds >= 7200 else f"{seconds / 60:.1f} min" if seconds >= 120 else f"{seconds:.0f} s"


def sanitizer_options(directory):
    """Makes the sanitizers write their reports into the directory."""
    # The thread sanitizer's deadlock detector aborts at 64 locks at once.
    options = {"ASAN": "", "UBSAN": "print_stacktrace=1", "LSAN": "", "TSAN": "detect_deadlocks=0"}
    return {f"{name}_OPTIONS": f"log_path={directory / name.lower()}:{more}" for name, more in options.items()}


class State:
    """The state of a run, stored before the first round and after each successful one."""

    def __init__(self, name, seed, preset="release"):
        self.name, self.preset = name, preset
        self.label = name if preset == "release" else f"{name}-{preset}"  # the begin of the names of its files
        self.path = OUT / f"{self.label}.json"
        self.seed, self.rounds, self.seconds, self.figures = seed, 0, 0.0, {}

    @classmethod
    def resume(cls, name, preset="release"):
        state = cls(name, 0, preset)
        if not state.path.exists():
            sys.exit(f"torture: there is nothing to resume: {state.path} does not exist")
        kept = json.loads(state.path.read_text())
        state.seed, state.rounds, state.seconds, state.figures = (kept[key] for key in ("seed", "rounds", "seconds", "figures"))
        return state

    def keep(self):
        OUT.mkdir(parents=True, exist_ok=True)
        fields = ("name", "preset", "seed", "rounds", "seconds", "figures")
        fresh = self.path.with_suffix(".new")
        fresh.write_text(json.dumps({key: getattr(self, key) for key in fields}, indent=2) + "\n")
        fresh.replace(self.path)

    def round_seed(self):
        """Returns the first seed of the current round. The seeds of rounds do not overlap."""
        return self.seed + self.rounds * SEEDS_A_ROUND

    def summary(self):
        figures = "".join(f", {figure:,} {what}" for what, figure in self.figures.items())
        rounds = "1 round" if self.rounds == 1 else f"{self.rounds:,} rounds"
        return f"torture {self.label}: {rounds} in {show_time(self.seconds)} from seed {self.seed}{figures}"


class Stopped(Exception):
    """Raised when a signal arrived during a round."""


class Signals:
    """Keeps the signals that end a run. They are polled and interrupt nothing, so no process is left behind and no file is half
    written."""

    def __init__(self):
        self.came = []

    def listen(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) != signal.SIG_IGN:  # the signal is ignored under nohup
                signal.signal(number, lambda number, _: self.came.append(number))


def end(process, signals):
    """Ends a process and all processes that it started: with SIGTERM first, with SIGKILL after END_SECONDS or a second signal."""
    try:
        os.killpg(process.pid, signal.SIGTERM)
        until = time.monotonic() + END_SECONDS
        while process.poll() is None and time.monotonic() < until and len(signals.came) < 2:
            time.sleep(LOOK_SECONDS)
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass  # all processes have ended
    process.wait()


def run_command(command, environment, until, signals, tell):
    """Runs a command until the moment `until` at most. Returns (exit status, or None if it was not done in time; output). Ends
    all processes that the command started. `tell` is called every TELL_SECONDS."""
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
        status, told = None, time.monotonic()
        try:
            while status is None and not signals.came and time.monotonic() < until:
                try:
                    status = process.wait(LOOK_SECONDS)
                except subprocess.TimeoutExpired:
                    if time.monotonic() >= told + TELL_SECONDS:
                        told = time.monotonic()
                        tell()
        finally:
            end(process, signals)
        if status is None and signals.came:
            raise Stopped
        output.seek(0)
        return status, output.read().decode(errors="replace")


def run_round(program, state, signals=None, tell=lambda: None):
    """Runs the commands of one round. Returns (success, output). A round that counted nothing or took too long is no success.
    `tell` is called regularly."""
    seed = state.round_seed()
    environment = {key: value.format(seed=seed) for key, value in program.environment.items()}
    environment = {"EBBTIDE_SEED": str(seed), **environment, "PYTHONPATH": str(ROOT / "tests")}
    reports = OUT / f"{state.label}-reports"
    shutil.rmtree(reports, ignore_errors=True)  # removes the reports of the round before
    minutes = program.minutes
    if state.preset != "release":
        reports.mkdir(parents=True)
        server = str(ROOT / f"build/{state.preset}/bin/ebbtide-server")
        environment |= {"EBBTIDE_SANITIZED": "1", "EBBTIDE_SERVER": server, **sanitizer_options(reports)}
        minutes *= SLOWER
    good, output, repeat = True, "", ""
    until = time.monotonic() + minutes * 60
    for words in program.commands:
        command = [word.format(seed=seed, preset=state.preset) for word in words]
        repeat = " ".join([*(f"{key}={shlex.quote(value)}" for key, value in environment.items()), shlex.join(command)])
        # Python's output is unbuffered, so that none is lost if the program is ended.
        status, said = run_command(command, {**os.environ, "PYTHONUNBUFFERED": "1", **environment}, until, signals or Signals(), tell)
        output += said if status is not None else f"{said}\nended: the round was not done after {minutes:g} minutes"
        good = status == 0
        if not good:
            break
    for report in sorted(reports.glob("*")) if reports.exists() else []:
        good, output = False, f"{output}\n{report.read_text(errors='replace')}"
    for what, pattern in program.counts.items():
        found = sum(map(int, re.findall(pattern, output)))
        state.figures[what] = state.figures.get(what, 0) + found
        if good and found == 0:  # the test was skipped, or no test has this name
            good, output = False, f"{output}\nno {what} in this round"
    for what, pattern in program.largest.items():
        found = [float(number) for number in re.findall(pattern, output)]
        state.figures[what] = max([state.figures.get(what, 0), *found])
        if good and not found:
            good, output = False, f"{output}\nno {what} in this round"
    return good, f"{output}\nrepeat: {repeat}\n"


class Screen:
    """Prints a line per round; on a terminal, also the time of the running round."""

    def __init__(self, state, end):
        self.state, self.end, self.began, self.terminal = state, end, time.monotonic(), sys.stdout.isatty()

    def begin(self):
        self.began = time.monotonic()

    def tell(self):
        if self.terminal:
            took = show_time(time.monotonic() - self.began)
            print(f"\r\033[K  round {self.state.rounds + 1:<5} {took} so far", end="", flush=True)

    def print(self, *lines):
        if self.terminal:
            print("\r\033[K", end="")
        print(*lines, sep="\n", flush=True)

    def done(self, took):
        self.print(f"  round {self.state.rounds:<5} {took:6.1f} s   left: {show_time(max(0.0, self.end - time.monotonic()))}")


def run(program, state, seconds, signals):
    """Runs rounds until `seconds` have passed. Returns the exit status."""
    until = time.monotonic() + seconds
    screen = Screen(state, until)
    state.keep()  # so that --resume finds this run even if its first round fails
    try:
        while True:
            screen.begin()
            good, output = run_round(program, state, signals, screen.tell)
            took = time.monotonic() - screen.began
            state.seconds += took
            if not good:
                OUT.mkdir(parents=True, exist_ok=True)
                log = OUT / f"{state.label}-{state.round_seed()}.log"
                log.write_text(output)
                screen.print(*output.splitlines()[-40:])
                print(f"torture {state.label}: FAILED in round {state.rounds + 1}; output: {log}\n{state.summary()}")
                return 1
            state.rounds += 1
            state.keep()
            screen.done(took)
            if time.monotonic() >= until or signals.came:
                break
    except Stopped:
        pass
    if signals.came:
        screen.print(f"stopped by {signal.Signals(signals.came[0]).name}; --resume continues")
    print(state.summary())
    return 128 + signals.came[0] if signals.came else 0


def main(arguments=None):
    names = "\n".join(f"  {name:<16} {program.about}" for name, program in PROGRAMS.items())
    parser = argparse.ArgumentParser(
        prog="./dev torture", description=__doc__, epilog=f"names:\n{names}\n{MUTATIONS}", formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", choices=PROGRAMS, metavar="NAME", help="what to run; see the names below")
    parser.add_argument("--minutes", type=float, default=10, metavar="N", help="stop at the end of the round after so many minutes (default: 10)")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="first seed; default: a random one")
    parser.add_argument("--preset", choices=("release", "asan", "tsan"), default="release", help="build to test (default: release)")
    parser.add_argument("--resume", action="store_true", help="continue where the last run of this name and preset stopped")
    options = parser.parse_args(arguments)
    program = PROGRAMS[options.name]
    if options.preset in program.never:
        parser.error(f"{options.name} with --preset {options.preset}: {program.never[options.preset]}")
    if options.resume:
        state = State.resume(options.name, options.preset)
    else:
        state = State(options.name, options.seed or random.SystemRandom().randrange(1, 2**30), options.preset)
    print(f"torture {state.label}: {program.about}; seed {state.seed}", flush=True)
    signals = Signals()
    signals.listen()
    return run(program, state, options.minutes * 60, signals)


if __name__ == "__main__":
    sys.exit(main())
