"""Tests that clients without a password and clients of the HTTP port do not keep other clients from connecting."""

import contextlib
import os
import socket
import stat
import subprocess
import time

import pytest
import redis

from support.meanwhile import meanwhile
from support.server import Server, binary, wait_until
from support.sockets import receive_exactly
from test_limits import NO_MORE_FILES

WRONG = b"-WRONGPASS invalid username-password pair or user is disabled.\r\n"


def healthz_seconds(server):
    """Returns the seconds that /healthz takes over a new connection."""
    began = time.monotonic()
    assert server.http("/healthz")[0] == 200
    return time.monotonic() - began


def metrics_link(server):
    return socket.create_connection(("127.0.0.1", server.metrics_port), timeout=10)


def test_1000_idle_http_connections_do_not_delay_health_checks(fresh):
    fresh.start()
    with contextlib.ExitStack() as idle:
        for _ in range(1_000):
            idle.enter_context(metrics_link(fresh))
        assert max(healthz_seconds(fresh) for _ in range(5)) < 1
        assert fresh.http("/metrics")[0] == 200


def test_slow_http_requests_do_not_delay_health_checks_and_are_closed(fresh):
    fresh.start()
    with contextlib.ExitStack() as slow:
        links = [slow.enter_context(metrics_link(fresh)) for _ in range(60)]
        for byte in b"GET /healthz HTTP/1.1\r\nHost: ":
            for link in links:
                with contextlib.suppress(OSError):
                    link.sendall(bytes([byte]))
            assert healthz_seconds(fresh) < 1
        # The time limit of a whole header, 5 s, must end each connection although it never stopped sending.
        deadline = time.monotonic() + 20
        for link in links:
            while time.monotonic() < deadline:
                link.settimeout(0.2)
                with contextlib.suppress(TimeoutError):
                    if link.recv(1) == b"":
                        break
                with contextlib.suppress(OSError):
                    link.sendall(b"x")
        assert time.monotonic() < deadline
        assert "was not complete after 5000 ms" in fresh.log_path.read_text()


