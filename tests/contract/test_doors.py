"""The doors: what clients without a password, and clients of the HTTP port, can do to the others."""

import contextlib
import socket
import time


def healthz_seconds(server):
    """How long /healthz takes, over a connection of its own."""
    began = time.monotonic()
    assert server.http("/healthz")[0] == 200
    return time.monotonic() - began


def metrics_link(server):
    return socket.create_connection(("127.0.0.1", server.metrics_port), timeout=10)


def test_a_thousand_idle_connections_to_the_http_port_leave_health_checks_prompt(fresh):
    fresh.start()
    with contextlib.ExitStack() as idle:
        for _ in range(1_000):
            idle.enter_context(metrics_link(fresh))
        assert max(healthz_seconds(fresh) for _ in range(5)) < 1
        assert fresh.http("/metrics")[0] == 200


def test_requests_that_dribble_into_the_http_port_leave_health_checks_prompt(fresh):
    fresh.start()
    with contextlib.ExitStack() as slow:
        links = [slow.enter_context(metrics_link(fresh)) for _ in range(60)]
        for byte in b"GET /healthz HTTP/1.1\r\nHost: ":
            for link in links:
                with contextlib.suppress(OSError):
                    link.sendall(bytes([byte]))
            assert healthz_seconds(fresh) < 1
        # Each is cut off by the deadline of the whole header, 5 s, although it has sent bytes all the time.
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


def test_readers_that_take_no_metrics_leave_health_checks_prompt(fresh):
    fresh.start()
    with contextlib.ExitStack() as slow:
        for _ in range(100):
            link = slow.enter_context(metrics_link(fresh))
            link.sendall(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n" * 50)
        assert max(healthz_seconds(fresh) for _ in range(5)) < 1
