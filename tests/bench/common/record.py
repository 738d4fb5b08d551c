"""Runs a benchmark program, shows its output, and stores it as JSON.

    record.py NAME JSON-FILE PROGRAM [ARGUMENT...]

Figures are stored but not shown; every other line is shown and stored as text (programs.py has the format).
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import programs, report


def main():
    name, path, *command = sys.argv[1:]
    sys.argv = [sys.argv[0], *command[1:]]
    result = report.Result(name, path, {}, rocksdb=report.package_version("librocksdb-dev"))
    printed, status = [], 0
    for kind, content in programs.lines(command, report.Ticker(name).tick):
        if kind == "figure":
            result.figures.append(content)
        elif kind == "status":
            status = content
        else:
            print(content, flush=True)
            printed.append(content)
    result.save(printed=printed)
    if status == 0:
        print()
        result.finish()
    return status


if __name__ == "__main__":
    sys.exit(main())
