"""Tests that Debian's prometheus-redis-exporter reads INFO, CONFIG, SLOWLOG and LATENCY of this server as it does with Redis."""

import os
import re
import subprocess
import urllib.request

import pytest
import redis

from support.server import free_port, wait_until

PASSWORD = "a-password"


@pytest.fixture
def scrape(fresh, tmp_path):
    """Gives a function that returns the exporter's metrics: name with labels -> value."""
    fresh.set(f"server.password={PASSWORD}", "storage.memory_budget=256MiB").start()
    port = free_port()
    with open(tmp_path / "exporter.log", "wb") as log:
        exporter = subprocess.Popen(
            ["prometheus-redis-exporter", "-redis.addr", f"redis://127.0.0.1:{fresh.port}", "-web.listen-address", f"127.0.0.1:{port}"],
            env={**os.environ, "REDIS_PASSWORD": PASSWORD}, stdout=log, stderr=log,
        )  # fmt: skip
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def ask():
        try:
            with direct.open(f"http://127.0.0.1:{port}/metrics", timeout=20) as answer:
                lines = answer.read().decode().splitlines()
        except OSError:
            return {}
        return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if line.startswith("redis_"))}

    try:
        wait_until(ask, 30, "the exporter answers")
        yield ask
    finally:
        exporter.kill()
        exporter.wait()


def test_redis_exporter_metrics_count_the_commands_of_clients(fresh, scrape):
    client = fresh.client(password=PASSWORD)
    before = scrape()
    client.mset({f"k{i}": "v" * 100 for i in range(50)})
    client.select(3)
    client.set("other", "v")
    client.select(0)
    for i in range(7):
        client.get(f"k{i}")
    for i in range(3):
        client.get(f"none{i}")
    with pytest.raises(redis.ResponseError):
        client.execute_command("INCR", "k0")
    after = scrape()

    def grown(name):
        return after[name] - before.get(name, 0)

    assert after["redis_up"] == 1 and after['redis_exporter_last_scrape_error{err=""}'] == 0
    assert after['redis_db_keys{db="db0"}'] == 50 and after['redis_db_keys{db="db3"}'] == 1
    assert grown('redis_commands_total{cmd="get"}') == 10 and grown('redis_commands_total{cmd="mset"}') == 1
    assert grown('redis_commands_duration_seconds_total{cmd="get"}') > 0
    assert grown("redis_keyspace_hits_total") == 7 and grown("redis_keyspace_misses_total") == 3
    assert grown("redis_commands_processed_total") >= 14
    assert grown("redis_net_input_bytes_total") > 5000 and grown("redis_net_output_bytes_total") > 700
    assert grown("redis_connections_received_total") >= 1
    assert after["redis_connected_clients"] == 2  # the client, and the exporter itself
    assert after["redis_memory_max_bytes"] == 256 << 20
    assert 0 < after["redis_memory_used_bytes"] < 256 << 20
    assert after["redis_memory_used_rss_bytes"] == pytest.approx(fresh.resident_bytes(), rel=0.3) or "EBBTIDE_SANITIZED" in os.environ
    assert after["redis_config_maxclients"] == 10_000
    assert after["redis_uptime_in_seconds"] >= 0 and after["redis_process_id"] == fresh.pid
    (info,) = [name for name in after if name.startswith("redis_instance_info")]
    assert 'role="master"' in info and 'redis_mode="standalone"' in info
    assert re.search(r'redis_latency_percentiles_usec\{cmd="get",quantile="99"\}', "\n".join(after))


def test_redis_exporter_reports_the_slow_log_and_that_a_server_is_down(fresh, scrape):
    client = fresh.client(password=PASSWORD)
    client.config_set("slowlog-log-slower-than", 0)
    client.set("k", "v")
    assert scrape()["redis_slowlog_length"] >= 1
    fresh.stop()
    assert scrape()["redis_up"] == 0
