"""Tests of the server's life: start, restart, loading, signals, configuration, metrics, clients."""

import ctypes
import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import pytest
import redis

from support.server import ROOT, binary, wait_until
from support.sockets import Link, encode, receive_all, receive_exactly


def test_restart_keeps_all_keys(fresh):
    fresh.start()
    client = fresh.client()
    with client.pipeline(transaction=False) as pipe:
        for i in range(2000):
            pipe.set(f"key{i}", f"value{i}")
        pipe.execute()
    client.delete("key7")
    big = b"x" * 3_000_000
    client.set("big", big)
    assert fresh.stop() == 0, fresh.log_tail()
    fresh.start()
    client = fresh.client()
    assert client.get("key0") == b"value0"
    assert client.get("key1999") == b"value1999"
    assert client.get("key7") is None
    assert client.get("big") == big
    assert client.dbsize() == 2000


@pytest.mark.parametrize("fsync", ["always", "everysec", "no"])
def test_kill_9_loses_no_acknowledged_write(fresh, fsync):
    fresh.set(f"storage.fsync={fsync}").start()
    client = fresh.client()
    acknowledged = 0
    stop = threading.Event()

    def write():
        nonlocal acknowledged
        try:
            i = 0
            while not stop.is_set():
                client.set(f"k{i}", i)
                acknowledged = i + 1
                i += 1
        except redis.exceptions.RedisError:
            pass

    writer = threading.Thread(target=write)
    writer.start()
    wait_until(lambda: acknowledged > 300, 60, "some writes are acknowledged")
    fresh.kill()
    stop.set()
    writer.join()
    fresh.start()
    client = fresh.client()
    for i in range(acknowledged):
        assert client.get(f"k{i}") == str(i).encode(), (i, acknowledged)


def test_sigterm_stops_the_server_cleanly_and_disconnects_idle_clients(fresh):
    fresh.start()
    client = fresh.client()
    client.set("before", "x")
    idle = [fresh.connect() for _ in range(20)]
    assert fresh.stop() == 0
    for s in idle:
        assert receive_all(s) == b""
    assert "stopping: SIGTERM" in fresh.log()
    fresh.start()
    assert fresh.client().get("before") == b"x"


def test_shutdown_command_stops_the_server(fresh):
    fresh.start()
    client = fresh.client()
    client.set("a", "b")
    with fresh.connect() as s:
        s.sendall(b"SHUTDOWN\r\n")
        assert receive_all(s) == b""
    assert fresh.wait(30) == 0


def test_server_that_replays_a_long_log_replies_loading_and_is_healthy_but_not_ready(fresh):
    # The memtable has all keys, so that the log does. Its replay must take longer than a client waits for a quick start (0.25 s).
    fresh.set("storage.fsync=no", "storage.memory_budget=1GiB", "tree.memtable_size=256MiB").start()
    n = 1_400_000
    with fresh.connect() as s:
        for begin in range(0, n, 20_000):
            s.sendall(b"".join(encode("SET", f"loading{i:06}", f"{i:020}") for i in range(begin, begin + 20_000)))
            receive_exactly(s, 5 * 20_000)
    loading = readiness = info = None
    served = []

    def ask():
        nonlocal loading, readiness, info
        try:
            with fresh.connect() as s:
                s.sendall(b"GET loading000001\r\n")
                reply = s.recv(1000)
                if reply.startswith(b"-LOADING ") and loading is None:
                    loading = reply
                    readiness = fresh.http("/ready")
                    assert fresh.http("/healthz") == (200, "ok\n")
                    assert "ebbtide_loading" in fresh.http("/metrics")[1]
                    s.sendall(b"INFO persistence\r\n")  # ioredis repeats this until loading is 0
                    info = s.recv(10_000)
                    for command in (b"SELECT 3", b"CLIENT SETNAME x", b"CLIENT LIST", b"CONFIG SET slowlog-max-len 77", b"MULTI", b"EXEC"):
                        s.sendall(command + b"\r\n")
                        served.append(s.recv(10_000))
                return reply.startswith(b"$20\r\n")
        except ConnectionError:
            return False

    for _ in range(5):  # until a start was seen while loading
        fresh.kill()
        fresh.start(wait=False)
        wait_until(ask, 60, "the database is loaded", interval=0.001)
        if loading is not None:
            break
    assert loading == b"-LOADING Redis is loading the dataset in memory\r\n"
    assert b"\r\nloading:1\r\n" in info or b"\r\nloading:0\r\n" in info
    assert readiness in ((503, "the database is being opened\n"), (200, "ok\n"))
    assert [reply[:1] for reply in served] == [b"+", b"+", b"$", b"+", b"+", b"*"]
    fresh.wait_ready()
    assert fresh.client().config_get("slowlog-max-len") == {"slowlog-max-len": "77"}
    assert fresh.client().get("loading1399999") == b"%020d" % 1_399_999


