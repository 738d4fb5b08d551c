"""Tasks of Celery and jobs of RQ. Each run appends a line to the file EBBTIDE_RUNS, so that tests count the runs."""

import os
import time
from pathlib import Path

from celery import Celery

URL = f"redis://127.0.0.1:{os.environ['EBBTIDE_PORT']}"
VISIBLE_SECONDS = 5  # a task that a worker has taken and not confirmed comes back after this time

app = Celery("tasks", broker=f"{URL}/1", backend=f"{URL}/2")
app.conf.update(
    task_acks_late=True,
    worker_prefetch_multiplier=1,
    broker_connection_retry_on_startup=True,
    broker_connection_max_retries=None,
    broker_transport_options={"visibility_timeout": VISIBLE_SECONDS, "unacked_mutex_expire": VISIBLE_SECONDS, "socket_timeout": 10},
)


def note(name):
    with open(os.environ["EBBTIDE_RUNS"], "ab", buffering=0) as runs:
        runs.write(f"{name}\n".encode())


@app.task(bind=True, max_retries=3)
def double(self, number, failures=0):
    note(f"double {number}")
    if self.request.retries < failures:
        raise self.retry(countdown=0.1)
    return 2 * number


@app.task
def hold(number):
    """Waits until the file EBBTIDE_GO exists."""
    note(f"hold {number}")
    while not Path(os.environ["EBBTIDE_GO"]).exists():
        time.sleep(0.02)
    return number


@app.task
def total(numbers):
    return sum(numbers)


def job(name):
    note(name)
