"""./dev torture mutations: changes the engine at random, one small mistake at a time, and checks whether a test fails.

A mutation changes one line of one file. That file is compiled as in build/release, into build/mutate, and replaces its object in
a copy of the layer's library. The tests are linked with that library: first the layer's tests, then the database's, until one
fails. If none fails, the mutation has survived and its diff is printed. Then either a test is missing, or the change has no
effect (tests/README.md lists known mutations without an effect). The same seed makes the same mutations of the same source. A
mutation that does not compile is replaced by another mutation. --resume continues where the last run stopped.
"""

import argparse
import difflib
import json
import os
import random
import re
import resource
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/tidy"))
import check  # noqa: E402

BUILD = ROOT / "build/release"
OUT = ROOT / "build/mutate"
STATE = ROOT / "build/torture/mutations.json"
# The tests of these layers run before the database's tests.
LAYERS = {"deletes": ["deletes", "compaction"], "wal": ["wal"], "compaction": ["compaction"]}
# A test is a binary and its cases. The quick cases of the database come first.
DATABASE = [("test_engine_db", "~[long]"), ("test_engine_db", "[long]")]
# These settings shorten the long tests as for sanitizers: each kind of step remains, but fewer steps of each kind.
SHORTER = {"EBBTIDE_MODEL_ROUNDS": "1", "EBBTIDE_CRASH_SEEDS": "200", "EBBTIDE_CRASH_STEP": "5", "EBBTIDE_FAULT_STEP": "5"}
MEMORY_BYTES = 8 << 30  # limit of a test, since a mutant that never ends may take all memory

# Each entry is a text in a line of code and its replacement. Blanks around an operator exclude the brackets of templates.
SWAPS = [
    (" < ", " <= "), (" <= ", " < "), (" > ", " >= "), (" >= ", " > "), (" == ", " != "), (" != ", " == "), (" && ", " || "), (" || ", " && "),
    (" + 1", ""), (" - 1", ""), (" + ", " - "), (" - ", " + "), ("std::min", "std::max"), ("std::max", "std::min"), ("lower_bound", "upper_bound"),
    ("upper_bound", "lower_bound"), ("true", "false"), ("false", "true"), ("continue;", "break;"), (".front()", ".back()"), (".back()", ".front()"),
]  # fmt: skip
# This matches a whole line that has an effect and declares nothing.
STATEMENT = re.compile(
    r"^\s+(?:TRY\((?P<try>.*)\)|(?:\+\+|--)[\w.>:*\[\]-]+|(?!return\b|break\b|continue\b)[\w.>:*\[\]-]+(?:\(.*\)|\s*[-+|&]?=\s.*|\+\+|--));$"
)
CONDITION = re.compile(r"\bif \(")


class Mutation:
    """A changed line of a file: its place and its replacement."""

    def __init__(self, path, line, what, old, new):
        self.path, self.line, self.what, self.old, self.new = path, line, what, old, new

    def __str__(self):
        return f"{self.path}:{self.line + 1}: {self.what}"

    def applied_to(self, text):
        lines = text.split("\n")
        assert lines[self.line] == self.old
        lines[self.line] = self.new
        return "\n".join(lines)

    def diff(self, text):
        before, after = text.split("\n"), self.applied_to(text).split("\n")
        return "\n".join(list(difflib.unified_diff(before, after, f"a/{self.path}", f"b/{self.path}", lineterm="", n=2)))


def negated(line, code):
    """Negates each `if (condition)` that ends on the line."""
    for match in CONDITION.finditer(code):
        depth, end = 1, match.end()
        while end < len(code) and depth:
            depth += (code[end] == "(") - (code[end] == ")")
            end += 1
        if not depth and ";" not in code[match.end() : end]:
            yield line[: match.end()] + "!(" + line[match.end() : end - 1] + ")" + line[end - 1 :]