def test_client_that_connects_during_a_quick_start_waits_and_gets_no_loading_error(fresh):
    fresh.start()
    fresh.client().set("k", "v")
    for _ in range(5):
        fresh.kill()
        fresh.start(wait=False)

        def ask():
            try:
                with fresh.connect() as s:
                    s.sendall(b"GET k\r\n")
                    return s.recv(1000)
            except ConnectionError:  # the port is not open yet
                return b""

        assert wait_until(ask, 30, "the port is open", interval=0.0005) == b"$1\r\nv\r\n"


def test_second_server_on_the_same_directory_is_refused(fresh):
    fresh.start()
    other = subprocess.run(
        [str(binary()), "--port", "0", "--dir", str(fresh.data), "--set", "metrics.port=0"],
        capture_output=True, text=True, timeout=60,
    )
    assert other.returncode == 1
    assert "cannot be opened" in other.stdout
    assert fresh.client().ping()


def test_start_fails_and_names_the_port_if_the_port_is_in_use(fresh):
    fresh.start()
    other = subprocess.run(
        [str(binary()), "--port", str(fresh.port), "--dir", str(fresh.home / "other"), "--set", "metrics.port=0"],
        capture_output=True, text=True, timeout=60,
    )
    assert other.returncode == 1
    assert "cannot listen on 127.0.0.1" in other.stdout


def health(server, *arguments):
    return subprocess.run([*server.command_line(), "--health", *arguments], capture_output=True, text=True, timeout=60)


def test_health_option_exits_with_0_for_a_ready_server_and_otherwise_with_1_and_the_reason(fresh):
    before = health(fresh)
    assert (before.returncode, before.stdout) == (1, f"not ready: 127.0.0.1:{fresh.metrics_port}: Connection refused\n")
    fresh.start()
    assert (health(fresh).returncode, health(fresh).stdout) == (0, "ready\n")
    wrong = health(fresh, "--set", "server.prot=1")  # Docker reserves every status except 0 and 1
    assert wrong.returncode == 1 and "no such key" in wrong.stderr
    fresh.stop()
    fresh.set("metrics.port=0", "server.password=secret").start()
    assert (health(fresh).returncode, health(fresh).stdout) == (0, "ready\n")


def test_start_without_a_password_logs_which_clients_are_served(fresh):
    fresh.set("server.bind=*").start()
    assert f" W no password is set: port {fresh.port} is open to every user of this machine" in fresh.log_path.read_text()
    fresh.stop()
    fresh.log_path.unlink()
    fresh.set("server.password=secret").start()
    assert "no password" not in fresh.log_path.read_text()


def test_start_in_a_data_directory_of_another_user_is_refused_with_the_remedy():
    with tempfile.TemporaryDirectory(prefix="ebbtide-test-", dir="/tmp") as home:  # pytest's directories are private to root
        home = Path(home)
        home.chmod(0o755)
        program, data = home / "ebbtide-server", home / "data"
        shutil.copy(binary(), program)
        # Only root can make a directory for the test and become another user. Others have a directory of root at hand.
        become, user, group = {"user": 10001, "group": 10001, "extra_groups": []}, 10001, 10001
        if os.geteuid() == 0:
            data.mkdir(mode=0o755)
        else:
            become, user, group, data = {}, os.geteuid(), os.getegid(), Path("/usr")
        done = subprocess.run(
            [str(program), "--port", "0", "--set", "metrics.port=0", "--dir", str(data)],
            capture_output=True, text=True, timeout=60, **become,
        )  # fmt: skip
    assert done.returncode == 1
    assert f"storage.dir: {data} belongs to user 0 (root), and this process is user {user}" in done.stdout
    assert f"chown -R {user}:{group} {data}\n" in done.stdout


