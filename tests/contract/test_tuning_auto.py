"""Tests of tuning.auto: the server watches its own workload, and advises or applies other settings. A window is one second long."""

import threading
import time

import pytest
import redis

from support.server import wait_until
from support.tuning import POOR_FOR_WRITES, tuned_settings as settings

VALUE = b"v" * 200
SMALL = {**POOR_FOR_WRITES, "tuning.window": "1s"}


class Load:
    """Writes and reads in the background until it is stopped. Counts errors and wrong values."""

    def __init__(self, server):
        self.failures, self.stopped, self.server = [], threading.Event(), server
        self.thread = threading.Thread(target=self.run)

    def run(self):
        client, turn = self.server.client(), 0
        try:
            while not self.stopped.is_set():
                with client.pipeline(transaction=False) as pipe:
                    for i in range(500):
                        pipe.set(f"key:{(turn * 500 + i) * 7919 % 40_000}", VALUE)
                    pipe.get(f"key:{turn * 500 * 7919 % 40_000}")
                    if pipe.execute()[-1] != VALUE:
                        self.failures.append("wrong value")
                turn += 1
        except redis.RedisError as error:
            self.failures.append(repr(error))

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stopped.set()
        self.thread.join()
        assert self.failures == []


@pytest.fixture
def loaded(fresh):
    fresh.set(*(f"{key}={value}" for key, value in SMALL.items()))
    return fresh


def state(client):
    return client.info("workload").get("tuning_db0")


def test_tuning_auto_apply_changes_poor_settings_under_load_and_counts_the_change(loaded):
    loaded.set("tuning.auto=apply").start()
    client = loaded.client()
    before = settings(client)
    with Load(loaded):
        wait_until(lambda: settings(client) != before, 60, "the settings have changed", interval=0.5)
        after = settings(client)
        time.sleep(3)
        assert settings(client) == after  # a change stays for five windows
    assert "tuning.auto, database 0: policy." in loaded.log() and "size_ratio 20 -> " in loaded.log()
    assert state(client)["changes"] >= 1
    assert client.config_get("databases.0.policy.size_ratio")["databases.0.policy.size_ratio"] != "20"
    report = client.execute_command("TREE.VERIFY")
    assert report[report.index(b"errors") + 1] == []


def test_tuning_auto_advise_logs_an_advice_that_tune_apply_applies(loaded):
    loaded.start()
    client = loaded.client()
    assert state(client) is None
    before = settings(client)
    client.config_set("tuning.auto", "advise")
    with Load(loaded):
        wait_until(lambda: (state(client) or {}).get("advised") == 1, 60, "a change is advised", interval=0.5)
        assert settings(client) == before
        info = client.info("workload")
        assert float(info["tuning_db0"]["best_cost"]) < float(info["tuning_db0"]["cost"])
        text = loaded.http("/metrics")[1]
        assert 'ebbtide_tuning_advised{db="0"} 1' in text and "ebbtide_tuning_auto 1" in text
        assert 'ebbtide_tuning_cost_pages{db="0",settings="best"}' in text
    lines = [line for line in loaded.log().splitlines() if "tuning.auto, database 0: advised: CONFIG SET databases.0.policy.name " in line]
    assert lines
    assert client.execute_command("TUNE.APPLY") == b"OK"
    assert settings(client) != before


def test_tuning_auto_off_hides_the_advice_and_changes_no_setting(loaded):
    loaded.set("tuning.auto=advise").start()
    client = loaded.client()
    with Load(loaded):
        wait_until(lambda: state(client), 60, "a window has ended", interval=0.5)
        client.config_set("tuning.auto", "off")
        wait_until(lambda: state(client) is None, 10, "the state is gone")
    assert "ebbtide_tuning_auto 0" in loaded.http("/metrics")[1]


def test_wrong_values_of_tuning_settings_are_refused(loaded):
    loaded.start()
    client = loaded.client()
    for key, value, allowed in (
        ("tuning.auto", "on", "off, advise, apply"),
        ("tuning.rho", "6", "0 to 5"),
        ("tuning.window", "0s", "1s to 1d"),
        ("tuning.expected_workload", "1 1 0 0", "four shares"),
        ("tuning.write_asymmetry", "-1", "0 to 1000"),
        ("tuning.sequential_cost", "nan", "0 to 1000"),
    ):
        with pytest.raises(redis.ResponseError, match=f"CONFIG SET failed.*{key}.*{allowed}"):
            client.config_set(key, value)
    client.config_set("tuning.expected_workload", "0.25 0.25 0.25 0.25")
    assert client.config_get("tuning.expected_workload") == {"tuning.expected_workload": "0.25 0.25 0.25 0.25"}
    client.config_set("tuning.expected_workload", "")
    assert client.config_get("tuning.expected_workload") == {"tuning.expected_workload": ""}
