"""Tests of TUNE.WORKLOAD, TUNE.ADVISE and `ebbtide-tune advise --server`: a server counts its workload and advises settings."""

import json
import os
import subprocess

import pytest
import redis

from support.server import Server, binary
from support.tuning import POOR_FOR_WRITES

VALUE = b"v" * 200
COUNTED = ("empty-reads", "reads", "ranges", "writes", "range-entries", "deletes", "stamp-deletes")
SMALL = {"storage.memtable_size": "64KiB", "storage.block_cache": "1MiB", "storage.memory_budget": "64MiB", "tree.file_size": "256KiB"}


def as_map(reply):
    """Returns a reply in RESP2 as dictionaries, where it is a map of names and values."""
    if isinstance(reply, list):
        if len(reply) % 2 == 0 and all(isinstance(name, bytes) and not name[:1].isdigit() for name in reply[::2]) and reply:
            return {name.decode(): as_map(value) for name, value in zip(reply[::2], reply[1::2], strict=True)}
        return [as_map(item) for item in reply]
    return reply


def workload(client, *arguments):
    return as_map(client.execute_command("TUNE.WORKLOAD", *arguments))


def advise(client, *arguments):
    return as_map(client.execute_command("TUNE.ADVISE", *arguments))


def counts(client):
    """Returns the operations of each kind in all windows."""
    windows = workload(client, 65536)["windows"]
    return {kind: sum(window[kind] for window in windows) for kind in COUNTED}


def fill(client, keys=20_000):
    """Writes several memtables of data, so that there is something to tune."""
    for first in range(0, keys, 1000):
        client.mset({f"key:{i}": VALUE for i in range(first, first + 1000)})
    client.execute_command("TREE.FLUSH")


def done(client, *command):
    """Runs a command. Returns the operations, by kind, that it adds to the workload."""
    before = counts(client)
    client.execute_command(*command)
    after = counts(client)
    return {kind: after[kind] - before[kind] for kind in after if after[kind] != before[kind]}


@pytest.fixture(scope="module")
def tuned():
    """A server with data in tables and a few thousand operations."""
    with Server({**SMALL, "server.bind": "127.0.0.1"}, config=None) as server:
        client = server.client()
        fill(client)
        for i in range(3000):
            client.get(f"key:{i * 7 % 20_000}")
        yield server


def test_commands_count_in_the_workload_as_the_table_in_tuner_md_says(fresh):
    """engine/docs/tuner.md has the table "Which command counts as what"."""
    fresh.start()
    client = fresh.client()
    client.set("k", "v")
    client.hset("h", "f", "v")
    assert done(client, "GET", "k") == {"reads": 1}
    assert done(client, "GET", "absent") == {"empty-reads": 1}
    assert done(client, "MGET", "k", "absent", "h2") == {"reads": 1, "empty-reads": 2}
    assert done(client, "EXISTS", "k", "absent") == {"reads": 1, "empty-reads": 1}
    assert done(client, "DEL", "absent") == {"empty-reads": 1}
    assert done(client, "APPEND", "k", "w") == {"reads": 1, "writes": 1}
    assert done(client, "HGET", "h", "f") == {"reads": 1}
    assert done(client, "HSET", "h", "g", "w") == {"reads": 1, "writes": 1}
    assert done(client, "HGETALL", "h") == {"reads": 1}
    assert done(client, "LPUSH", "l", "a", "b", "c") == {"empty-reads": 1, "writes": 1}
    assert done(client, "DELRANGE", "x", "y") == {"writes": 1, "deletes": 1}
    assert done(client, "STAMP.DELRANGE", "1", "2") == {"stamp-deletes": 1}
    assert done(client, "SCAN", "0", "COUNT", "10")["ranges"] == 1
    assert done(client, "KEYS", "*") == {"ranges": 1, "range-entries": 5}  # k, h and l, and the old versions of k and h
    assert done(client, "PING") == {}
    assert done(client, "INFO") == {}
    assert done(client, "DEL", "k") == {"reads": 1, "writes": 1, "deletes": 1}
    assert done(client, "SET", "n", "v")["writes"] == 1


