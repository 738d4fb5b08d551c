"""./dev torture mutations: changes the engine at random, one small mistake at a time, and looks whether the tests notice.

Each mutation is made in a copy of the project under build/mutate, whose tests are built and run: first those of the layer, then those
of the database, until one fails. One that none of them notices has survived: its diff is printed, and is either a test that is missing
or a change that changes nothing (tests/README.md has those that were looked at). The same seed makes the same mutations of the same
source. What does not compile counts for nothing, and another one takes its place.
"""

import argparse
import difflib
import os
import random
import re
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/tidy"))
import check  # noqa: E402

LAYERS = {"deletes": ["deletes", "compaction"], "wal": ["wal"], "compaction": ["compaction"]}  # layer -> whose tests come before the database's
# What a sanitizer's run of the long tests takes: each kind of step, not each of them often.
SHORTER = {"EBBTIDE_MODEL_ROUNDS": "1", "EBBTIDE_CRASH_SEEDS": "200", "EBBTIDE_CRASH_STEP": "5", "EBBTIDE_FAULT_STEP": "5"}
MEMORY_BYTES = 8 << 30  # of a test: one that never ends may take all there is

# What is looked for in a line of code, and what takes its place. Blanks around an operator tell it from a template's brackets.
SWAPS = [
    (" < ", " <= "), (" <= ", " < "), (" > ", " >= "), (" >= ", " > "), (" == ", " != "), (" != ", " == "), (" && ", " || "), (" || ", " && "),
    (" + 1", ""), (" - 1", ""), (" + ", " - "), (" - ", " + "), ("std::min", "std::max"), ("std::max", "std::min"), ("lower_bound", "upper_bound"),
    ("upper_bound", "lower_bound"), ("true", "false"), ("false", "true"), ("continue;", "break;"), (".front()", ".back()"), (".back()", ".front()"),
]  # fmt: skip
# A whole line that does something and declares nothing.
STATEMENT = re.compile(
    r"^\s+(?:TRY\((?P<try>.*)\)|(?:\+\+|--)[\w.>:*\[\]-]+|(?!return\b|break\b|continue\b)[\w.>:*\[\]-]+(?:\(.*\)|\s*[-+|&]?=\s.*|\+\+|--));$"
)
CONDITION = re.compile(r"\bif \(")


class Mutation:
    """One line of one file, and what it becomes."""

    def __init__(self, path, line, what, old, new):
        self.path, self.line, self.what, self.old, self.new = path, line, what, old, new

    def applied_to(self, text):
        lines = text.split("\n")
        assert lines[self.line] == self.old
        lines[self.line] = self.new
        return "\n".join(lines)

    def diff(self, text):
        before, after = text.split("\n"), self.applied_to(text).split("\n")
        return "\n".join(list(difflib.unified_diff(before, after, f"a/{self.path}", f"b/{self.path}", lineterm="", n=2)))


def negated(line, code):
    """Each `if (condition)` that ends on the line, with the opposite condition."""
    for match in CONDITION.finditer(code):
        depth, end = 1, match.end()
        while end < len(code) and depth:
            depth += (code[end] == "(") - (code[end] == ")")
            end += 1
        if not depth and ";" not in code[match.end() : end]:
            yield line[: match.end()] + "!(" + line[match.end() : end - 1] + ")" + line[end - 1 :]


def mutations_of(path, text):
    """All that can be made of a source file, in the order of its lines."""
    for number, (line, code) in enumerate(zip(text.split("\n"), check.without_comments_and_strings(text).split("\n"), strict=True)):
        if re.search(r"ASSERT|static_assert|^#|\btemplate\b|\.reserve\(", code):
            continue  # what guards, and what changes nothing but time
        for old, new in SWAPS:
            if old == " + " and ('"' in line or "to_string" in line):
                continue  # of strings
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
    """Endless, by seed: a layer after the other, in it each line and each kind of change alike."""
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


