"""Tests of ./dev demo with a short deadline: the demo proves that deletes are on time, or reports NOT PROVED and exits with 1."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from support.server import ROOT, binary, wait_until

DEMO = [sys.executable, str(ROOT / "tests" / "tools" / "demo.py"), "--plain"]
DEADLINE = "10s"


def environment(tmp_path, server=None):
    return {**os.environ, "TMPDIR": str(tmp_path), "EBBTIDE_SERVER": str(server or binary())}


def run(tmp_path, *arguments, server=None):
    return subprocess.run([*DEMO, *arguments], capture_output=True, text=True, env=environment(tmp_path, server), timeout=120, check=False)


def wrapper(tmp_path, *settings):
    """Makes a server that changes the settings which the demo gives it."""
    path = tmp_path / "server"
    path.write_text(f'#!/bin/sh\nexec {binary()} "$@" ' + " ".join(f"--set {setting}" for setting in settings) + "\n")
    path.chmod(0o755)
    return path


def leftovers(tmp_path):
    """Returns the directories of the demo, and the processes with such a directory in their arguments."""
    found = [path.name for path in tmp_path.glob("ebbtide-demo-*")]
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if str(tmp_path).encode() in path.read_bytes():
                found.append(path.read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            pass
    return found


def test_demo_proves_that_the_secret_is_in_no_file_of_ebbtide_but_still_in_those_of_redis(tmp_path):
    done = run(tmp_path, "--deadline", DEADLINE)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "\nPROVED: deleted on time" in done.stdout
    assert "Ebbtide  grep finds nothing: no name, no value, in no file; gone after " in done.stdout
    assert "Redis    grep still finds it in appendonlydir/" in done.stdout
    assert "\x1b" not in done.stdout and "\r" not in done.stdout
    assert leftovers(tmp_path) == []


def test_server_with_a_longer_deadline_makes_the_demo_report_not_proved(tmp_path):
    done = run(tmp_path, "--deadline", "3s", server=wrapper(tmp_path, "tree.deletes.deadline=1h"))
    assert done.returncode == 1, done.stdout + done.stderr
    assert "NOT PROVED: the secret was in Ebbtide's directory at its deadline." in done.stdout
    assert "\nPROVED" not in done.stdout


def test_server_without_a_deadline_setting_makes_the_demo_report_not_proved(tmp_path):
    path = tmp_path / "server"
    path.write_text("#!/bin/sh\necho 'tree.deletes.deadline: no such key' >&2\nexit 2\n")
    path.chmod(0o755)
    done = run(tmp_path, server=path)
    assert (done.returncode, "NOT PROVED: this server has no delete deadline" in done.stdout) == (1, True)


def test_interrupted_demo_removes_its_files(tmp_path):
    # A background job of a script ignores SIGINT, and so would its children.
    heeds = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)}
    with subprocess.Popen([*DEMO, "--deadline", "10m"], stdout=subprocess.PIPE, text=True, env=environment(tmp_path), **heeds) as process:
        try:
            assert any("Wait for the deadline" in line for line in process.stdout)
            assert leftovers(tmp_path) != []
        finally:
            process.send_signal(signal.SIGINT)
        rest = process.communicate(timeout=60)[0]
    assert process.returncode == 130
    assert "Interrupted; everything is cleaned up." in rest
    wait_until(lambda: leftovers(tmp_path) == [], 20, "no directory and no process of the demo is left")


def test_demo_refuses_an_invalid_deadline_and_names_the_allowed_values(tmp_path):
    done = run(tmp_path, "--deadline", "1")
    assert done.returncode == 2 and "a duration from 2s to 60m" in done.stderr