def test_each_database_has_a_workload_of_its_own(fresh):
    fresh.start()
    fresh.client().set("k", "v")
    other = fresh.client(db=5)
    for _ in range(3):
        other.get("k")
    other.set("k", "v")
    assert (workload(other)["database"], counts(other)["writes"]) == (5, 1)
    assert counts(fresh.client())["writes"] == 1
    assert counts(fresh.client(db=1)) == dict.fromkeys(COUNTED, 0)
    info = fresh.client().info("workload")
    assert info["workload_db5"]["writes"] == 1
    assert set(info) == {"workload_db0", "workload_db5"}


def test_workload_history_is_kept_over_a_restart(fresh):
    fresh.start()
    client = fresh.client()
    for i in range(2000):
        client.set(f"key:{i}", "v")
    fresh.stop()
    assert (fresh.data / "WORKLOAD").stat().st_size > 0
    fresh.start()
    client = fresh.client()
    assert counts(client)["writes"] == 2000
    assert float(workload(client)["mean"]["write"]) > 0.9
    assert client.info("workload")["workload_db0"]["writes"] == 0  # since the start


@pytest.mark.parametrize("harm", ["other bytes", "emptied", "a directory"])
def test_damaged_workload_history_is_logged_as_a_warning_and_starts_empty(fresh, harm):
    fresh.start()
    fresh.client().set("k", "v")
    fresh.stop()
    file = fresh.data / "WORKLOAD"
    file.unlink()
    if harm == "a directory":
        file.mkdir()
    else:
        file.write_bytes(b"EBWL and no more" if harm == "other bytes" else b"")
    fresh.start()
    assert fresh.client().get("k") == b"v"
    assert "WORKLOAD" in fresh.log() and "the history of the workload starts empty" in fresh.log()
    assert counts(fresh.client())["writes"] == 0
    assert fresh.stop() == 0


def test_tune_workload_returns_the_requested_number_of_windows(tuned):
    client = tuned.client()
    assert workload(client, 0)["windows"] == []
    assert len(workload(client, 1)["windows"]) == 1
    for wrong in ("-1", "x", "65537"):
        with pytest.raises(redis.exceptions.ResponseError):
            client.execute_command("TUNE.WORKLOAD", wrong)
    with pytest.raises(redis.exceptions.ResponseError, match="wrong number of arguments"):
        client.execute_command("TUNE.WORKLOAD", 1, 2)


def test_tune_advise_replies_with_present_and_advised_costs_and_a_verdict(tuned):
    advice = advise(tuned.client(), "RHO", "0.5", "WORKLOAD", "0.1", "0.1", "0", "0.8")
    verdict = advice["verdict"].decode()
    assert verdict.startswith(("worth a change: ", "keep the settings: "))
    assert advice["today"]["policy"]["name"] == b"one_leveling"
    for name in ("nominal", "robust"):
        proposal = advice[name]
        assert float(proposal["mean-cost"]) > 0
        assert (proposal["worthwhile"] == 1) == ("config" in proposal) == proposal["verdict"].startswith(b"worth a change")
    assert float(advice["robust"]["worst-cost"]) <= 1.1 * float(advice["today"]["worst-cost"])


def test_config_set_accepts_the_advised_settings(fresh):
    """A stack-based policy has no cost formula, so its advice has no comparison with the present cost."""
    fresh.set(*(f"{key}={value}" for key, value in SMALL.items())).start()
    client = fresh.client()
    fill(client)
    client.execute_command("TREE.POLICY", "binomial", "k", 3)
    advice = advise(client)
    assert "no formula for today's policy binomial" in advice["verdict"].decode()
    assert advice["today"] is None
    config = {name: value.decode() for name, value in advice["nominal"]["config"].items()}
    client.execute_command("CONFIG", "SET", *(word for item in config.items() for word in item))
    found = client.config_get("databases.0.policy.name")
    assert found["databases.0.policy.name"] == config["databases.0.policy.name"] != "binomial"


def test_tune_advise_with_too_few_operations_or_too_little_data_replies_no_advice(fresh):
    fresh.start()
    client = fresh.client()
    assert advise(client)["verdict"] == b"no advice: the history has 0 operations, and needs 1000"
    for i in range(1000):
        client.set(f"key:{i}", "v")
    advice = advise(client)
    assert advice["verdict"].startswith(b"no advice: the tables have 0 bytes")
    assert advice["nominal"] is None and advice["robust"] is None


