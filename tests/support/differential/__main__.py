"""Sends random sequences of commands to redis-server and to this server, as many as wanted, and compares the replies.

    PYTHONPATH=tests python3 -m support.differential --sequences 1000000 [--first 0] [--keep-going]

The program starts both servers. It prints progress, and for each difference the sequence that causes it, reduced to the necessary
commands. `--first SEED --sequences 1` repeats one sequence. The exit status is 1 if there was a difference.
"""

import argparse
import sys
import tempfile
import time

from support.differential.rounds import Differ
from support.server import Server, redis_server

SETTINGS = {"storage.memory_budget": "128MiB", "server.bind": "127.0.0.1"}
STEP = 5000  # sequences per line of progress


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--sequences", type=int, default=1_000_000)
    options.add_argument("--first", type=int, default=0, help="the first seed")
    options.add_argument("--keep-going", action="store_true", help="after a difference, go on with the next seed")
    options = options.parse_args()
    start, failures = time.monotonic(), 0
    with tempfile.TemporaryDirectory() as home, Server(SETTINGS, config=None) as server, redis_server(home) as redis_port:
        differ = Differ(server.port, redis_port)
        at, end, told = options.first, options.first + options.sequences, options.first
        while at < end:
            failed = differ.run(at, min(STEP, end - at))
            if failed is not None:
                failures += 1
                print(differ.report(failed), flush=True)
                if not options.keep_going:
                    break
            at = min(at + STEP, end) if failed is None else failed + 1
            if at - told >= STEP or at == end:
                told = at
                seconds = time.monotonic() - start
                print(f"{at - options.first} sequences, {differ.commands} commands, {failures} differences, {seconds:.0f} s", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
