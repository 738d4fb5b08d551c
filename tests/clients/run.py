"""Tests client libraries and programs against the real server: `./dev test-clients [NAME...]`.

Each folder here is one library, or the programs of one language. Their versions are pinned by their package manager's files:
package.json and package-lock.json for npm, go.mod and go.sum for Go, pom.xml for Maven, requirements.txt for pip. For programs the
server syncs each write. The library is installed into build/clients/NAME. Its script runs against a server of
its own. The server is restarted whenever it ends, since some tests kill it to see how the library reconnects. Every script ends
with `N passed, N failed` within ten minutes. A library that cannot be installed is reported with the reason, and counts as one
failed test.
"""

import os
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path

from support.server import ROOT, Server

HERE = Path(__file__).resolve().parent
BUILD = ROOT / "build" / "clients"
PYTHON = "/usr/bin/python3"  # Debian's, which ./dev installs
SCRIPT_SECONDS = 600  # time limit of a script; every script takes less than a tenth of it


class CannotInstall(Exception):
    pass


def fetch(name, tool, command, folder, **environment):
    """Runs a command of a package manager in a folder. Raises CannotInstall if the manager is missing or fails."""
    if shutil.which(tool) is None:
        raise CannotInstall(f"{name}: there is no {tool} on this machine")
    done = subprocess.run(command, cwd=folder, env={**os.environ, **environment}, stdout=sys.stderr, check=False)
    if done.returncode:
        raise CannotInstall(f"{name}: {tool} could not fetch it. Is its registry reachable? See its messages above.")


def fresh_copy(name, files):
    """Copies the files to build/clients/NAME. Returns that folder, and a function to call after the installation, or None if the
    library is already installed."""
    folder = BUILD / name
    wanted = "".join((HERE / name / file).read_text() for file in files)
    mark = folder / "installed"  # written last, so that an interrupted installation is repeated
    if mark.exists() and mark.read_text() == wanted:
        return folder, None
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for file in files:
        shutil.copy(HERE / name / file, folder / file)
    return folder, lambda: mark.write_text(wanted)


def node_command(name):
    folder, finish = fresh_copy(name, ["package.json", "package-lock.json"])
    if finish:
        # The cache is in build/, too, since the home directory may be read-only.
        options = ["--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier", "--cache", str(BUILD / "cache")]
        fetch(name, "npm", ["npm", "ci", *options], folder)
        finish()
    return ["node", str(HERE / name / "test.js")], {"NODE_PATH": str(folder / "node_modules")}


def python_command(name):
    folder, finish = fresh_copy(name, ["requirements.txt"])
    if finish:
        options = ["--no-deps", "--disable-pip-version-check", "--target", "lib", "--requirement", "requirements.txt"]
        fetch(name, PYTHON, [PYTHON, "-m", "pip", "install", *options], folder)
        finish()
    return [PYTHON, str(HERE / name / "test.py")], {"PYTHONPATH": str(folder / "lib")}


def go_command(name):
    folder, finish = fresh_copy(name, ["go.mod", "go.sum", "main.go"])
    if finish:
        fetch(name, "go", ["go", "build", "-o", "client", "."], folder, GOFLAGS="-mod=readonly")
        finish()
    return [str(folder / "client")], {}


def java_command(name):
    folder, finish = fresh_copy(name, ["pom.xml", "ClientTest.java"])
    if finish:
        fetch(name, "mvn", ["mvn", "-B", "-q", "dependency:copy-dependencies", "-DoutputDirectory=lib"], folder)
        fetch(name, "javac", ["javac", "-cp", "lib/*", "-d", "classes", "ClientTest.java"], folder)
        finish()
    return ["java", "-cp", f"{folder}/classes:{folder}/lib/*", "ClientTest"], {}


KINDS = {"package.json": node_command, "requirements.txt": python_command, "go.mod": go_command, "pom.xml": java_command}


def libraries():
    """Returns {name: function that installs the library and returns the command of its script}."""
    return {folder.name: KINDS[file] for folder in sorted(HERE.iterdir()) for file in KINDS if (folder / file).exists()}


def run(name, kind):
    """Tests one library. Returns the numbers (passed, failed)."""
    print(f"==> {name}", flush=True)
    try:
        command, environment = kind(name)
    except CannotInstall as why:
        print(why, flush=True)
        return 0, 1
    counts = None
    with Server({"storage.fsync": "always"} if name.endswith("-programs") else None) as server:
        over = threading.Event()

        def keep_running():
            while not over.wait(0.05):
                if not server.running:
                    server.start()

        keeper = threading.Thread(target=keep_running)
        keeper.start()
        try:
            environment = {**os.environ, "EBBTIDE_PORT": str(server.port), **environment}
            with subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as script:
                late = threading.Timer(SCRIPT_SECONDS, script.kill)
                late.daemon = True
                late.start()
                for line in script.stdout:
                    print(line, end="", flush=True)
                    counts = re.fullmatch(r"(\d+) passed, (\d+) failed\n", line) or counts
                late.cancel()
        finally:
            over.set()
            keeper.join()
    return (int(counts[1]), int(counts[2])) if counts else (0, 1)


def main():
    known = libraries()
    wanted = sys.argv[1:] or list(known)
    for name in wanted:
        if name not in known:
            raise SystemExit(f"no client '{name}'. There are: {', '.join(known)}.")
    totals = [run(name, known[name]) for name in wanted]
    passed, failed = (sum(column) for column in zip(*totals))
    print(f"\n{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
