"""Tests of TUNE.APPLY: an advice takes effect while clients work, as a whole or not at all, and CONFIG REWRITE keeps it."""

import random
import threading
import time

import pytest
import redis

from support.tuning import POOR_FOR_WRITES, tuned_settings as settings

VALUE = b"v" * 200
KEYS = 20_000
WRITES = ("WORKLOAD", "0.01", "0.01", "0", "0.98", "RHO", "0")


def fill(client, keys=KEYS):
    for first in range(0, keys, 500):
        client.mset({f"key:{i}": VALUE for i in range(first, first + 500)})
    client.execute_command("TREE.FLUSH")


def advise(client, *options):
    reply = client.execute_command("TUNE.ADVISE", *options)
    return dict(zip(reply[::2], reply[1::2], strict=True))


@pytest.fixture
def loaded(fresh):
    """A server whose settings are poor for its workload: thousands of writes."""
    fresh.set(*(f"{key}={value}" for key, value in POOR_FOR_WRITES.items())).start()
    fill(fresh.client())
    return fresh


def start_with_file(server, file, text):
    """Starts a server whose poor settings are in its configuration file, so that CONFIG REWRITE can change them there."""
    file.write_text(text)
    server.set(*(f"{key}={value}" for key, value in POOR_FOR_WRITES.items() if not key.startswith("tree.policy")))
    server.config = file
    client = server.start().client()
    client.execute_command("TREE.POLICY", "leveling", "size_ratio", 20)
    client.config_rewrite()
    return client


def test_tune_apply_sets_the_last_advice_and_replies_with_the_changed_settings(loaded):
    client = loaded.client()
    before = settings(client)
    advice = advise(client, *WRITES)
    assert advice[b"verdict"].startswith(b"worth a change")
    config = dict(zip(*[iter(dict(zip(*[iter(advice[b"nominal"])] * 2, strict=True))[b"config"])] * 2, strict=True))
    reply = client.execute_command("TUNE.APPLY", "CHANGES")
    changes = {reply[i].decode(): reply[i + 1] for i in range(0, len(reply), 2)}
    after = settings(client)
    for key, (old, new) in changes.items():
        name = key.removeprefix("databases.0.")
        assert (before.get(name), after.get(name, new.decode())) == (old.decode() if old else None, new.decode())
    assert config[b"databases.0.policy.name"].decode() == after["policy.name"]
    assert "databases.0.policy.size_ratio" in changes
    lines = [line for line in loaded.log().splitlines() if "TUNE.APPLY, database 0: policy." in line]
    assert len(lines) == 1 and f"size_ratio 20 -> {after['policy.size_ratio']}" in lines[0]
    assert client.get("key:77") == VALUE


def test_tune_apply_replies_ok_and_a_second_one_changes_nothing(loaded):
    client = loaded.client()
    advise(client)
    assert client.execute_command("TUNE.APPLY") == b"OK"
    before = settings(client)
    with pytest.raises(redis.ResponseError, match="keep the settings"):
        client.execute_command("TUNE.APPLY")
    assert settings(client) == before


def test_tune_apply_without_an_earlier_advice_applies_a_new_one(loaded):
    """The workload history has only writes, so the new advice is for writes."""
    client = loaded.client()
    assert client.execute_command("TUNE.APPLY", "DB", "0") == b"OK"
    assert settings(client)["policy.size_ratio"] != "20"


def test_tune_apply_ignores_an_advice_that_is_older_than_a_change_of_settings(loaded):
    """The old advice is for scans. The new advice is for the workload history, which has only writes."""
    client = loaded.client()
    client.execute_command("TREE.POLICY", "tiering", "size_ratio", 20)
    advice = advise(client, "WORKLOAD", "0.01", "0.01", "0.97", "0.01", "RHO", "0")
    nominal = advice[b"nominal"]
    for_scans = nominal[nominal.index(b"config") + 1]
    client.execute_command("TREE.POLICY", "leveling", "size_ratio", 20)
    client.execute_command("TUNE.APPLY")
    applied = settings(client)
    for_scans = {for_scans[i].decode(): for_scans[i + 1].decode() for i in range(0, len(for_scans), 2)}
    old = (for_scans["databases.0.policy.name"], for_scans["databases.0.policy.size_ratio"])
    assert (applied["policy.name"], applied["policy.size_ratio"]) not in (old, ("leveling", "20"))