def test_data_directory_and_its_files_are_accessible_only_to_their_owner(fresh):
    fresh.start()
    fresh.client().set("a", "b")
    data = fresh.data
    assert stat.S_IMODE(data.stat().st_mode) == 0o700
    for path in data.rglob("*"):
        if path.is_file():
            assert stat.S_IMODE(path.stat().st_mode) == 0o600, path


def test_errors_of_the_command_line_and_the_environment_name_key_and_value():
    def run(*args, environment=None):
        return subprocess.run([str(binary()), *args], capture_output=True, text=True, timeout=60, env=environment)

    assert run("--version").stdout.startswith("ebbtide-server ")
    assert "--config" in run("--help").stdout
    check = run("--check")
    assert (check.returncode, check.stdout) == (0, "the configuration is valid\n")
    check = run("--check", "--config", str(ROOT / "config" / "ebbtide.yaml"))
    assert (check.returncode, check.stdout) == (0, "the configuration is valid\n")
    wrong = run("--check", "--set", "server.prot=1")
    assert wrong.returncode == 2
    assert wrong.stderr == "command line: server.prot: no such key; did you mean server.port?\n"
    wrong = run("--check", environment={"EBBTIDE_STORAGE__FSYNC": "x"})
    assert "environment EBBTIDE_STORAGE__FSYNC: storage.fsync: 'x' is not allowed; allowed: always, everysec, no" in wrong.stderr
    for unreadable, reason in (("/does/not/exist", "No such file or directory"), ("/", "Is a directory")):
        wrong = run("--check", "--config", unreadable)
        assert (wrong.returncode, wrong.stderr) == (2, f"{unreadable}: cannot be read: {reason}\n")
        for key in ("server.password_file", "server.users_file"):
            wrong = run("--check", "--set", f"{key}={unreadable}")
            assert (wrong.returncode, wrong.stderr) == (2, f"{key}: {unreadable}: cannot be read: {reason}\n")
    for setting in ("=5", "server.port"):
        wrong = run("--check", "--set", setting)
        assert (wrong.returncode, wrong.stderr) == (2, f"--set {setting}: must be name=value, for example server.port=6379\n")
    assert run("--chekc").returncode == 2


def test_sighup_during_debug_sleep_ends_neither_the_sleep_nor_the_server(fresh):
    """The signal is sent to every thread, since the kernel may choose the thread that sleeps."""
    fresh.set("server.debug_commands=local").start()
    libc = ctypes.CDLL(None, use_errno=True)
    with fresh.connect() as s:
        began = time.monotonic()
        s.sendall(encode("DEBUG", "SLEEP", "0.5"))
        time.sleep(0.1)
        for thread in os.listdir(f"/proc/{fresh.process.pid}/task"):
            assert libc.tgkill(fresh.process.pid, int(thread), signal.SIGHUP) == 0
        assert s.recv(100) == b"+OK\r\n" and time.monotonic() - began >= 0.5
    assert fresh.client().ping()


def test_invalid_address_of_the_service_manager_is_logged_once(fresh):
    fresh.prefix = ["env", "NOTIFY_SOCKET=garbage", "WATCHDOG_USEC=100000"]
    fresh.start()
    assert fresh.client().ping()
    fresh.stop()
    lines = [line for line in fresh.log_path.read_text().splitlines() if "NOTIFY_SOCKET 'garbage' is not the address of a socket" in line]
    assert len(lines) == 1 and " W " in lines[0]