def test_clients_that_do_not_read_their_metrics_do_not_delay_health_checks(fresh):
    fresh.start()
    with contextlib.ExitStack() as slow:
        for _ in range(100):
            link = slow.enter_context(metrics_link(fresh))
            link.sendall(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n" * 50)
        assert max(healthz_seconds(fresh) for _ in range(5)) < 1


# --- passwords


def test_300_idle_unauthenticated_connections_lock_no_client_out(fresh):
    fresh.set("server.password=secret", "limits.authentication_timeout=0s").start()
    with contextlib.ExitStack() as idle:
        for _ in range(300):
            idle.enter_context(fresh.connect())
        for _ in range(20):
            with fresh.connect() as s:
                s.sendall(b"AUTH secret\r\nPING\r\n")
                assert receive_exactly(s, 12) == b"+OK\r\n+PONG\r\n"
        client = fresh.client(password="secret")
        assert client.info("clients")["connected_clients"] <= 130
        assert "too many unauthenticated clients, most of them from 127.0.0.1" in fresh.log_path.read_text()


def test_unauthenticated_connections_under_a_small_file_limit_lock_no_client_out(fresh):
    fresh.prefix = [*NO_MORE_FILES, "--nofile=64:64"]
    fresh.set("server.password=secret", "limits.authentication_timeout=0s").start()
    with contextlib.ExitStack() as stack:
        client = fresh.client(password="secret")
        for _ in range(100):
            stack.enter_context(fresh.connect())

        def gets_in():
            with contextlib.suppress(OSError), fresh.connect() as s:
                s.sendall(b"AUTH secret\r\nPING\r\n")
                return s.recv(12).startswith(b"+OK")

        wait_until(gets_in, what="a client with the password is served")  # once the evicted connections are closed
        assert client.info("clients")["connected_clients"] <= 40


def test_wrong_passwords_are_logged_and_delayed_and_the_right_password_gets_in(fresh):
    fresh.set("server.password=secret", "limits.authentication_timeout=60s").start()
    known = fresh.client(password="secret")
    known.ping()
    with contextlib.ExitStack() as attackers:
        links = [attackers.enter_context(fresh.connect()) for _ in range(50)]
        for link in links:
            link.sendall(b"AUTH ev\\il wrong\r\n" * 100)
        began = time.monotonic()
        while time.monotonic() - began < 3:
            assert known.ping()  # connected clients notice nothing
        before = time.monotonic()
        with fresh.connect() as s:
            s.sendall(b"AUTH secret\r\n")
            assert receive_exactly(s, 5) == b"+OK\r\n"
        assert 1 < time.monotonic() - before < 10  # the client waits for its own delay, 2 s, not for the attackers' attempts
        denied = known.info("stats")["acl_access_denied_auth"]
        assert 50 <= denied < 1_000, denied  # of 5,000 attempts
    log = fresh.log_path.read_text()
    assert "authentication failed: user 'ev\\il' from 127.0.0.1:" in log
    assert log.count("authentication failed") <= 3
    assert "LOG [<count> | RESET]" in str(known.execute_command("ACL HELP"))
    (entry,) = known.execute_command("ACL LOG")
    assert "'cmd': 'auth'" in str(entry) or "cmd=auth" in str(entry), entry
    entry = dict(zip(entry[::2], entry[1::2])) if isinstance(entry, list) else entry
    entry = {k.decode() if isinstance(k, bytes) else k: v for k, v in entry.items()}
    assert entry["count"] >= 50 and entry["username"] in (b"ev\\il", "ev\\il") and entry["reason"] in (b"auth", "auth")


def test_wrong_passwords_on_many_short_connections_lock_no_client_of_the_same_host_out(fresh):
    """Attackers close each connection before its wrong password is checked. A client with the right password waits for its delay
    and gets in."""
    fresh.set("server.password=secret", "limits.unauthenticated_clients=16").start()

    def attack():
        with contextlib.suppress(OSError), fresh.connect() as s:
            s.sendall(b"AUTH wrong\r\n" * 20)
            time.sleep(0.01)

    with meanwhile(*[attack] * 4):
        wait_until(lambda: "too many unauthenticated clients" in fresh.log(), what="the limit is reached")
        for _ in range(2):
            with fresh.connect() as s:
                s.sendall(b"AUTH secret\r\n")
                assert receive_exactly(s, 5) == b"+OK\r\n"


def test_control_bytes_in_a_user_name_are_escaped_in_the_log(fresh):
    fresh.set("server.password=secret").start()
    with fresh.connect() as s:
        s.sendall(b'AUTH "x\\n2026-01-01T00:00:00.000+00:00 E forged\\x1b[2J" y\r\n')
        assert receive_exactly(s, len(WRONG)) == WRONG
    lines = fresh.log_path.read_text().splitlines()
    assert not any(line.startswith("2026-01-01T") for line in lines)
    assert any("user 'x\\n2026-01-01T00:00:00.000+00:00 E forged\\x1b[2J'" in line for line in lines)


# --- configuration


@pytest.fixture
def with_file(tmp_path):
    """Gives a server with a configuration file of its own."""
    file = tmp_path / "own.yaml"
    file.write_text("server:\n  port: 1\n")
    server = Server({"storage.memory_budget": "128MiB", "server.bind": "[127.0.0.1]"}, tmp_path, config=file)
    yield server
    server.close()


def test_config_rewrite_with_a_password_makes_the_configuration_file_private_to_its_owner(with_file):
    file = with_file.config
    file.chmod(0o644)
    with_file.start()
    client = with_file.client()
    client.config_rewrite()
    assert stat.S_IMODE(file.stat().st_mode) == 0o644  # without a password the mode stays
    client.config_set("requirepass", "secret")
    client = with_file.client(password="secret")
    client.config_rewrite()
    assert "secret" in file.read_text() and stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "has a password and other users could read it" in with_file.log_path.read_text()
    file.chmod(0o640)  # a mode that an operator chose for a group must stay
    link = file.with_name("link.yaml")
    client.config_set("timeout", "100")
    client.config_rewrite()
    assert stat.S_IMODE(file.stat().st_mode) == 0o640 and "100s" in file.read_text() and not link.exists()
    if os.geteuid() == 0:
        os.chown(file, 12345, 23456)
        client.config_rewrite()
        assert (file.stat().st_uid, file.stat().st_gid) == (12345, 23456)


def test_config_rewrite_of_a_symbolic_link_changes_its_target_and_keeps_the_link(with_file, tmp_path):
    real = tmp_path / "real.yaml"
    real.write_text("server:\n  port: 1\n")
    with_file.config.unlink()
    with_file.config.symlink_to(real)
    with_file.start()
    with_file.client().config_set("timeout", "77")
    with_file.client().config_rewrite()
    assert with_file.config.is_symlink() and "77s" in real.read_text()


def test_maxclients_is_32_under_a_limit_of_64_open_files(fresh):
    fresh.prefix = [*NO_MORE_FILES, "--nofile=64:64"]
    fresh.start()
    client = fresh.client()
    assert client.config_get("maxclients") == {"maxclients": "32"}
    assert client.config_get("server.max_clients") == {"server.max_clients": "32"}
    assert client.info("clients")["maxclients"] == 32
    with pytest.raises(redis.ResponseError, match="limit of open files allows 32"):
        client.config_set("maxclients", 5_000)
    client.config_set("maxclients", 20)
    assert client.config_get("maxclients") == {"maxclients": "20"}


def test_config_with_unknown_yaml_tag_or_second_document_is_refused_with_file_and_line(tmp_path):
    for text, said in [
        ("server:\n  port: !!foo 1\n", ":2: the tag !!foo is not known"),
        ("server:\n  port: 1\n---\nlog:\n  level: debug\n", ":3: a second document begins here"),
        ("server:\n  port: 1\n...\n---\nlog:\n  level: debug\n", ":4: a second document begins here"),
        ('server:\n  "po\\x1b[2J\\nrt": 1\n', ":2: server.po\\x1b[2J\\nrt: no such key"),
    ]:
        file = tmp_path / "odd.yaml"
        file.write_text(text)
        done = subprocess.run([binary(), "--check", "--config", str(file)], capture_output=True, text=True, check=False, timeout=30)
        assert done.returncode == 2 and said in done.stderr, done.stderr
