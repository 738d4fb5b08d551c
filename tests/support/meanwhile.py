"""Runs work in threads of its own while a test does something else. An exception in a thread fails the test.

    with meanwhile(write):
        client.bgsave()
"""

import contextlib
import threading

from support.server import wait_until


@contextlib.contextmanager
def meanwhile(*works):
    """Calls each of `works` repeatedly in a thread of its own while the block runs, at least once. An exception ends its thread
    and is raised at the end of the block."""
    stop, rounds, errors = threading.Event(), [0] * len(works), []

    def run(number):
        try:
            while not stop.is_set():
                works[number]()
                rounds[number] += 1
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(works))]
    for thread in threads:
        thread.start()
    try:
        yield
        wait_until(lambda: errors or all(rounds), 60, "each function has been called")
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]
