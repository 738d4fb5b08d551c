"""Prints the end of `./dev test`: time per label, the twenty slowest tests, and one plain line `N passed, N failed`.

The program reads the results of ctest and pytest in a folder (JUnit XML, one file per run). It also reads the file `broken`, which
has a line for each step without a result. A unit test binary has many cases, and cases are counted. Their names and times are in
the binary's output (Catch2's --durations and its closing line). A binary that crashed counts as one failed case, the one in
which it crashed.

The exit status is 0 only if something passed and nothing failed.
"""

import re
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, field
from pathlib import Path

CASE_TIME = re.compile(r"^(\d+\.\d+) s: (.+)$", re.M)
ALL_PASSED = re.compile(r"^All tests passed \(.*? in (\d+) test cases?\)", re.M)
SOME_FAILED = re.compile(r"^test cases:\s*(\d+)(.*)$", re.M)
COUNTED = re.compile(r"(\d+) (passed|failed)")


@dataclass
class Label:
    seconds: float = 0.0
    passed: int = 0
    failed: int = 0
    skipped: int = 0


@dataclass
class Summary:
    labels: dict = field(default_factory=dict)
    cases: list = field(default_factory=list)  # (seconds, label, name)
    failures: list = field(default_factory=list)

    def label(self, name):
        return self.labels.setdefault(name, Label())


def catch_counts(output, ok):
    """Returns the numbers (passed, failed) of cases of one Catch2 binary, from its closing line."""
    if match := ALL_PASSED.search(output):
        passed, failed = int(match[1]), 0
    elif match := SOME_FAILED.search(output):
        counts = {word: int(number) for number, word in COUNTED.findall(match[2])}
        passed, failed = counts.get("passed", 0), counts.get("failed", 0)
    else:  # without a closing line, this is no Catch2 test, or it crashed
        return (1, 0) if ok else (len(CASE_TIME.findall(output)), 1)
    # If all cases passed but the status is an error, a sanitizer may have reported at exit: this counts as one failed case.
    return (passed, failed) if ok or failed else (passed, 1)


def add_ctest(summary, run, root):
    for test in root.iter("testcase"):
        status = test.get("status")
        if status in ("disabled", "notrun") and test.find("failure") is None:
            continue
        name, ok = test.get("name"), status == "run"
        label = summary.label(run if run != "release" else name.split(".")[0])
        output = test.findtext("system-out") or ""
        passed, failed = catch_counts(output, ok)
        label.seconds += float(test.get("time") or 0)
        label.passed += passed
        label.failed += failed
        if failed:
            summary.failures.append(f"{run}: {name}" + (f" ({failed} cases)" if failed > 1 else ""))
        timed = [(float(seconds), f"{name}: {case}") for seconds, case in CASE_TIME.findall(output)]
        for seconds, case in timed or [(float(test.get("time") or 0), name)]:
            summary.cases.append((seconds, run, case))


def add_pytest(summary, run, root):
    label = summary.label(run)
    for test in root.iter("testcase"):
        if test.find("skipped") is not None:
            label.skipped += 1
            continue
        name = f"{test.get('classname')}.{test.get('name')}"
        seconds = float(test.get("time") or 0)
        label.seconds += seconds
        if test.find("failure") is not None or test.find("error") is not None:
            label.failed += 1
            summary.failures.append(name)
        else:
            label.passed += 1
        summary.cases.append((seconds, run, name))


def read(folder):
    summary = Summary()
    for path in sorted(Path(folder).glob("*.xml")):
        try:
            root = ElementTree.parse(path).getroot()
        except ElementTree.ParseError as error:
            summary.label(path.stem).failed += 1
            summary.failures.append(f"{path.stem}: its result was cut off ({error})")
            continue
        add = add_ctest if path.stem in ("release", "asan", "tsan") else add_pytest
        add(summary, path.stem, root)
    broken = Path(folder) / "broken"
    for line in broken.read_text().splitlines() if broken.exists() else []:
        summary.label(line.split(":")[0]).failed += 1
        summary.failures.append(line)
    return summary


def main(folder):
    summary = read(folder)
    print("\ntime per label")
    for name, label in summary.labels.items():
        skipped = f"   {label.skipped:3} skipped" if label.skipped else ""
        print(f"  {name:<10} {label.seconds:8.1f} s   {label.passed:5} passed   {label.failed:3} failed{skipped}")
    print("\nslowest twenty")
    for seconds, run, name in sorted(summary.cases, reverse=True)[:20]:
        print(f"  {seconds:8.2f} s   {run:<9} {name}")
    if summary.failures:
        print("\nfailed")
        for name in summary.failures:
            print(f"  {name}")
    passed = sum(label.passed for label in summary.labels.values())
    failed = sum(label.failed for label in summary.labels.values())
    if not passed and not failed:
        print("\nno test has that name or label")
    print(f"\n{passed} passed, {failed} failed")
    return 0 if passed and not failed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