def test_config_rewrite_keeps_comments_and_the_changed_values_survive_a_restart(fresh):
    config = fresh.home / "server.yaml"
    fresh.config = config
    config.write_text("# mine\nserver:\n  max_clients: 500  # enough\n")
    fresh.start()
    client = fresh.client()
    assert client.config_get("maxclients") == {"maxclients": "500"}
    assert client.config_get("server.max_clients") == {"server.max_clients": "500"}
    assert client.config_get("save", "appendonly") == {"save": "", "appendonly": "yes"}
    assert client.config_set("maxclients", 600)
    assert client.config_set("limits.timeout", "90s")
    assert client.config_get("timeout") == {"timeout": "90"}
    with pytest.raises(redis.ResponseError, match="Unknown option or number of arguments for CONFIG SET - 'nonsense'"):
        client.config_set("nonsense", 1)
    with pytest.raises(redis.ResponseError, match="possibly related to argument 'databases'.*immutable"):
        client.config_set("databases", 5)
    with pytest.raises(redis.ResponseError, match="possibly related to argument 'appendfsync'.*always, everysec, no"):
        client.config_set("appendfsync", "sometimes")
    assert client.config_set("appendfsync", "no")
    assert client.config_rewrite()
    text = config.read_text()
    assert text.startswith("# mine\nserver:\n")
    assert "  max_clients: 600  # enough\n" in text
    assert "timeout: 90s" in text
    assert "fsync: no" in text
    fresh.stop()
    fresh.start()
    assert fresh.client().config_get("maxclients") == {"maxclients": "600"}


def test_config_rewrite_without_a_file_is_refused(fresh):
    fresh.start()
    with pytest.raises(redis.ResponseError, match="The server is running without a config file"):
        fresh.client().config_rewrite()


def test_metrics_count_commands_and_bytes(server):
    client = server.client()
    for i in range(50):
        client.set(f"m{i}", "x")
        client.get(f"m{i}")
    assert server.http("/healthz") == (200, "ok\n")
    assert server.http("/ready") == (200, "ok\n")
    assert server.http("/nonsense")[0] == 404
    status, text = server.http("/metrics")
    assert status == 200

    def value(line):
        return float(re.search(rf"^{re.escape(line)} (\S+)$", text, re.M).group(1))

    assert value('ebbtide_commands_total{cmd="get"}') >= 50
    assert value("ebbtide_connected_clients") >= 1
    assert value('ebbtide_net_bytes_total{direction="in"}') > 1000
    assert value("ebbtide_engine_writes_total") >= 50
    assert value("ebbtide_pass_seconds_count") >= 100
    assert value("ebbtide_loading") == 0


def test_metrics_count_scan_steps_and_expired_events(fresh):
    def metric(name):
        return float(re.search(rf"^ebbtide_{name} (\S+)$", fresh.http("/metrics")[1], re.M)[1])

    fresh.start()
    client = fresh.client()
    for i in range(25):
        client.set(f"k{i}", "v")
    assert (metric("scan_steps_count"), metric("expired_keys_total")) == (0, 0)
    assert len(list(client.scan_iter(count=10))) == 25
    assert (metric("scan_steps_count"), metric("scan_steps_sum")) == (3, 25)
    with fresh.connect() as tracker:
        tracker.sendall(b"HELLO 3\r\nCLIENT TRACKING ON\r\nSET read 1 PX 2000\r\nGET read\r\n")
        wait_until(lambda: client.info("clients")["tracking_clients"] == 1, 5, "the client tracks keys")
        client.set("not-read", "v", px=1)
        wait_until(lambda: metric("expired_keys_total") >= 1, 10, "the expiry of the tracked key is counted")
        assert metric("expired_keys_total") == 1
    client.config_set("notify-keyspace-events", "Ex")
    client.set("heard", "v", px=1)
    wait_until(lambda: metric("expired_keys_total") >= 2, 5, "an expired event is counted")
    assert metric("expired_keys_total") == client.info("stats")["expired_keys"] == 2