def mutations_of(path, text):
    """Returns all mutations of a source file, in the order of its lines."""
    for number, (line, code) in enumerate(zip(text.split("\n"), check.without_comments_and_strings(text).split("\n"), strict=True)):
        if re.search(r"ASSERT|static_assert|^#|\btemplate\b|\.reserve\(", code):
            continue  # assertions, includes, templates and reserve() are left out
        for old, new in SWAPS:
            if old == " + " and ('"' in line or "to_string" in line):
                continue  # this concatenates strings
            for match in re.finditer(re.escape(old), code):
                yield Mutation(path, number, f"'{old.strip()}' becomes '{new.strip()}'", line, line[: match.start()] + new + line[match.end() :])
        for match in re.finditer(r"(?<![\w.:\"'])(\d+)(?=[\s;,)u}])", code):
            yield Mutation(path, number, "a number grows by one", line, line[: match.start()] + str(int(match[1]) + 1) + line[match.end() :])
        for new in negated(line, code):
            yield Mutation(path, number, "a condition is negated", line, new)
        if (match := STATEMENT.match(code)) and code.count("(") == code.count(")"):
            dropped = f"(void)({line[match.start('try') : match.end('try')]});" if match["try"] is not None else ";"
            what = "an error is ignored" if match["try"] is not None else "a statement is dropped"
            yield Mutation(path, number, what, line, line[: len(line) - len(line.lstrip())] + dropped)


def draw(root, seed, layers):
    """Yields (layer, mutation) in random order by seed, for the layers in turn. Each line and each kind of change is equally
    likely."""
    dice = random.Random(seed)
    of_layer = {}
    for layer in layers:
        files = sorted((root / "engine" / layer).glob("*.cc"))
        of_layer[layer] = [m for file in files for m in mutations_of(file.relative_to(root), file.read_text())]
        dice.shuffle(of_layer[layer])
    while any(of_layer.values()):
        for layer in layers:
            if of_layer[layer]:
                yield layer, of_layer[layer].pop()


def tests_of(layer):
    return [*((f"test_engine_{name}", "") for name in LAYERS[layer]), *DATABASE]


class Workshop:
    """Compiles a mutated file, and links its library and the tests with it, by the commands of the release build."""

    def __init__(self):
        OUT.mkdir(parents=True, exist_ok=True)
        entries = json.loads((BUILD / "compile_commands.json").read_text())
        self.compile_commands = {entry["file"]: (shlex.split(entry["command"]), entry["directory"]) for entry in entries}
        self.seconds = {}  # {test: its time limit}

    def ninja(self, *arguments):
        return subprocess.run(["ninja", "-C", str(BUILD), *arguments], capture_output=True, text=True, check=False)

    def link_command(self, binary):
        """Returns the shell command by which ninja links the binary."""
        return self.ninja("-t", "commands", "-s", f"bin/{binary}").stdout.strip().splitlines()[-1]

    def compiles(self, mutation):
        """Compiles the mutation. Returns true on success; then OUT has the layer's library with the mutated object."""
        source, layer = OUT / mutation.path.name, mutation.path.parts[1]
        text = (ROOT / mutation.path).read_text()
        source.write_text(mutation.applied_to(text))
        command, directory = self.compile_commands[str(ROOT / mutation.path)]
        compiled = OUT / f"{mutation.path.name}.o"  # the object has the same name in the library
        command = [*command]
        command[command.index("-o") + 1] = str(compiled)
        command[command.index("-c") + 1] = str(source)
        done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
        source.unlink()
        if done.returncode != 0:
            return False
        library = OUT / f"libengine_{layer}.a"
        shutil.copy2(BUILD / f"engine/libengine_{layer}.a", library)
        subprocess.run(["ar", "r", str(library), str(compiled)], check=True, capture_output=True)
        return True

    def link(self, binary, layer):
        library, program = f"engine/libengine_{layer}.a", OUT / binary
        command = self.link_command(binary)
        assert library in command and f"-o bin/{binary}" in command, command
        command = command.replace(library, str(OUT / f"libengine_{layer}.a")).replace(f"-o bin/{binary}", f"-o {program}")
        subprocess.run(command, shell=True, cwd=BUILD, check=True, capture_output=True)
        return program

    def failing(self, test, program):
        """Returns the name of the first test case that fails, or None. The first run of a test sets the time limit of its later
        runs."""
        binary, cases = test
        command = [str(program), "--abort", *([cases] if cases else [])]
        began, limit = time.monotonic(), self.seconds.get(test, 900)
        try:
            done = subprocess.run(command, cwd=ROOT, env={**os.environ, **SHORTER}, capture_output=True, text=True, errors="replace", timeout=limit,
                                  preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES)), check=False)  # fmt: skip
        except subprocess.TimeoutExpired:
            return f"does not end within {limit:.0f} s"
        self.seconds.setdefault(test, 30 + 4 * (time.monotonic() - began))
        if done.returncode == 0:
            return None
        case = re.search(r"^-{79}\n(.+?)\n(?:  .*\n)*-{79}$", done.stdout, re.M)
        return f'"{case[1]}"' if case else (done.stderr.strip().splitlines() or ["ends with an error"])[-1]


