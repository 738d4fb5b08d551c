"""What every benchmark's result carries besides its figures: the machine, the versions, the command; and how it is shown."""

import json
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def first_line(*command):
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return (done.stdout or done.stderr).strip().split("\n")[0]


def machine():
    def field(path, name):
        try:
            return re.search(rf"^{name}\s*:\s*(.+)$", Path(path).read_text(), re.M)[1]
        except (OSError, TypeError):
            return ""

    return {
        "cpu": field("/proc/cpuinfo", "model name"),
        "cores": os.cpu_count(),
        "memory_kib": int(field("/proc/meminfo", "MemTotal").split()[0] or 0),
        "kernel": platform.release(),
        "system": first_line("sh", "-c", '. /etc/os-release && echo "$PRETTY_NAME"'),
        "architecture": platform.machine(),
    }


def versions(**more):
    commit = first_line("git", "-c", "safe.directory=*", "-C", str(ROOT), "rev-parse", "--short", "HEAD") if shutil.which("git") else ""
    return {"ebbtide": commit, "compiler": first_line("c++", "--version"), **more}


def write_json(path, name, figures, **more):
    """The result as one file: {benchmark, taken_at, command, machine, versions, ..., figures}."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {
        "benchmark": name,
        "taken_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "command": ["./dev", "bench", name, *sys.argv[1:]],
        "machine": machine(),
        **more,
        "figures": figures,
    }
    path.write_text(json.dumps(content, indent=2) + "\n")


def table(rows, heading):
    """Rows of strings as aligned text: the first column to the left, the others to the right."""
    widths = [max(len(str(row[column])) for row in [heading, *rows]) for column in range(len(heading))]

    def line(row):
        cells = [str(cell).ljust(width) if column == 0 else str(cell).rjust(width) for column, (cell, width) in enumerate(zip(row, widths))]
        return "  ".join(cells).rstrip()

    return "\n".join([line(heading), "  ".join("-" * width for width in widths), *map(line, rows)])