@pytest.mark.parametrize(
    "wrong",
    [("RHO",), ("RHO", "x"), ("RHO", "-1"), ("RHO", "inf"), ("WORKLOAD", "1", "0", "0"), ("WORKLOAD", "1", "1", "0", "0"), ("MEMORY", "0"), ("FAST",),
     ("WORKLOAD", "nan", "0", "0", "1")],
)  # fmt: skip
def test_tune_advise_with_wrong_arguments_is_refused(tuned, wrong):
    with pytest.raises(redis.exceptions.ResponseError):
        tuned.client().execute_command("TUNE.ADVISE", *wrong)


def test_metrics_have_the_operations_mix_and_costs_of_a_workload(tuned):
    text = tuned.http("/metrics")[1]
    metrics = {name: float(value) for name, value in (line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))}
    assert metrics['ebbtide_operations_total{db="0",kind="read"}'] >= 3000
    shares = [metrics[f'ebbtide_workload_mix_ratio{{db="0",kind="{kind}"}}'] for kind in ("empty_read", "read", "range", "write")]
    assert sum(shares) == pytest.approx(1)
    assert metrics['ebbtide_workload_divergence_nats{db="0"}'] >= 0
    assert metrics['ebbtide_workload_rho_nats{db="0"}'] >= 0
    assert metrics['ebbtide_operation_cost_pages{db="0",kind="write"}'] > 0


def tune(*arguments, status=0, **environment):
    done = subprocess.run(
        [str(binary("ebbtide-tune")), *map(str, arguments)], capture_output=True, text=True, check=False, env={**os.environ, **environment}
    )
    assert done.returncode == status, done.stderr
    return done.stdout if status == 0 else done.stderr


def test_ebbtide_tune_advise_prints_the_advice_of_the_server(tuned):
    options = ("RHO", "0.5", "WORKLOAD", "0.1", "0.1", "0", "0.8", "MEMORY", "1000000")
    flags = ("--rho", "0.5", "--workload", "0.1,0.1,0,0.8", "--memory", "1000000")
    served = advise(tuned.client(), *options)
    printed = json.loads(tune("advise", "--server", f"127.0.0.1:{tuned.port}", "--format", "json", *flags))
    assert printed["rho"] == float(served["rho"]) == 0.5
    for name in ("nominal", "robust"):
        assert printed[name]["mean-cost"] == pytest.approx(float(served[name]["mean-cost"]), rel=1e-3)
        assert printed[name]["verdict"].split(":")[0] == served[name]["verdict"].decode().split(":")[0]
        config = {key: value.decode() for key, value in served[name].get("config", {}).items()}
        assert printed[name].get("config", {}) == config
    text = tune("advise", "--server", f"127.0.0.1:{tuned.port}", *flags)
    assert "Nominal: " in text and "Robust: " in text and "\ntoday" in text


def test_ebbtide_tune_logs_in_to_the_server_and_names_wrong_arguments(fresh):
    fresh.set("server.password=secret").start()
    address = f"127.0.0.1:{fresh.port}"
    assert "no advice" in tune("advise", "--server", address, REDISCLI_AUTH="secret")
    assert "REDISCLI_AUTH" in tune("advise", "--server", address, status=1, REDISCLI_AUTH="")
    assert "WRONGPASS" in tune("advise", "--server", address, status=1, REDISCLI_AUTH="wrong")
    assert "no advice" in tune("advise", "--server", address, "--database", 7, "--user", "default", REDISCLI_AUTH="secret")
    assert "out of range" in tune("advise", "--server", address, "--database", 700, status=1, REDISCLI_AUTH="secret")
    assert "entries cannot be used with --server" in tune("advise", "--server", address, "--entries", 10, status=2)
    assert "HOST:PORT" in tune("advise", "--server", "host:port", status=2)
    fresh.stop()
    assert "connection to" in tune("advise", "--server", address, status=1)


def test_only_users_with_the_right_to_tune_commands_may_run_them(fresh):
    fresh.start()
    fresh.client().execute_command("ACL", "SETUSER", "reader", "on", "nopass", "~*", "+@all", "-@admin")
    fresh.client().execute_command("ACL", "SETUSER", "tuner", "on", "nopass", "-@all", "+tune.workload", "+tune.advise")
    for command in ("TUNE.WORKLOAD", "TUNE.ADVISE"):
        with pytest.raises(redis.exceptions.NoPermissionError):
            fresh.client(username="reader", password="x").execute_command(command)
        fresh.client(username="tuner", password="x").execute_command(command)


