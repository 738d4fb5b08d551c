"""Tests of the HTTP port with a password, with TLS, and with both."""

import base64
import contextlib
import http.client
import signal
import socket
import ssl
import subprocess

import pytest

from support.certificates import Authority, context_of
from support.server import binary, wait_until

PASSWORD = "p\u00e4ss:word"
GUARDED = ("/metrics", "/", "/console.json")


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture
def guarded(fresh, tmp_path):
    """Gives a server whose HTTP port requires a password."""
    fresh.password_file = tmp_path / "http-password"
    fresh.password_file.write_text(PASSWORD + "\n")
    return fresh.set(f"metrics.password_file={fresh.password_file}")


def basic(user, password):
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def ask(server, path, credentials=None, context=None):
    """Returns status, headers and body."""
    port = server.metrics_port
    link = http.client.HTTPSConnection("127.0.0.1", port, timeout=20, context=context) if context else http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    with contextlib.closing(link):
        link.request("GET", path, headers={"Authorization": credentials} if credentials else {})
        reply = link.getresponse()
        return reply.status, dict(reply.getheaders()), reply.read()


def health(server):
    line = [str(binary()), "--health", *(word for key, value in server.settings.items() for word in ("--set", f"{key}={value}"))]
    return subprocess.run(line, capture_output=True, text=True, timeout=30, check=False, cwd=server.home)


def test_metrics_and_console_need_the_password_of_the_http_port_and_health_probes_do_not(guarded):
    guarded.start()
    right = basic("ebbtide", PASSWORD)
    for path in GUARDED:
        status, headers, body = ask(guarded, path)
        assert status == 401 and headers["WWW-Authenticate"].startswith('Basic realm="ebbtide"')
        assert b"ebbtide_" not in body and b"<html" not in body
        assert ask(guarded, path, right)[0] == 200
        assert ask(guarded, path, right.replace("Basic", "bAsIc"))[0] == 200
    for path in ("/healthz", "/ready"):
        assert ask(guarded, path)[0] == ask(guarded, path, basic("ebbtide", "wrong"))[0] == 200
    assert ask(guarded, "/metrics", right)[2].startswith(b"# HELP ")


@pytest.mark.parametrize(
    "credentials",
    [
        basic("ebbtide", "wrong"),
        basic("ebbtide", ""),
        basic("ebbtide", PASSWORD + "x"),
        basic("ebbtide", PASSWORD[:-1]),
        basic("Ebbtide", PASSWORD),
        basic("", PASSWORD),
        "Basic",
        "Basic ",
        "Basic !!!",
        "Bearer " + basic("ebbtide", PASSWORD).split()[1],
        basic("ebbtide", PASSWORD).split()[1],
        "x" * 4000,
    ],
)
def test_wrong_credentials_get_401_and_the_log_line_does_not_contain_the_password(guarded, credentials):
    guarded.start()
    assert ask(guarded, "/metrics", credentials)[0] == 401
    wait_until(lambda: "wrong user or password" in guarded.log())
    assert PASSWORD not in guarded.log()


def test_sighup_reads_a_changed_password_file_and_keeps_the_password_if_the_file_is_missing(guarded):
    guarded.set("metrics.user=prometheus").start()
    assert ask(guarded, "/metrics", basic("prometheus", PASSWORD))[0] == 200
    guarded.password_file.write_text("new")
    guarded.process.send_signal(signal.SIGHUP)
    wait_until(lambda: ask(guarded, "/metrics", basic("prometheus", "new"))[0] == 200)
    assert ask(guarded, "/metrics", basic("prometheus", PASSWORD))[0] == 401
    guarded.password_file.unlink()
    guarded.process.send_signal(signal.SIGHUP)
    wait_until(lambda: "metrics.password_file" in guarded.log() and "keeps its password" in guarded.log())
    assert ask(guarded, "/metrics", basic("prometheus", "new"))[0] == 200


