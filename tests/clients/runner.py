"""Runs tests one after the other; the last line that it prints is `N passed, N failed`.

run.py starts the server, gives its port in EBBTIDE_PORT, and restarts it whenever it ends.
"""

import os
import signal
import sys
import time
import traceback

from redis.exceptions import ConnectionError, TimeoutError

PORT = int(os.environ["EBBTIDE_PORT"])
TESTS = []


def test(function):
    """Adds a test: a function that raises if something is wrong. Its name is that of the function."""
    TESTS.append(function)
    return function


def until(condition, what, seconds=60):
    """Repeats a check of background work until it is true, and returns its value."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError(f"not within {seconds} s: {what}")


def kill_server(redis):
    """Kills the server of this client of redis-py by SIGKILL. Returns once the next one is ready."""
    before = redis.info("server")["process_id"]
    os.kill(before, signal.SIGKILL)

    def is_back():
        try:
            return redis.info("server")["process_id"] != before
        except (ConnectionError, TimeoutError):
            return False

    until(is_back, "the server is back")


def run():
    failed = 0
    for function in TESTS:
        name = function.__name__.replace("_", " ")
        try:
            function()
            print(f"ok      {name}", flush=True)
        except Exception:  # a test may raise anything
            failed += 1
            print(f"FAILED  {name}\n        " + traceback.format_exc().replace("\n", "\n        "), flush=True)
    print(f"{len(TESTS) - failed} passed, {failed} failed", flush=True)
    sys.exit(1 if failed else 0)
