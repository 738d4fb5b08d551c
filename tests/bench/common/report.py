"""Records a benchmark's result with its context (machine, versions, command), and prints it."""

import argparse
import json
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

from common import proc

ROOT = Path(__file__).resolve().parents[3]


def first_line(*command):
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return (done.stdout or done.stderr).strip().split("\n")[0]


def package_version(name):
    return first_line("dpkg-query", "-W", "-f=${Version}", name) if shutil.which("dpkg-query") else ""


def machine():
    def field(path, name):
        try:
            return re.search(rf"^{name}\s*:\s*(.+)$", Path(path).read_text(), re.M)[1]
        except (OSError, TypeError):
            return ""

    return {
        "cpu": field("/proc/cpuinfo", "model name"),
        "cores": os.cpu_count(),
        "memory_kib": int((field("/proc/meminfo", "MemTotal") or "0").split()[0]),
        "kernel": platform.release(),
        "system": first_line("sh", "-c", '. /etc/os-release && echo "$PRETTY_NAME"'),
        "architecture": platform.machine(),
    }


def versions(**more):
    commit = first_line("git", "-c", "safe.directory=*", "-C", str(ROOT), "rev-parse", "--short", "HEAD") if shutil.which("git") else ""
    return {"ebbtide": commit, "compiler": first_line("c++", "--version"), **more}


def progress(text):
    print(f"[{time.strftime('%H:%M:%S')}] {text}", file=sys.stderr, flush=True)


class Ticker:
    """Shows the progress of a long step: on a terminal in one changing line, otherwise in a line every ten seconds."""

    def __init__(self, what):
        self.what = what
        self.terminal = sys.stderr.isatty()
        self.begin = self.last = time.monotonic()
        self.shown = False

    def tick(self, text):
        now = time.monotonic()
        if now - self.last < (1 if self.terminal else 10):
            return
        self.last = now
        line = f"{self.what}: {now - self.begin:.0f} s, {text}"
        if self.terminal:
            print(f"\r\033[K{line}", end="", file=sys.stderr, flush=True)
            self.shown = True
        else:
            progress(line)

    def done(self):
        if self.shown:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


class Result:
    """The JSON file of a benchmark: {benchmark, taken_at, command, machine, versions, settings, elsewhere, targets, ...,
    figures, runs}. Used by several threads.

    Every save() writes it again, so an interrupted run keeps its figures. `runs` has the output of each program that ran, by name, for
    resume().
    """

    def __init__(self, name, path, settings, **version):
        self.path = Path(path)
        self.lock = threading.RLock()
        self.bystanders = proc.Bystanders()
        self.content = {
            "benchmark": name,
            "taken_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "finished": False,
            "command": ["./dev", "bench", name, *sys.argv[1:]],
            "machine": machine(),
            "versions": versions(**version),
            "settings": settings,
            "targets": [],
            "figures": [],
            "runs": {},
        }

    def resume(self):
        """Takes over the runs that are in the file from an earlier start. Those of another machine, version or size do not count."""
        try:
            earlier = json.loads(self.path.read_text())
        except FileNotFoundError:
            return
        for name in ("machine", "versions", "settings"):
            if earlier.get(name) != json.loads(json.dumps(self.content[name])):
                raise SystemExit(f"{self.path} has another {name}: {earlier.get(name)}; now {self.content[name]}. Without --resume it is replaced")
        self.content["runs"] = earlier.get("runs", {})
        progress(f"{len(self.content['runs'])} runs are in {self.path}")

    def run_of(self, name):
        """Returns the figures of a run that is done, or None."""
        with self.lock:
            return self.content["runs"].get(name)

    def add_run(self, name, figures):
        """Remembers the figures of a run, and saves."""
        with self.lock:
            self.content["runs"][name] = figures
            self.save()

    @property
    def figures(self):
        return self.content["figures"]

    def add(self, **figure):
        """Adds a measured point and saves."""
        with self.lock:
            self.figures.append(figure)
            self.save()

    def target(self, what, value, limit, at_most=True, unit=""):
        """Records and prints whether a value is within its limit."""
        met = value is not None and (value <= limit if at_most else value >= limit)
        self.content["targets"].append({"what": what, "value": value, "limit": limit, "unit": unit, "met": met})
        said = "not measured" if value is None else f"{value:,.4g} {unit}".rstrip()
        print(f"target {'met   ' if met else 'MISSED'}  {what}: {said} ({'at most' if at_most else 'at least'} {limit:,.4g} {unit}".rstrip() + ")")

    def save(self, **more):
        with self.lock:
            self.content.update(more)
            self.content["elsewhere"] = self.bystanders.share()
            self.path.parent.mkdir(parents=True, exist_ok=True)
            partial = self.path.with_suffix(".json.partial")
            partial.write_text(json.dumps(self.content, indent=2) + "\n")
            partial.replace(self.path)

    def finish(self, **more):
        """Saves for the last time. Prints the file's path, and whether other processes used the machine."""
        self.save(finished=True, **more)
        share = self.content["elsewhere"]
        if share["other_processes"] + share["stolen"] > 0.05:
            print(
                f"\nThe machine was not quiet: other processes had {share['other_processes']:.0%} of it, the host took {share['stolen']:.0%}. "
                "Then ratios and CPU times mean more than rates and latencies."
            )
        print(f"written to {self.path}")