@pytest.mark.parametrize(
    ("settings", "part"),
    [
        (["metrics.password_file=/nowhere/password"], "metrics.password_file: /nowhere/password: cannot be read"),
        (["metrics.user=a:b"], "a name without a colon"),
        (["metrics.user="], "a name without a colon"),
        (["metrics.tls=true"], "metrics.tls is true and needs server.tls.cert_file and server.tls.key_file"),
    ],
)
def test_wrong_settings_of_the_http_port_are_refused_and_the_error_names_the_key(fresh, settings, part):
    with pytest.raises(RuntimeError, match="status 2"):
        fresh.set(*settings).start()
    assert part in fresh.log()


def encrypted(server, authority):
    cert, key = authority.issue("http")
    return server.set("metrics.tls=true", f"server.tls.cert_file={cert}", f"server.tls.key_file={key}", "server.tls.auth_clients=yes", f"server.tls.ca_cert_file={authority.cert}")


@pytest.fixture
def both(guarded, authority):
    """Gives a running server whose HTTP port requires a password and TLS."""
    encrypted(guarded, authority).start(wait=False)
    context = context_of(authority)
    guarded.context = context

    def ready():
        with contextlib.suppress(OSError):
            return ask(guarded, "/ready", context=context)[0] == 200

    wait_until(ready, 60)
    return guarded


def test_http_port_over_tls_needs_the_password_but_no_client_certificate(both):
    assert ask(both, "/metrics", context=both.context)[0] == 401
    status, _, body = ask(both, "/metrics", basic("ebbtide", PASSWORD), both.context)
    assert status == 200 and b"ebbtide_info" in body
    with pytest.raises(ssl.SSLCertVerificationError):
        ask(both, "/healthz", context=ssl.create_default_context())
    # A kept connection has several replies, and its end is announced.
    link = http.client.HTTPSConnection("127.0.0.1", both.metrics_port, timeout=20, context=both.context)
    for path in ("/healthz", "/ready", "/healthz"):
        link.request("GET", path)
        assert link.getresponse().read() == b"ok\n"
    link.close()
    with both.context.wrap_socket(socket.create_connection(("127.0.0.1", both.metrics_port), 20), server_hostname="localhost", suppress_ragged_eofs=False) as raw:
        raw.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
        text = b""
        while piece := raw.recv(4096):
            text += piece
        assert text.endswith(b"ok\n")


def test_health_probe_of_a_tls_http_port_needs_no_password(both):
    done = health(both)
    assert (done.returncode, done.stdout) == (0, "ready\n")
    both.stop()
    assert health(both).returncode == 1


def test_health_probe_with_tls_of_a_plain_http_port_fails_before_its_timeout(guarded, authority):
    guarded.start()
    encrypted(guarded, authority)
    done = health(guarded)
    assert done.returncode == 1 and "TLS" in done.stdout


def test_silent_plain_and_slow_clients_of_the_tls_http_port_delay_no_scrape(both):
    links = [socket.create_connection(("127.0.0.1", both.metrics_port), 20) for _ in range(80)]
    for number, link in enumerate(links):
        with contextlib.suppress(OSError):  # the oldest connections are replaced
            link.sendall([b"", b"\x16\x03\x01\x02\x00", b"GET /metrics HTTP/1.1\r\n\r\n"][number % 3])
    for _ in range(5):
        assert ask(both, "/healthz", context=both.context)[0] == 200
    for link in links:
        link.close()
    wait_until(lambda: "TLS handshake" in both.log())
    assert ask(both, "/metrics", basic("ebbtide", PASSWORD), both.context)[0] == 200


def test_http_port_serves_a_changed_certificate_after_sighup(both, authority):
    def serial():
        with both.context.wrap_socket(socket.create_connection(("127.0.0.1", both.metrics_port), 20), server_hostname="localhost") as link:
            return link.getpeercert()["serialNumber"]

    before = serial()
    authority.issue("http")
    both.process.send_signal(signal.SIGHUP)
    wait_until(lambda: serial() != before)


def test_start_with_a_password_of_the_http_port_logs_no_warning_about_an_open_port(guarded):
    guarded.set("metrics.bind=0.0.0.0").start()
    assert "to everyone who can reach it (metrics.bind)" not in guarded.log()
