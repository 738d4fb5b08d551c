"""Runs the C++ benchmark programs and parses their output, line by line.

A line `figure: {...}` is a figure as JSON, and a line `progress: TEXT` shows the progress. Every other line is for people.
"""

import json
import subprocess

from common import report
from support.server import binary


def lines(command, on_progress):
    """Runs a program. Yields ("figure", {...}) and ("text", line) for its lines, and ("status", number) at the end."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            for line in process.stdout:
                if line.startswith("figure: "):
                    yield "figure", json.loads(line.removeprefix("figure: "))
                elif line.startswith("progress: "):
                    on_progress(line.removeprefix("progress: ").strip())
                else:
                    yield "text", line.rstrip("\n")
        except BaseException:
            process.kill()
            raise
    yield "status", process.returncode


def arguments_of(**options):
    """Returns the options as arguments: pages_per_tile=8 gives --pages-per-tile 8, True gives a flag, a list gives its elements,
    False and None give nothing."""
    words = []
    for name, value in options.items():
        if value is None or value is False:
            continue
        words.append("--" + name.replace("_", "-"))
        if value is not True:
            words += [str(one) for one in value] if isinstance(value, (list, tuple)) else [str(value)]
    return words


_journal = None  # the Result that remembers runs


def remember(result):
    """From now on figures() records its runs in the result, and does not repeat those that it has."""
    global _journal
    _journal = result


def figures(name, what, **options):
    """Runs bench_NAME once, shows its progress, and returns its figures. If it fails, this program ends. `what` names the run."""
    arguments = arguments_of(**options)
    run = f"{what}: bench_{name} {' '.join(arguments)}"
    if _journal is not None and (done := _journal.run_of(run)) is not None:
        return done
    ticker = report.Ticker(what)
    command = [str(binary("bench_" + name)), *arguments]
    found = []
    for kind, content in lines(command, ticker.tick):
        if kind == "figure":
            found.append(content)
        elif kind == "status" and content != 0:
            raise SystemExit(f"{what}: the program ended with status {content}; the reason is printed above. {' '.join(command)}")
    ticker.done()
    if _journal is not None:
        _journal.add_run(run, found)
    return found