def test_advice_after_deletes_by_stamp_includes_measured_pages_per_tile(fresh):
    fresh.set(*(f"{key}={value}" for key, value in {**SMALL, **POOR_FOR_WRITES}.items())).start()
    client = fresh.client()
    fill(client)
    writes = ("WORKLOAD", "0.01", "0.01", "0", "0.98", "RHO", "0")
    assert "databases.0.pages_per_tile" not in advise(client, *writes)["nominal"]["config"]
    for i in range(20):
        client.execute_command("STAMP.DELRANGE", i, i + 1)
    fill(client)
    shown = workload(client)
    assert (shown["pages-per-tile"], shown["pages-per-tile-now"]) == (1, 1) and shown["pages-per-tile-measured"] > 1
    assert sum(window["stamp-deletes"] for window in shown["windows"]) == 20
    advice = advise(client, *writes)
    assert advice["nominal"]["config"]["databases.0.pages_per_tile"] == b"auto"
    assert float(advice["nominal"]["stamp-delete-cost"]) > 0
    assert client.execute_command("TUNE.APPLY") == b"OK"
    assert client.config_get("databases.0.pages_per_tile") == {"databases.0.pages_per_tile": "auto"}
    assert workload(client)["pages-per-tile"] == 0


def test_advised_costs_include_the_work_of_deletes_with_a_deadline(fresh):
    fresh.set(*(f"{key}={value}" for key, value in SMALL.items()), "tree.policy.name=tiering", "tree.policy.size_ratio=20").start()
    client = fresh.client()
    fill(client)
    assert float(advise(client, "RHO", "0")["today"]["delete-work"]) == 0
    for first in range(0, 5000, 100):  # scattered, so that most pages are read from the disk
        client.delete(*(f"key:{i * 7919 % 20_000}" for i in range(first, first + 100)))
    client.config_set("databases.0.deletes.deadline", "10s")
    soon = advise(client, "RHO", "0")
    assert float(soon["today"]["delete-work"]) > 0
    assert float(soon["today"]["costs"]["write"]) > float(soon["today"]["delete-work"])
    client.config_set("databases.0.deletes.deadline", "0s")
    assert float(advise(client, "RHO", "0")["today"]["delete-work"]) == 0


def test_advice_uses_the_measured_costs_of_the_device(tuned, tmp_path):
    """The server accepts the CONFIG SET that `ebbtide-tune device` prints, and ebbtide-tune reads these values from the server."""
    client = tuned.client()
    printed = subprocess.run([str(binary("ebbtide-tune")), "device", str(tmp_path), "--size", "4MiB"], capture_output=True, text=True, check=True).stdout
    (line,) = [line for line in printed.splitlines() if "CONFIG SET" in line]
    assert client.execute_command(*line.partition("CONFIG SET")[1].split(), *line.partition("CONFIG SET")[2].split()) in (b"OK", True)
    measured = {name: float(value) for name, value in (word.split(": ") for word in printed.splitlines() if word.startswith(("write_", "seq")))}
    shown = workload(client)
    assert float(shown["write-asymmetry"]) == measured["write_asymmetry"] and float(shown["sequential-cost"]) == measured["sequential_cost"]
    mix = ("RHO", "0", "WORKLOAD", "0.1", "0.1", "0", "0.8")
    costs = []
    for asymmetry in (1, 3):
        client.config_set("tuning.write_asymmetry", asymmetry)
        client.config_set("tuning.sequential_cost", 1)
        costs.append(float(advise(client, *mix)["today"]["costs"]["write"]))
    assert costs[1] == pytest.approx(2 * costs[0])
    printed = subprocess.run([str(binary("ebbtide-tune")), "advise", "--server", f"127.0.0.1:{tuned.port}", "--rho", "0", "--workload", "0.1,0.1,0,0.8", "--format", "json"],
                             capture_output=True, text=True, check=True)  # fmt: skip
    assert json.loads(printed.stdout)["today"]["costs"]["write"] == pytest.approx(costs[1])
    client.config_set("tuning.write_asymmetry", 1)