def table(rows, heading):
    """Returns rows of cells as aligned text: the first column to the left, the others to the right."""
    widths = [max(len(str(row[column])) for row in [heading, *rows]) for column in range(len(heading))]

    def line(row):
        cells = [str(cell).ljust(width) if column == 0 else str(cell).rjust(width) for column, (cell, width) in enumerate(zip(row, widths))]
        return "  ".join(cells).rstrip()

    return "\n".join([line(heading), "  ".join("-" * width for width in widths), *map(line, rows)])


def cell(value, form=",.2f"):
    """Returns a number as text, or a dash if it was not measured."""
    return "-" if value is None else format(value, form)


def plural(count, noun):
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def median_of(runs):
    """Returns the median of each key over dictionaries with the same keys. A value that is no number is taken from the last
    dictionary."""
    medians = {}
    for key in runs[-1]:
        values = [run[key] for run in runs if run.get(key) is not None]
        plain = all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values)
        medians[key] = statistics.median(values) if values and plain else runs[-1][key]
    return medians


UNITS = {"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}


def size(text):
    """Parses "256MiB" into bytes, like the configuration does. Used by argparse."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]iB|B|)", text)
    if not match:
        raise argparse.ArgumentTypeError(f"'{text}' is no size; sizes look like 64MiB or 10GiB")
    return int(float(match[1]) * UNITS[match[2]])


def human(count):
    """Returns bytes as text, in binary units."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if count < 1024 or unit == "TiB":
            return f"{count:.0f} {unit}" if unit == "B" or count >= 100 else f"{count:.1f} {unit}"
        count /= 1024


def defaults_by_size(options):
    """Returns a function that sets an option unless it was given: to its value for --quick, by default, or for --full."""

    def default(name, quick, usual, full):
        if getattr(options, name) is None:
            setattr(options, name, quick if options.quick else full if options.full else usual)

    return default


def sized(options, quick, default, full):
    """Returns the value for --quick, for --full, or for neither."""
    return quick if options.quick else full if options.full else default


def count_list(text, least=1):
    """Parses "1M,10M" or "1_000_000,..." into [1000000, 10000000]. Used by argparse."""
    factors = {"k": 1_000, "K": 1_000, "M": 1_000_000}
    counts = []
    for word in text.split(","):
        match = re.fullmatch(r"\s*([\d_]+(?:\.\d+)?)([kKM]?)\s*", word)
        count = float(match[1].replace("_", "") or 0) * factors.get(match[2], 1) if match else 0
        if match is None or count < least or count != int(count):
            raise argparse.ArgumentTypeError(f"'{word}' in '{text}' is no whole number from {least} on; lists look like 1,2,4 or 10k,1M")
        counts.append(int(count))
    return counts


def count(text):
    """Parses "1M" into 1000000. Used by argparse."""
    counts = count_list(text)
    if len(counts) != 1:
        raise argparse.ArgumentTypeError(f"'{text}' is no single number")
    return counts[0]
