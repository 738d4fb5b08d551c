"""Client libraries of other languages against the real server: `./dev test-clients [NAME...]`.

Each folder beside this file that has a package.json is one library, with the version that is pinned there: it is installed into
build/clients/NAME, and test.js runs against a server of its own, which is started again whenever it ends (the tests kill it to
see what the library makes of that). Ends with `N passed, N failed`.
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


def install(name):
    """Installs what package-lock.json names, unless that is there already; the folder with the modules."""
    folder, source = BUILD / name, HERE / name
    wanted = (source / "package-lock.json").read_text()
    done = folder / "installed"  # written last: an installation that was cut off does not count
    if done.exists() and done.read_text() == wanted:
        return folder / "node_modules"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for file in ("package.json", "package-lock.json"):
        shutil.copy(source / file, folder / file)
    # The cache lies in build/ too: a home may be read-only.
    command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier", "--cache", str(BUILD / "cache")]
    if subprocess.run(command, cwd=folder, stdout=sys.stderr, check=False).returncode:
        raise SystemExit(f"{name}: npm could not install it; the reason stands above.")
    done.write_text(wanted)
    return folder / "node_modules"


def run(name):
    """(passed, failed)"""
    modules = install(name)
    print(f"==> {name}", flush=True)
    counts = None
    with Server() as server:
        over = threading.Event()

        def keep_running():
            while not over.wait(0.05):
                if not server.running:
                    server.start()

        keeper = threading.Thread(target=keep_running)
        keeper.start()
        try:
            environment = {**os.environ, "EBBTIDE_PORT": str(server.port), "NODE_PATH": str(modules)}
            command = ["node", str(HERE / name / "test.js")]
            with subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as node:
                for line in node.stdout:
                    print(line, end="", flush=True)
                    counts = re.fullmatch(r"(\d+) passed, (\d+) failed\n", line) or counts
        finally:
            over.set()
            keeper.join()
    return (int(counts[1]), int(counts[2])) if counts else (0, 1)


def main():
    known = sorted(path.parent.name for path in HERE.glob("*/package.json"))
    wanted = sys.argv[1:] or known
    for name in wanted:
        if name not in known:
            raise SystemExit(f"no client '{name}'. There are: {', '.join(known)}.")
    totals = [run(name) for name in wanted]
    passed, failed = (sum(column) for column in zip(*totals))
    print(f"\n{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
