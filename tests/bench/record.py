"""Runs a benchmark program, shows what it prints as it prints it, and keeps it as JSON.

    record.py NAME JSON-FILE PROGRAM [ARGUMENT...]

A line of the form `figure: {...}` is a figure, as JSON, and is kept but not shown; every other line is shown and kept as text.
"""

import json
import subprocess
import sys

import report


def main():
    name, path, *command = sys.argv[1:]
    lines, figures = [], []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            if line.startswith("figure: "):
                figures.append(json.loads(line.removeprefix("figure: ")))
                continue
            sys.stdout.write(line)
            sys.stdout.flush()
            lines.append(line.rstrip("\n"))
    sys.argv = [sys.argv[0], *command[1:]]
    rocksdb = report.first_line("dpkg-query", "-W", "-f=${Version}", "librocksdb-dev")
    report.write_json(path, name, figures, versions=report.versions(rocksdb=rocksdb), printed=lines)
    if process.returncode == 0:
        print(f"\nwritten to {path}")
    return process.returncode


if __name__ == "__main__":
    sys.exit(main())