def test_info_shows_the_pending_deletes_of_each_database(fresh):
    fresh.start()
    client = fresh.client()
    client.mset({f"k{i}": "v" for i in range(100)})
    client.execute_command("TREE.FLUSH")
    client.delete("k1", "k2")
    client.execute_command("DELRANGE", "k5", "k6")
    client.execute_command("TREE.FLUSH")
    info = client.info()
    assert info["db0"]["keys"] > 0, "db0 is still the line of the keyspace section"
    deletes = info["deletes_db0"]
    assert (deletes["tombstones"], deletes["range_tombstones"]) == (2, 1)
    assert 0 <= deletes["oldest_age_ms"] < 60_000 and deletes["oldest_birth_ms"] > 1_600_000_000_000
    assert deletes["oldest_deadline_ms"] <= deletes["oldest_birth_ms"] + deletes["deadline_ms"]
    assert deletes["deadline_ms"] == 24 * 3600 * 1000


def test_sighup_reopens_the_log_file(fresh):
    log = fresh.home / "own.log"
    fresh.set(f"log.file={log}").start(wait=False)
    wait_until(lambda: log.exists() and "ready to accept" in log.read_text(), 60, "the log file exists")
    moved = fresh.home / "own.log.1"
    log.rename(moved)
    fresh.process.send_signal(signal.SIGHUP)
    wait_until(lambda: log.exists() and "reopened" in log.read_text(), 20, "the new log file exists")
    assert fresh.client().ping()


def test_named_pipe_instead_of_the_log_file_is_refused_and_blocks_no_client(fresh):
    log = fresh.home / "own.log"
    why = f"log.file: {log}: is a named pipe, a socket or a block device"
    fresh.set(f"log.file={log}").start(wait=False)
    wait_until(lambda: log.exists() and "ready to accept" in log.read_text(), 60, "the log file exists")
    moved = fresh.home / "own.log.1"
    log.rename(moved)
    os.mkfifo(log)
    fresh.process.send_signal(signal.SIGHUP)
    wait_until(lambda: why in moved.read_text(), 20, "the old file says why")
    assert "The old file stays in use" in moved.read_text()
    assert fresh.client().ping()
    fresh.stop()
    started = subprocess.run([binary(), "--dir", fresh.home / "other", "--port", "0", "--set", f"log.file={log}"],
                             capture_output=True, text=True, timeout=20, check=False)  # fmt: skip
    assert started.returncode != 0
    assert why in started.stderr + started.stdout


def test_json_log_has_one_object_per_line(fresh):
    fresh.set("log.format=json").start()
    fresh.stop()
    lines = [json.loads(line) for line in fresh.log_path.read_text().splitlines()]
    assert all(set(line) == {"time", "level", "message"} for line in lines)
    assert any(line["message"] == "ready to accept connections" and line["level"] == "info" for line in lines)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d", lines[0]["time"])


def test_unix_socket_clients_count_as_local_and_the_socket_is_replaced_after_a_kill(fresh):
    path = fresh.home / "s.sock"
    fresh.set(f"server.unixsocket={path}", "server.unixsocket_mode=750", "server.bind=*", "server.debug_commands=local").start()

    def cli(*arguments):
        return subprocess.run(["redis-cli", "-s", path, *arguments], capture_output=True, text=True, timeout=60, check=True).stdout

    assert cli("SET", "k", "v") == "OK\n" and fresh.client().get("k") == b"v"
    assert stat.S_IMODE(path.stat().st_mode) == 0o750
    assert f"addr={path}:0 laddr={path}:0" in cli("CLIENT", "LIST")
    assert "not allowed" not in cli("DEBUG", "SLEEP", "0")
    assert cli("CONFIG", "GET", "unixsocket*").split() == ["unixsocket", str(path), "unixsocketperm", "750"]
    fresh.kill()
    assert path.exists()
    fresh.start()
    assert cli("GET", "k") == "v\n"
    fresh.stop()
    assert not path.exists()
    path.write_text("a file")
    with pytest.raises(RuntimeError, match="the path is a file of another kind"):
        fresh.start()
    assert path.read_text() == "a file"