class Copy:
    """The project once more, to be broken."""

    def __init__(self, folder):
        self.root, self.build = folder / "tree", folder / "tree/build/release"
        self.seconds = {}  # by test
        shutil.rmtree(self.root, ignore_errors=True)
        for path in check.project_files(ROOT):
            target = self.root / path.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, target)  # with its time: what was compiled before is found in the cache
        subprocess.run(["cmake", "--preset", "release"], cwd=self.root, check=True, stdout=subprocess.DEVNULL)

    def compiles(self, targets, jobs):
        done = subprocess.run(["ninja", "-C", str(self.build), f"-j{jobs}", *targets], capture_output=True, text=True, check=False)
        self.output = done.stdout + done.stderr
        return done.returncode == 0

    def failing(self, target):
        """The first test case that fails, None if none does. The first run of a test decides how long later ones may take."""
        command = [str(self.build / "bin" / target), "--abort"]
        began, limit = time.monotonic(), self.seconds.get(target, 900)
        try:
            done = subprocess.run(command, cwd=self.root, env={**os.environ, **SHORTER}, capture_output=True, text=True, errors="replace", timeout=limit,
                                  preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES)), check=False)  # fmt: skip
        except subprocess.TimeoutExpired:
            return f"does not end within {limit:.0f} s"
        self.seconds.setdefault(target, 30 + 4 * (time.monotonic() - began))
        if done.returncode == 0:
            return None
        case = re.search(r"^-{79}\n(.+?)\n(?:  .*\n)*-{79}$", done.stdout, re.M)
        return f'"{case[1]}"' if case else (done.stderr.strip().splitlines() or ["ends with an error"])[-1]


def try_out(copy, layer, mutation, jobs):
    """What noticed it: a test, "" if it does not compile, None if nothing did."""
    path = copy.root / mutation.path
    sound = path.read_text()
    tests = [f"test_engine_{name}" for name in [*LAYERS[layer], "db"]]
    path.write_text(mutation.applied_to(sound))
    try:
        for test in tests:
            if not copy.compiles([test], jobs):
                return ""
            if (case := copy.failing(test)) is not None:
                return f"{test}: {case}"
        return None
    finally:
        path.write_text(sound)


def main():
    parser = argparse.ArgumentParser(prog="./dev torture mutations", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="by default one that is new")
    parser.add_argument("--count", type=int, default=30, metavar="N", help="how many that compile (default: 30)")
    parser.add_argument("--minutes", type=float, default=600, metavar="N", help="begin no further one after that")
    parser.add_argument("--layers", nargs="+", choices=LAYERS, default=list(LAYERS), metavar="LAYER", help=f"of {', '.join(LAYERS)}")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), metavar="N", help="of the compiler")
    options = parser.parse_args()
    seed, end = options.seed or random.SystemRandom().randrange(1, 2**30), time.monotonic() + options.minutes * 60
    copy = Copy(ROOT / "build/mutate")
    tests = sorted({f"test_engine_{name}" for layer in options.layers for name in [*LAYERS[layer], "db"]})
    print(f"torture mutations: seed {seed}; building the tests and running them as they are", flush=True)
    if not copy.compiles(tests, options.jobs):
        sys.exit(copy.output)
    for test in tests:
        if (case := copy.failing(test)) is not None:
            sys.exit(f"torture mutations: {test} fails before anything was changed: {case}")
    killed, survived = 0, []
    for layer, mutation in draw(copy.root, seed, options.layers):
        if killed + len(survived) == options.count or time.monotonic() >= end:
            break
        began = time.monotonic()
        by = try_out(copy, layer, mutation, options.jobs)
        if by == "":
            continue
        killed += by is not None
        if by is None:
            survived.append(mutation)
        verdict = "SURVIVED" if by is None else f"killed by {by}"
        print(f"{mutation.path}:{mutation.line + 1}: {mutation.what}: {verdict} ({time.monotonic() - began:.0f} s)", flush=True)
    for mutation in survived:
        print("\n" + mutation.diff((copy.root / mutation.path).read_text()))
    print(f"torture mutations: {killed + len(survived)} from seed {seed}: {killed} killed, {len(survived)} survived")
    return 0


if __name__ == "__main__":
    sys.exit(main())