def try_out(workshop, layer, mutation):
    """Returns the test that failed, "" if the mutation does not compile, or None if it survived."""
    if not workshop.compiles(mutation):
        return ""
    linked = {}
    for binary, cases in tests_of(layer):
        if binary not in linked:
            linked[binary] = workshop.link(binary, layer)
        if (case := workshop.failing((binary, cases), linked[binary])) is not None:
            return f"{binary}: {case}"
    return None


class State:
    """The tried mutations in order, stored after each mutation."""

    def __init__(self, seed, layers):
        self.seed, self.layers, self.verdicts = seed, layers, []

    @classmethod
    def resume(cls):
        if not STATE.exists():
            sys.exit(f"torture mutations: there is nothing to resume: {STATE} does not exist")
        kept = json.loads(STATE.read_text())
        state = cls(kept["seed"], kept["layers"])
        state.verdicts = [tuple(verdict) for verdict in kept["verdicts"]]
        return state

    def keep(self, mutation, by):
        self.verdicts.append((str(mutation), by))
        STATE.parent.mkdir(parents=True, exist_ok=True)
        STATE.write_text(json.dumps({"seed": self.seed, "layers": self.layers, "verdicts": self.verdicts}, indent=2) + "\n")

    def counted(self):
        """Returns the results of the mutations that compiled."""
        return [by for _, by in self.verdicts if by != ""]


def prepare(workshop, layers):
    """Builds the tests and checks that they pass without a mutation."""
    tests = sorted({test for layer in layers for test in tests_of(layer)})
    built = workshop.ninja(*sorted({binary for binary, _ in tests}))
    if built.returncode != 0:
        sys.exit(built.stdout + built.stderr)
    for test in tests:
        if (case := workshop.failing(test, BUILD / "bin" / test[0])) is not None:
            sys.exit(f"torture mutations: {' '.join(test)} fails without a mutation: {case}")


def main():
    parser = argparse.ArgumentParser(prog="./dev torture mutations", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="seed; default: a random one")
    parser.add_argument("--count", type=int, default=30, metavar="N", help="mutations that compile, including those of a resumed run (default: 30)")
    parser.add_argument("--minutes", type=float, default=600, metavar="N", help="start no mutation after so many minutes (default: 600)")
    parser.add_argument("--layers", nargs="+", choices=LAYERS, default=list(LAYERS), metavar="LAYER", help=f"layers to mutate: {', '.join(LAYERS)} (default: all)")
    parser.add_argument("--quick", action="store_true", help="run only the layers' tests: ten mutations a minute, but more survive")
    parser.add_argument("--resume", action="store_true", help="continue where the last run stopped, with its seed and layers")
    options = parser.parse_args()
    if options.quick:
        DATABASE.clear()
    end = time.monotonic() + options.minutes * 60
    state = State.resume() if options.resume else State(options.seed or random.SystemRandom().randrange(1, 2**30), options.layers)
    print(f"torture mutations: seed {state.seed}; building the tests and running them without a mutation", flush=True)
    workshop = Workshop()
    prepare(workshop, state.layers)
    survived = []
    for number, (layer, mutation) in enumerate(draw(ROOT, state.seed, state.layers)):
        if number < len(state.verdicts):
            known, by = state.verdicts[number]
            if known != str(mutation):
                sys.exit("torture mutations: the source has changed since the run to be resumed")
        else:
            if len(state.counted()) >= options.count or time.monotonic() >= end:
                break
            began = time.monotonic()
            by = try_out(workshop, layer, mutation)
            state.keep(mutation, by)
            if by != "":
                verdict = "SURVIVED" if by is None else f"killed by {by}"
                print(f"{mutation}: {verdict} ({time.monotonic() - began:.0f} s)", flush=True)
        if by is None:
            survived.append(mutation)
    for mutation in survived:
        print("\n" + mutation.diff((ROOT / mutation.path).read_text()))
    tried = len(state.counted())
    print(f"torture mutations: {tried} from seed {state.seed}: {tried - len(survived)} killed, {len(survived)} survived")
    return 0


if __name__ == "__main__":
    sys.exit(main())