def test_translated_redis_conf_is_a_valid_configuration_file_without_unknown_directives(tmp_path):
    conf = tmp_path / "redis.conf"
    conf.write_text(
        "bind 127.0.0.1 -::1\nprotected-mode yes\nport 7000\ntcp-backlog 511\ntimeout 0\ntcp-keepalive 300\ndaemonize yes\n"
        "loglevel notice\nlogfile /var/log/r.log\ndatabases 16\nsave 3600 1 300 100\nstop-writes-on-bgsave-error yes\n"
        "rdbcompression yes\ndbfilename dump.rdb\ndir /var/lib/redis\nreplica-read-only yes\nlazyfree-lazy-expire no\n"
        "appendonly no\nappendfsync everysec\nslowlog-log-slower-than 10000\nlist-max-listpack-size -2\nhz 10\n"
    )
    made = subprocess.run([str(binary()), "--from-redis-conf", conf], capture_output=True, text=True, timeout=60, check=True).stdout
    assert "unknown" not in made and "# line 10: save 3600 1 300 100: BGSAVE makes backups" not in made
    assert "# line 11: save 3600 1 300 100: BGSAVE makes backups" in made
    yaml = tmp_path / "made.yaml"
    yaml.write_text(made)
    check = subprocess.run([str(binary()), "--config", yaml, "--check"], capture_output=True, text=True, timeout=60)
    assert (check.returncode, check.stdout) == (0, "the configuration is valid\n")
    assert re.search(r"^  port: 7000$", made, re.M) and re.search(r"^  dir: /var/lib/redis$", made, re.M)
    missing = subprocess.run([str(binary()), "--from-redis-conf", "/none"], capture_output=True, text=True, timeout=60)
    assert (missing.returncode, missing.stderr) == (2, "/none: cannot be read: No such file or directory\n")


def test_client_list_shows_the_number_of_commands_in_an_open_transaction(server):
    with Link(server.port) as link:
        own = str(link.call("CLIENT", "ID"))

        def told():
            one = next(one for one in server.client().client_list() if one["id"] == own)
            return one["flags"], one["multi"]

        assert told() == ("N", "-1")
        link.call("MULTI")
        link.call("GET", "k")
        link.call("GET", "k")
        assert told() == ("x", "2")
        link.call("EXEC")
        assert told() == ("N", "-1")


def test_client_kill_closes_the_named_client_and_the_caller_only_after_the_reply(server):
    a = server.client(client_name="alpha")
    a.ping()
    b = server.client(client_name="beta")
    b.ping()
    names = {c["name"] for c in b.client_list()}
    assert {"alpha", "beta"} <= names
    victim = next(c for c in b.client_list() if c["name"] == "alpha")
    assert b.client_kill_filter(_id=victim["id"]) == 1
    wait_until(lambda: "alpha" not in {c["name"] for c in b.client_list()}, 10, "the client alpha is disconnected")
    with server.connect() as s:
        s.sendall(b"CLIENT ID\r\n")
        own = s.recv(100)[1:-2]
        s.sendall(b"CLIENT KILL ID %s SKIPME no\r\nPING\r\n" % own)
        assert receive_exactly(s, 4) == b":1\r\n"
        assert receive_all(s) == b""