def test_tune_apply_with_db_argument_changes_that_database_only(loaded):
    client = loaded.client(db=3)
    fill(client)
    before = settings(client)
    assert loaded.client().execute_command("TUNE.APPLY", "DB", "3") == b"OK"
    assert settings(client) == before
    assert settings(client, 3)["policy.size_ratio"] != "20"


@pytest.mark.parametrize(
    ("arguments", "error"),
    [(("DB",), "syntax error"), (("DB", "x"), "not an integer"), (("DB", "16"), "DB index is out of range"), (("DB", "-1"), "DB index is out of range"),
     (("FORCE",), "syntax error"), (("CHANGES", "CHANGES", "x"), "syntax error")],
)  # fmt: skip
def test_tune_apply_with_wrong_arguments_is_refused(loaded, arguments, error):
    before = settings(loaded.client())
    with pytest.raises(redis.ResponseError, match=error):
        loaded.client().execute_command("TUNE.APPLY", *arguments)
    assert settings(loaded.client()) == before


def test_tune_apply_without_a_workload_history_is_refused_with_this_reason(fresh):
    fresh.start()
    with pytest.raises(redis.ResponseError, match="no advice: the history has 0 operations, and needs 1000"):
        fresh.client().execute_command("TUNE.APPLY")


def test_tune_apply_with_a_refused_setting_names_it_and_changes_nothing(loaded):
    client = loaded.client()
    before = settings(client)
    advise(client, *WRITES, "MEMORY", "12000")  # at most half for the memtable, below the smallest that is allowed
    with pytest.raises(redis.ResponseError, match="the advice was not applied, and nothing has changed.*databases.0.memtable_size.*allowed: 16KiB"):
        client.execute_command("TUNE.APPLY")
    assert settings(client) == before


def test_applied_settings_survive_a_kill_only_after_config_rewrite(fresh, tmp_path):
    client = start_with_file(fresh, tmp_path / "ebbtide.yaml", "databases:\n  0: { deletes: { deadline: 1h } }\n")
    fill(client)
    old = settings(client)
    client.execute_command("TUNE.APPLY")
    new = settings(client)
    assert new != old
    fresh.kill()
    fresh.start()
    client = fresh.client()
    assert settings(client) == old
    assert client.get("key:77") == VALUE
    advise(client, *WRITES)
    client.execute_command("TUNE.APPLY")
    new = settings(client)
    client.config_rewrite()
    fresh.kill()
    fresh.start()
    assert settings(fresh.client()) == new
    assert fresh.client().get("key:77") == VALUE


@pytest.mark.parametrize("seed", range(3))
def test_kill_during_tune_apply_and_config_rewrite_leaves_all_old_or_all_new_settings(fresh, tmp_path, seed):
    client = start_with_file(fresh, tmp_path / "ebbtide.yaml", "")
    fill(client, 5000)
    old = settings(client)
    advise(client, *WRITES)
    timer = threading.Timer(random.Random(seed).uniform(0, 0.01), fresh.kill)
    other = fresh.client()
    timer.start()
    new = None
    try:
        client.execute_command("TUNE.APPLY")
        other.config_rewrite()
        new = settings(client)
    except (redis.ConnectionError, redis.TimeoutError):
        pass
    timer.join()
    fresh.start()
    found = settings(fresh.client())
    assert found in (old, new) or (new is None and found["policy.size_ratio"] != "20" and found["filters.memory"] == "auto")
    assert fresh.client().get("key:77") == VALUE


