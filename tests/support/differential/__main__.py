"""Random sequences to redis-server and to this server, for as long as it takes.

    PYTHONPATH=tests python3 -m support.differential --sequences 1000000 [--first 0] [--keep-going]

Starts both servers. Prints progress, and each difference as the sequence that makes it, without the commands that it does not need;
--first SEED --sequences 1 repeats one. Ends with status 1 if there was a difference.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
import time

from support.differential.rounds import Differ
from support.server import Server, free_port, wait_until
from support.differential.wire import Link

SETTINGS = {"storage.memory_budget": "128MiB", "server.bind": "127.0.0.1"}
STEP = 5000  # sequences between two lines of progress


def start_redis(home):
    program = shutil.which("redis-server")
    if program is None:
        raise SystemExit("there is no redis-server to compare with")
    port = free_port()
    process = subprocess.Popen([program, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", home, "--logfile", home + "/log"])

    def answers():
        try:
            Link(port).close()
            return True
        except OSError:
            return False

    wait_until(answers, 30, "redis-server answers")
    return process, port


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--sequences", type=int, default=1_000_000)
    options.add_argument("--first", type=int, default=0, help="the first seed")
    options.add_argument("--keep-going", action="store_true", help="after a difference, go on with the next seed")
    options = options.parse_args()
    start, failures = time.monotonic(), 0
    with tempfile.TemporaryDirectory() as home, Server(SETTINGS, config=None) as server:
        redis, redis_port = start_redis(home)
        try:
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
        finally:
            redis.terminate()
            redis.wait()
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