def test_tree_policy_changes_the_merge_policy_of_one_database_while_running(fresh):
    fresh.start()
    client = fresh.client()

    def policy():
        reply = client.execute_command("TREE.POLICY")
        return dict(zip(reply[::2], reply[1::2], strict=True))

    assert policy() == {b"name": b"one_leveling", b"size_ratio": b"6", b"level0_runs": b"4"}
    for i in range(300):
        client.set(f"key{i}", i)
        if i % 50 == 0:
            client.execute_command("TREE.FLUSH")
    assert client.execute_command("TREE.POLICY", "binomial", "k", 3) == b"OK"
    assert policy() == {b"name": b"binomial", b"k": b"3"}
    info = client.execute_command("TREE.INFO")
    assert info[info.index(b"policy") + 1] == b"binomial"
    assert client.config_get("databases.0.policy.k") == {"databases.0.policy.k": "3"}
    for wrong in (("fastest",), ("binomial", "k"), ("binomial", "k", "65"), ("leveling", "k", "3")):
        with pytest.raises(redis.exceptions.ResponseError):
            client.execute_command("TREE.POLICY", *wrong)
        assert policy() == {b"name": b"binomial", b"k": b"3"}
    client.config_set("databases.0.partitioning", "global_range")
    assert client.config_get("databases.0.partitioning") == {"databases.0.partitioning": "global_range"}
    assert client.config_get("tree.partitioning") == {"tree.partitioning": "size"}
    assert client.execute_command("TREE.POLICY", "garnering") == b"OK"
    assert policy() == {b"name": b"garnering", b"size_ratio": b"2", b"scaling_ratio": b"0.8", b"level0_runs": b"4"}
    client.execute_command("TREE.COMPACT")
    assert all(client.get(f"key{i}") == str(i).encode() for i in range(300))
    client.execute_command("SELECT", 1)
    assert policy()[b"name"] == b"one_leveling"


def test_size_ratio_of_a_thousand_is_set_while_running_and_larger_ones_are_refused(fresh):
    fresh.start()
    client = fresh.client()
    client.set("key", 1)
    assert client.execute_command("TREE.POLICY", "klsm", "size_ratio", 1024, "runs", 1023, "last_runs", 3) == b"OK"
    reply = client.execute_command("TREE.POLICY")
    assert dict(zip(reply[:8:2], reply[1:8:2], strict=True)) == {
        b"name": b"klsm", b"size_ratio": b"1024", b"runs": b"1023", b"last_runs": b"3"
    }  # fmt: skip
    client.config_set("databases.0.policy.last_runs", 100)
    assert client.config_get("databases.0.policy.last_runs") == {"databases.0.policy.last_runs": "100"}
    wrong = "databases.0.policy.size_ratio.* size_ratio is 1025; allowed: a whole number from 2 to 1024"
    with pytest.raises(redis.exceptions.ResponseError, match=wrong):
        client.config_set("databases.0.policy.size_ratio", 1025)
    with pytest.raises(redis.exceptions.ResponseError, match="last_runs is 1024; allowed: a whole number from 0 to 1023"):
        client.config_set("databases.0.policy.last_runs", 1024)
    # A hundred runs stay, and a smaller ratio merges them.
    for i in range(100):
        client.set(f"key{i}", i)
        client.execute_command("TREE.FLUSH")
    assert all(client.get(f"key{i}") == str(i).encode() for i in range(100))
    assert client.execute_command("TREE.POLICY", "leveling", "size_ratio", 1024) == b"OK"
    client.execute_command("TREE.COMPACT")
    assert all(client.get(f"key{i}") == str(i).encode() for i in range(100))


def line_of(listing, client_id):
    """Returns the fields of one client in CLIENT LIST's text."""
    line = next(line for line in listing.splitlines() if line.startswith(f"id={client_id} "))
    return dict(field.split("=", 1) for field in line.split(" "))


def client_id(link):
    link.sendall(b"CLIENT ID\r\n")
    return int(link.recv(100)[1:-2])


def test_client_list_shows_the_sizes_of_buffers_and_of_incomplete_arguments(fresh):
    fresh.start()
    client = fresh.client()
    client.set("value", b"v" * 60_000)
    with fresh.connect() as receiving, fresh.connect() as sending:
        unread, half_sent = client_id(receiving), client_id(sending)
        receiving.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        receiving.sendall(b"GET value\r\n" * 100)  # 6 MB of replies, which the client does not read
        sending.sendall(b"*2\r\n$4\r\nECHO\r\n$1000000\r\n" + b"e" * 500_000)

        def fields(which):
            return line_of(client.execute_command("CLIENT", "LIST").decode(), which)

        wait_until(lambda: int(fields(unread)["oll"]) > 0, 10, "replies wait behind the first chunk")
        waiting = {name: int(value) for name, value in fields(unread).items() if name in ("obl", "oll", "omem", "rbs", "rbp", "tot-mem")}
        assert waiting["omem"] > 100_000 and waiting["obl"] > 0 and waiting["rbs"] > 0, waiting
        assert waiting["tot-mem"] > waiting["omem"] and waiting["rbp"] >= waiting["rbs"], waiting
        assert fields(unread)["events"] == "rw"
        wait_until(lambda: int(fields(half_sent)["argv-mem"]) == 500_000, 10, "the incomplete argument is counted")
        assert int(fields(half_sent)["tot-mem"]) > 500_000