def test_clients_get_right_values_and_no_error_while_tune_apply_changes_settings(loaded):
    """TUNE.APPLY alternates between two settings, while clients write and read their own keys."""
    failures, stop = [], threading.Event()
    written = [{} for _ in range(3)]

    def work(who):
        client, dice = loaded.client(), random.Random(who)
        known = written[who]
        try:
            while not stop.is_set():
                key, value = f"own:{who}:{dice.randrange(3000)}", dice.randbytes(150)
                client.set(key, value)
                known[key] = value
                probe = dice.choice(list(known))
                if client.get(probe) != known[probe]:
                    failures.append(f"{probe} has another value")
                if client.get(f"absent:{dice.random()}") is not None:
                    failures.append("an absent key has a value")
        except redis.RedisError as error:
            failures.append(repr(error))

    threads = [threading.Thread(target=work, args=(who,)) for who in range(3)]
    for thread in threads:
        thread.start()
    client, applied = loaded.client(), set()
    mixes = [("0.01", "0.01", "0", "0.98"), ("0.49", "0.49", "0.01", "0.01"), ("0.01", "0.01", "0.97", "0.01")]
    for turn in range(9):
        advise(client, "WORKLOAD", *mixes[turn % 3], "RHO", "0")
        try:
            client.execute_command("TUNE.APPLY")
        except redis.ResponseError as error:
            assert "keep the settings" in str(error)
        applied.add(tuple(settings(client).items()))
        for i in range(300):
            client.set(f"key:{i}", VALUE)
    stop.set()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(applied) >= 2
    for known in written:
        for key, value in known.items():
            assert client.get(key) == value
    report = client.execute_command("TREE.VERIFY")
    assert report[report.index(b"errors") + 1] == []


def test_measured_cost_of_operations_falls_to_the_predicted_cost_after_tune_apply(fresh):
    """The cost of an operation is the number of pages that reads, flushes and merges read and write for it."""
    uncompressed = {"storage.compression": "none", "storage.compression_last_level": "none", "storage.memtable_size": "128KiB"}
    fresh.set(*(f"{key}={value}" for key, value in {**POOR_FOR_WRITES, **uncompressed}.items())).start()
    client, dice, keys = fresh.client(), random.Random(1), 50_000
    for first in range(0, keys, 1000):
        client.mset({f"key:{i * 7919 % keys:06}": dice.randbytes(200) for i in range(first, first + 1000)})

    def work(count=30_000):
        for _ in range(0, count, 500):
            with client.pipeline(transaction=False) as pipe:
                for _ in range(500):
                    key = f"key:{dice.randrange(keys):06}"
                    if dice.random() < 0.9:
                        pipe.set(key, dice.randbytes(200))
                    else:
                        pipe.get(key + dice.choice(("", "x")))
                pipe.execute()

    def pages():
        values = [line.rsplit(" ", 1) for line in fresh.http("/metrics")[1].splitlines() if not line.startswith("#")]
        names = ("pages_read_total", "flush_bytes_total", "compaction_bytes_total")
        total = {name: sum(float(value) for full, value in values if full.startswith(f"ebbtide_{name}")) for name in names}
        return total["pages_read_total"] + (total["flush_bytes_total"] + total["compaction_bytes_total"]) / 4096

    def at_rest():
        """Returns pages() once no merge runs: on a busy machine, merges lag behind the writes that cause them."""
        last = None
        while last != pages():
            last = pages()
            time.sleep(0.5)
        return last

    def measured(count=90_000):  # the merges of a whole cycle of the levels
        before = at_rest()
        work(count)
        return (at_rest() - before) / count

    work()
    first = measured()
    advice = advise(client, "WORKLOAD", "0.05", "0.05", "0", "0.9", "RHO", "0")
    assert client.execute_command("TUNE.APPLY") == b"OK"
    work()  # merges to the new shape
    then = measured()
    nominal = dict(zip(*[iter(advice[b"nominal"])] * 2, strict=True))
    predicted = float(nominal[b"mean-cost"])
    assert then < first * 2 / 3
    assert predicted / 1.5 < then < predicted * 1.5, f"{first:.2f} pages before, {predicted:.2f} predicted, {then:.2f} measured"


def test_only_users_with_the_right_to_tune_apply_may_run_it(fresh):
    fresh.start()
    fresh.client().execute_command("ACL", "SETUSER", "tuner", "on", "nopass", "-@all", "+tune.workload", "+tune.advise")
    with pytest.raises(redis.exceptions.NoPermissionError):
        fresh.client(username="tuner", password="x").execute_command("TUNE.APPLY")


def test_metrics_count_the_changes_of_tune_apply(loaded):
    loaded.client().execute_command("TUNE.APPLY")
    assert 'ebbtide_tuning_changes_total{db="0",by="command"} 1' in loaded.http("/metrics")[1]
