"""Runs a benchmark program, shows what it prints as it prints it, and keeps it as JSON.

    record.py NAME JSON-FILE PROGRAM [ARGUMENT...]

A line of the form `figure: {...}` is a figure, as JSON, and is kept but not shown; every other line is shown and kept as text.
"""

import json
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import report


def main():
    name, path, *command = sys.argv[1:]
    sys.argv = [sys.argv[0], *command[1:]]
    result = report.Result(name, path, {}, rocksdb=report.package_version("librocksdb-dev"))
    lines = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            if line.startswith("figure: "):
                result.figures.append(json.loads(line.removeprefix("figure: ")))
                continue
            sys.stdout.write(line)
            sys.stdout.flush()
            lines.append(line.rstrip("\n"))
    result.save(printed=lines)
    if process.returncode == 0:
        print()
        result.finish()
    return process.returncode


if __name__ == "__main__":
    sys.exit(main())