def test_paused_client_counts_as_blocked(fresh):
    fresh.start()
    client = fresh.client()
    with fresh.connect() as writer:
        number = client_id(writer)
        client.execute_command("CLIENT", "PAUSE", 600_000, "WRITE")
        writer.sendall(b"SET k v\r\n")
        wait_until(lambda: client.info("clients")["blocked_clients"] == 1, 10, "the writer is paused")
        assert line_of(client.execute_command("CLIENT", "LIST").decode(), number)["flags"] == "b"
        assert client.execute_command("CLIENT", "UNBLOCK", number) == 0
        client.execute_command("CLIENT", "UNPAUSE")
        assert writer.recv(100) == b"+OK\r\n"
        assert client.info("clients")["blocked_clients"] == 0


def test_info_shows_the_configured_latency_percentiles_and_the_rates(fresh):
    fresh.start()
    client = fresh.client()
    for i in range(100):
        client.set("k", i)
    assert set(client.info("latencystats")["latency_percentiles_usec_set"]) == {"p50", "p99", "p99.9"}
    client.config_set("latency-tracking-info-percentiles", "12.5 100")
    shown = client.info("latencystats")["latency_percentiles_usec_set"]
    assert list(shown) == ["p12.5", "p100"] and 0 < shown["p12.5"] <= shown["p100"]
    with pytest.raises(redis.ResponseError, match="'101' is not allowed; allowed: a list of numbers from 0 to 100"):
        client.config_set("latency-tracking-info-percentiles", "101")
    client.config_set("latency-tracking-info-percentiles", "")
    assert not client.info("latencystats")["latency_percentiles_usec_set"]
    wait_until(lambda: client.info("stats")["instantaneous_ops_per_sec"] > 0, 10, "rates are sampled")
    stats = client.info("stats")
    assert stats["instantaneous_input_kbps"] > 0 and stats["instantaneous_output_kbps"] > 0
    assert client.info("server")["hz"] == 10
    assert client.info("memory")["mem_allocator"]


def test_only_a_save_resets_changes_since_last_save(fresh):
    fresh.set("storage.fsync=always").start()
    client = fresh.client()
    for i in range(20):
        client.set(f"k{i}", i)
    assert client.info("persistence")["rdb_changes_since_last_save"] >= 20  # although all of the writes are synced
    client.save()
    assert client.info("persistence")["rdb_changes_since_last_save"] == 0


def test_acl_genpass_returns_the_requested_bits(fresh):
    fresh.start()
    client = fresh.client()
    first, again = (client.execute_command("ACL", "GENPASS").decode() for _ in range(2))
    assert re.fullmatch(r"[0-9a-f]{64}", first) and re.fullmatch(r"[0-9a-f]{64}", again) and first != again
    assert re.fullmatch(rb"[0-9a-f]{2}", client.execute_command("ACL", "GENPASS", 5))


def test_debug_error_replies_with_its_text_unchanged_except_for_line_breaks(fresh):
    fresh.set("server.debug_commands=local").start()
    with fresh.connect() as s:
        s.sendall(b"DEBUG ERROR WRONGPASS\r\n")
        assert s.recv(100) == b"-WRONGPASS\r\n"
        s.sendall(b'DEBUG ERROR "a\\r\\nb"\r\n')
        assert s.recv(100) == b"-a  b\r\n"


def test_command_list_includes_subcommands(fresh):
    fresh.start()
    with Link(fresh.port) as link:
        names = link.call("COMMAND", "LIST")
    assert {"client", "client|list", "config|get", "get"} <= set(names)
