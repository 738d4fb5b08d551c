#!/usr/bin/env python3
"""Counts the cache lines that two reading threads both write. If a read writes such a line, readers on several cores wait for each
other, and reads do not scale; on few cores no timing shows it. Valgrind prints every store of the program reads.cc.

    shared_writes.py PROGRAM      fails if a line was written by both threads during their reads
"""

import collections
import subprocess
import sys
import tempfile

LINE = 64
MARKERS = 16


def stores(trace):
    """Yields (address, address of the instruction) of each store in a trace of lackey."""
    instruction = 0
    for text in trace:
        kind = text[:2]
        if kind == "I ":
            instruction = int(text[2:].partition(",")[0], 16)
        elif kind in (" S", " M"):
            address, _, size = text[2:].partition(",")
            first = int(address, 16)
            for line in range(first // LINE, (first + int(size) - 1) // LINE + 1):
                yield first, line, instruction


def written_lines(trace, marker):
    """Returns for each phase a list of {line: {instruction: count}}, one for each thread, in the order of their turns."""
    for text in trace:  # most of the trace comes before the first marker
        if text.startswith(" S") and int(text[2:].partition(",")[0], 16) == marker:
            break
    found = collections.defaultdict(list)
    found[0].append(collections.defaultdict(collections.Counter))
    at = 0  # the phase whose reads are running
    for address, line, instruction in stores(trace):
        if marker <= address < marker + MARKERS * 8:
            phase = (address - marker) // 8
            if at is None:
                found[phase].append(collections.defaultdict(collections.Counter))
            at = phase if at is None else None
        elif at is not None:
            found[at][-1][line][instruction] += 1
    return [found[phase] for phase in sorted(found)]


def address_of(program, symbol):
    for text in subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout.splitlines():
        address, _, name = text.partition(" ")
        if name.endswith(" " + symbol):
            return int(address, 16)
    raise SystemExit(f"{program} has no symbol {symbol}")


def places(program, instructions):
    """Returns function, file and line of instructions."""
    asked = [hex(i) for i in instructions]
    out = subprocess.run(["addr2line", "-Cfpe", program, *asked], capture_output=True, text=True, check=True).stdout
    return dict(zip(instructions, out.splitlines()))


def main(program):
    with tempfile.TemporaryDirectory() as directory:
        command = ["valgrind", "--tool=lackey", "--trace-mem=yes", "--basic-counts=no", "--log-file=/dev/stderr", program, directory + "/db"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace", bufsize=1 << 20)
        found = written_lines(process.stderr, address_of(program, "shared_writes_marker"))
        reads, *names = process.stdout.readline().strip().split(",")
        if process.wait() != 0 or len(found) != len(names):
            return "the program failed; run it without valgrind"
    bad = 0
    for name, threads in zip(names, found):
        assert len(threads) == 2, (name, len(threads))
        own = [len(thread) for thread in threads]
        shared = sorted(set(threads[0]) & set(threads[1]))
        print(f"{reads} reads of {name}: {own[0]} and {own[1]} lines written by the two threads, {len(shared)} by both")
        bad += len(shared)
        where = {i for line in shared for thread in threads for i in thread[line]}
        texts = places(program, sorted(where)) if where else {}
        for line in shared:
            for thread in threads:
                for instruction, count in thread[line].most_common(3):
                    print(f"    {line * LINE:#x}: {count} stores at {texts[instruction]}")
    return f"{bad} cache lines are written by both threads" if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
