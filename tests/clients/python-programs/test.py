# Python programs on the server: Celery, RQ, the cache of Django, sessions of Flask, rate limits, and the lock of redis-py.
import collections
import contextlib
import itertools
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import redis

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from runner import PORT, kill_server, run, test, until  # noqa: E402

RUNS = Path(tempfile.mkdtemp(prefix="ebbtide-programs-")) / "runs"
os.environ["EBBTIDE_RUNS"] = str(RUNS)
os.environ["EBBTIDE_GO"] = str(RUNS.parent / "go")
client = redis.Redis(port=PORT)


def runs():
    """Returns how often each task and job ran."""
    return collections.Counter(RUNS.read_text().splitlines() if RUNS.exists() else [])


@contextlib.contextmanager
def celery_worker():
    import tasks

    log = RUNS.parent / "worker.log"
    with open(log, "wb") as output:
        command = [sys.executable, "-m", "celery", "-A", "tasks", "worker", "-c", "2", "--without-gossip", "--without-mingle"]
        worker = subprocess.Popen(command, cwd=Path(__file__).parent, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        try:
            until(lambda: tasks.app.control.ping(timeout=0.5), "the worker answers")
            yield tasks
        except BaseException:
            print(log.read_text(errors="replace")[-4000:])
            raise
        finally:
            worker.terminate()
            worker.wait(60)


@test
def celery_runs_tasks_retries_and_chords():
    RUNS.unlink(missing_ok=True)
    with celery_worker() as tasks:
        results = [tasks.double.delay(i, failures=i % 3) for i in range(20)]
        assert [result.get(timeout=30) for result in results] == [2 * i for i in range(20)]
        assert runs() == {f"double {i}": 1 + i % 3 for i in range(20)}
        from celery import chord

        assert chord([tasks.double.s(i) for i in range(10)])(tasks.total.s()).get(timeout=30) == 90


@test
def celery_loses_no_task_when_the_server_is_killed():
    RUNS.unlink(missing_ok=True)
    go = Path(os.environ["EBBTIDE_GO"])
    go.unlink(missing_ok=True)
    sent = []
    over = threading.Event()

    def produce(tasks):
        for number in itertools.count():
            if over.is_set():
                return
            with contextlib.suppress(Exception):  # a task that was not confirmed may be lost
                sent.append((number, tasks.double.delay(number)))

    # Kombu, Celery's transport, loses a task if the server is killed while the task is being delivered. So the worker is busy when the
    # server is killed, and no task is being delivered.
    with celery_worker() as tasks:
        held = [tasks.hold.delay(i) for i in range(2)]
        until(lambda: len(runs()) == 2, "the worker has its hands full")
        producer = threading.Thread(target=produce, args=[tasks])
        producer.start()
        until(lambda: len(sent) >= 50, "tasks wait")
        kill_server(client)
        before = len(sent)
        until(lambda: len(sent) >= before + 50, "tasks are sent again")
        over.set()
        producer.join()
        go.touch()
        until(lambda: len(runs()) >= len(sent), "waiting tasks run")
        assert [result.get(timeout=60) for _, result in sent] == [2 * number for number, _ in sent]
    with celery_worker():  # takes over what the first one could not confirm, once it is visible again
        assert [result.get(timeout=60) for result in held] == [0, 1]
        count = runs()
        assert all(count[f"double {number}"] >= 1 for number, _ in sent)
        again = [task for task, times in count.items() if times > 1 and task.startswith("double")]
        assert len(again) <= 1, again  # the one that was being sent is sent again


@test
def rq_runs_jobs_and_keeps_those_that_wait_when_the_server_is_killed():
    import rq
    import tasks

    RUNS.unlink(missing_ok=True)
    queue = rq.Queue("jobs", connection=client)

    def work():
        rq.SimpleWorker([queue], connection=redis.Redis(port=PORT)).work(burst=True, logging_level="ERROR")

    # RQ stores results and failures in streams; these jobs have neither.
    for i in range(10):
        queue.enqueue(tasks.job, f"job {i}", result_ttl=0)
    work()
    assert runs() == {f"job {i}": 1 for i in range(10)}
    for i in range(10, 20):
        queue.enqueue(tasks.job, f"job {i}", result_ttl=0)
    kill_server(client)
    assert len(queue) == 10
    work()
    assert runs() == {f"job {i}": 1 for i in range(20)}
    assert len(queue) == 0


@test
def django_cache_keeps_what_it_was_given():
    from django.conf import settings

    location = f"redis://127.0.0.1:{PORT}/3"
    settings.configure(CACHES={"default": {"BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": location}})
    from django.core.cache import cache

    cache.set("page", {"text": ["a", 1]}, 600)
    cache.set_many({"n": 5, "forever": "x"}, None)
    assert not cache.add("page", "other")
    assert cache.incr("n", 3) == 8
    assert cache.touch("n", 600)
    kill_server(client)
    until(lambda: works(lambda: cache.get("n")), "the cache is connected again")
    assert cache.get_many(["page", "n", "none"]) == {"page": {"text": ["a", 1]}, "n": 8}
    assert cache.get_or_set("made", lambda: 7) == 7
    assert cache.delete("n") and not cache.delete("n")
    cache.set("short", 1, 0.2)
    until(lambda: not cache.has_key("short"), "the value expires")  # noqa: W601
    cache.delete_many(["page", "made"])
    assert cache.get("forever") == "x"
    cache.clear()
    assert cache.get("forever") is None


def works(function):
    """Calls the function. Returns True if it does not lose its connection."""
    try:
        function()
        return True
    except (redis.ConnectionError, redis.TimeoutError):
        return False


@test
def flask_session_goes_on_when_the_server_was_killed():
    import flask
    from flask_session import Session

    app = flask.Flask("counter")
    app.config.update(SESSION_TYPE="redis", SESSION_REDIS=redis.Redis(port=PORT, db=4))
    Session(app)

    @app.route("/")
    def count():
        flask.session["n"] = flask.session.get("n", 0) + 1
        return str(flask.session["n"])

    @app.route("/end")
    def end():
        flask.session.clear()
        return "ended"

    one, other = app.test_client(), app.test_client()
    assert [one.get("/").text for _ in range(3)] == ["1", "2", "3"]
    assert other.get("/").text == "1"
    kill_server(client)
    assert one.get("/").text == "4"
    assert other.get("/").text == "2"
    one.get("/end")
    assert one.get("/").text == "1"


@test
def limits_count_through_a_kill_of_the_server():
    from limits import parse, storage, strategies

    store = storage.storage_from_string(f"redis://127.0.0.1:{PORT}/5")
    limit = parse("10/hour")
    for kind in (strategies.FixedWindowRateLimiter, strategies.MovingWindowRateLimiter, strategies.SlidingWindowCounterRateLimiter):
        limiter = kind(store)
        assert all(limiter.hit(limit, kind.__name__) for _ in range(6))
        kill_server(client)
        until(lambda: works(lambda: limiter.test(limit, kind.__name__)), "the limiter is connected again")  # noqa: B023
        assert limiter.get_window_stats(limit, kind.__name__).remaining == 4
        assert [limiter.hit(limit, kind.__name__) for _ in range(6)] == [True] * 4 + [False] * 2
        limiter.clear(limit, kind.__name__)
        assert limiter.test(limit, kind.__name__)


@test
def locks_exclude_each_other():
    counter = {"n": 0, "inside": 0}

    def work():
        mine = redis.Redis(port=PORT)
        for _ in range(20):
            with mine.lock("turn", timeout=60, sleep=0.002):
                counter["inside"] += 1
                assert counter["inside"] == 1
                counter["n"] += 1
                counter["inside"] -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counter == {"n": 80, "inside": 0}


@test
def lock_is_held_through_a_kill_of_the_server():
    lock = client.lock("held", timeout=60)
    assert lock.acquire()
    assert lock.extend(30) and lock.reacquire()
    kill_server(client)
    assert lock.owned()
    other = client.lock("held", timeout=60)
    assert not other.acquire(blocking=False)
    assert 0 < client.pttl("held") <= 60_000
    lock.release()
    assert other.acquire(blocking=False)
    try:
        lock.release()
        raise AssertionError("a lock of another owner was released")
    except redis.exceptions.LockError:
        pass
    other.release()


run()
