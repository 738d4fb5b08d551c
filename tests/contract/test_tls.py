"""Tests of TLS: clients of the TLS port, certificates of server and clients, reload, and peers that break the protocol."""

import contextlib
import shutil
import signal
import socket
import ssl
import subprocess
import time

import pytest

from support.certificates import OPENSSL, Authority, context_of, openssl
from support.server import binary, free_port, wait_until
from support.sockets import encode, receive_all, receive_exactly


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    assert OPENSSL is not None, "the tests of TLS need the program openssl"
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture
def tls(fresh, authority):
    """Gives a server with a TLS port that requires no certificate; its port is `tls_port`."""
    cert, key = authority.issue("server")
    fresh.tls_port = free_port()
    return fresh.set(f"server.tls.port={fresh.tls_port}", f"server.tls.cert_file={cert}", f"server.tls.key_file={key}", "server.tls.auth_clients=no")


def connect(server, context, timeout=20):
    return context.wrap_socket(socket.create_connection(("127.0.0.1", server.tls_port), timeout=timeout), server_hostname="localhost")


def ping(link):
    link.sendall(b"PING\r\n")
    return receive_exactly(link, 7) == b"+PONG\r\n"


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_commands_work_over_tls_and_the_other_port_still_serves_plain_clients(tls, authority, version):
    tls.start()
    with connect(tls, context_of(authority, minimum_version=version, maximum_version=version)) as link:
        assert link.version() == {ssl.TLSVersion.TLSv1_2: "TLSv1.2", ssl.TLSVersion.TLSv1_3: "TLSv1.3"}[version]
        link.sendall(encode("SET", "k", "v") + encode("GET", "k"))
        assert receive_exactly(link, 12) == b"+OK\r\n$1\r\nv\r\n"
    assert tls.client().get("k") == b"v"


def test_redis_cli_works_over_tls(tls, authority):
    tls.start()
    line = ["redis-cli", "--tls", "--cacert", authority.cert, "-h", "127.0.0.1", "-p", str(tls.tls_port), "SET", "k", "over tls"]
    assert subprocess.run(list(map(str, line)), capture_output=True, text=True, check=True).stdout == "OK\n"
    assert tls.client().get("k") == b"over tls"


def test_large_values_and_long_pipelines_over_tls_get_whole_replies(tls, authority):
    tls.start()
    big = bytes(range(256)) * (5 << 12)  # 5 MiB
    with connect(tls, context_of(authority)) as link:
        link.sendall(encode("SET", "big", big) + encode("GET", "big"))
        head = b"+OK\r\n$%d\r\n" % len(big)
        assert receive_exactly(link, len(head) + len(big) + 2) == head + big + b"\r\n"
        count = 20_000  # more replies than the socket takes at once, while nothing is read
        link.settimeout(60)
        commands = b"".join(encode("SET", f"k{i}", "x" * 50) + encode("GET", f"k{i}") for i in range(count))
        link.setblocking(False)
        sent, received = 0, bytearray()
        expected = count * len(b"+OK\r\n$50\r\n" + b"x" * 50 + b"\r\n")
        deadline = time.monotonic() + 60
        while len(received) < expected and time.monotonic() < deadline:
            with contextlib.suppress(ssl.SSLWantReadError, ssl.SSLWantWriteError):
                sent += link.send(commands[sent : sent + 65536]) if sent < len(commands) else 0
            with contextlib.suppress(ssl.SSLWantReadError, ssl.SSLWantWriteError):
                received += link.recv(1 << 16)
        assert bytes(received) == (b"+OK\r\n$50\r\n" + b"x" * 50 + b"\r\n") * count


def test_client_without_a_certificate_is_refused_unless_client_certificates_are_optional(tls, authority, tmp_path):
    client = authority.issue("client")
    stranger = Authority(tmp_path).issue("stranger")
    tls.set("server.tls.auth_clients=yes", f"server.tls.ca_cert_file={authority.cert}").start()
    with connect(tls, context_of(authority, client)) as link:
        assert ping(link)
    for certificate in (None, stranger):
        with pytest.raises((ssl.SSLError, ConnectionError, AssertionError)), connect(tls, context_of(authority, certificate)) as link:
            ping(link)
    admin = tls.client()
    assert admin.config_set("tls-auth-clients", "optional")
    with connect(tls, context_of(authority)) as link:
        assert ping(link)
    with pytest.raises((ssl.SSLError, ConnectionError, AssertionError)), connect(tls, context_of(authority, stranger)) as link:
        ping(link)


def test_new_connections_get_the_reloaded_certificate(tls, authority, tmp_path):
    cert, key = authority.issue("reloaded")
    files = tmp_path / "s.crt", tmp_path / "s.key"
    for source, target in zip(authority.issue("first"), files):
        shutil.copy(source, target)
    tls.set(f"server.tls.cert_file={files[0]}", f"server.tls.key_file={files[1]}").start()

    def subject():
        with connect(tls, context_of(authority)) as link:
            return dict(pair[0] for pair in link.getpeercert()["subject"])["commonName"]

    with connect(tls, context_of(authority)) as old:
        assert subject() == "first"
        shutil.copy(cert, files[0])
        shutil.copy(key, files[1])
        tls.process.send_signal(signal.SIGHUP)
        wait_until(lambda: subject() == "reloaded", 10, "the certificate is reloaded")
        # A file that does not parse, or a key that does not fit, must leave the certificate unchanged.
        shutil.copy(authority.key, files[1])
        tls.process.send_signal(signal.SIGHUP)
        wait_until(lambda: "The old certificate stays in use" in tls.log_tail(), 10, "the mistake is logged")
        assert subject() == "reloaded"
        with pytest.raises(Exception, match="CONFIG SET failed.*server.tls.cert_file /no/such/file"):
            tls.client().config_set("tls-cert-file", "/no/such/file")
        assert subject() == "reloaded"
        assert ping(old)


def test_start_with_missing_or_wrong_tls_files_is_refused_with_the_reason(authority, tmp_path):
    cert, key = authority.issue("server")

    def refusal(*settings):
        line = [binary(), "--check", "--set", f"server.tls.port={free_port()}"]
        for setting in settings:
            line += ["--set", setting]
        done = subprocess.run(list(map(str, line)), capture_output=True, text=True, check=False)
        assert done.returncode == 2
        return done.stderr

    assert "needs server.tls.cert_file and server.tls.key_file" in refusal()
    no_clients = "server.tls.auth_clients=no"
    assert "server.tls.cert_file /no: " in refusal("server.tls.cert_file=/no", f"server.tls.key_file={key}", no_clients)
    assert f"server.tls.key_file {authority.key}: " in refusal(f"server.tls.cert_file={cert}", f"server.tls.key_file={authority.key}", no_clients)
    assert "needs server.tls.ca_cert_file" in refusal(f"server.tls.cert_file={cert}", f"server.tls.key_file={key}")
    assert "server.tls.protocols" in refusal("server.tls.protocols=SSLv3")
    secret, secret_key = authority.issue("secret", password="word")
    files = f"server.tls.cert_file={secret}", f"server.tls.key_file={secret_key}", no_clients
    password = tmp_path / "password"
    password.write_text("wrong\n")
    assert f"server.tls.key_file {secret_key}: " in refusal(*files, f"server.tls.key_password_file={password}")
    password.write_text("word\n")
    line = [binary(), "--check", "--set", f"server.tls.port={free_port()}", "--set", f"server.tls.key_password_file={password}"]
    for setting in files:
        line += ["--set", setting]
    assert subprocess.run(list(map(str, line)), capture_output=True, check=False).returncode == 0


def test_connections_that_do_not_speak_tls_are_closed(tls, authority):
    tls.set("limits.authentication_timeout=1s", "limits.unauthenticated_clients=5").start()
    with socket.create_connection(("127.0.0.1", tls.tls_port), timeout=20) as plain:  # plain text at the TLS port
        plain.sendall(b"PING\r\n" * 100)
        assert b"PONG" not in receive_all(plain)
    with pytest.raises((ssl.SSLError, ConnectionError)):  # TLS at the plain port
        context_of(authority).wrap_socket(socket.create_connection(("127.0.0.1", tls.port), timeout=20), server_hostname="localhost")
    with pytest.raises((ssl.SSLError, ConnectionError)):  # a version that is not allowed
        context = context_of(authority)
        context.set_ciphers("DEFAULT@SECLEVEL=0")
        context.minimum_version, context.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
        connect(tls, context)
    # Handshakes that never end must be closed in time, and must not lock others out.
    admin, silent = tls.client(), []
    for count in range(8):
        silent.append(socket.create_connection(("127.0.0.1", tls.tls_port), timeout=20))
        wait_until(lambda count=count: len(admin.client_list()) >= min(count + 1, 5), what="the server has accepted the connection")
    silent[-1].sendall(b"\x16\x03\x01")
    with connect(tls, context_of(authority)) as link:
        assert ping(link)
        for each in silent:
            assert receive_all(each) == b""
            each.close()
        assert ping(link)
    metrics = tls.http("/metrics")[1]
    text = metrics.decode() if isinstance(metrics, bytes) else metrics
    assert 'ebbtide_tls_handshakes_total{result="failed"}' in text


def test_tls_handshake_that_arrives_byte_by_byte_succeeds(tls, authority):
    tls.start()
    context = context_of(authority)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    stream = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    with socket.create_connection(("127.0.0.1", tls.tls_port), timeout=20) as link:
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        def send():
            for byte in outgoing.read():
                link.sendall(bytes([byte]))

        while True:
            try:
                stream.do_handshake()
                break
            except ssl.SSLWantReadError:
                send()
                incoming.write(link.recv(1 << 16))
        stream.write(b"PING\r\n")
        send()
        while True:
            with contextlib.suppress(ssl.SSLWantReadError):
                assert stream.read(7) == b"+PONG\r\n"
                break
            incoming.write(link.recv(1 << 16))


def test_250_tls_handshakes_at_once_delay_no_other_client(tls, authority, tmp_path):
    """A signature with this key takes milliseconds. 250 signatures in one round of the event loop would take more than a second."""
    cert, key = tmp_path / "rsa.crt", tmp_path / "rsa.key"
    openssl("req", "-x509", "-newkey", "rsa:4096", "-nodes", "-subj", "/CN=localhost", "-keyout", key, "-out", cert)
    tls.set("server.threads=1", f"server.tls.cert_file={cert}", f"server.tls.key_file={key}").start()
    outgoing = ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        context_of(authority).wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost").do_handshake()
    hello, client = outgoing.read(), tls.client()

    def worst_ping():
        with contextlib.ExitStack() as stack:
            address = ("127.0.0.1", tls.tls_port)
            links = [stack.enter_context(socket.create_connection(address, timeout=20)) for _ in range(250)]
            client.ping()
            for link in links:
                link.sendall(hello)
            worst, end = 0, time.monotonic() + 1
            while time.monotonic() < end:
                start = time.monotonic()
                client.ping()
                worst = max(worst, time.monotonic() - start)
            return worst

    assert min(worst_ping() for _ in range(3)) < 0.3


def test_tls_renegotiation_is_refused(tls):
    tls.start()
    line = [OPENSSL, "s_client", "-connect", f"127.0.0.1:{tls.tls_port}", "-tls1_2"]
    client = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    output = b""
    while b"Extended master secret" not in output:  # until the client is connected
        output += client.stdout.read(1)
    client.stdin.write(b"R\n")  # this is the command of s_client
    client.stdin.flush()
    output += client.stdout.read()
    client.wait()
    assert b"RENEGOTIATING" in output and b"no renegotiation" in output
    assert tls.client().ping()


def test_tls_client_that_closes_its_sending_side_gets_all_replies(tls, authority):
    tls.start()
    context = context_of(authority)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    stream = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    with socket.create_connection(("127.0.0.1", tls.tls_port), timeout=20) as link:
        while True:
            try:
                stream.do_handshake()
                break
            except ssl.SSLWantReadError:
                link.sendall(outgoing.read())
                incoming.write(link.recv(1 << 16))
        stream.write(b"PING\r\n" * 1000)
        with contextlib.suppress(ssl.SSLWantReadError):
            stream.unwrap()  # sends close_notify, after the commands
        link.sendall(outgoing.read())
        link.shutdown(socket.SHUT_WR)
        incoming.write(receive_all(link))
        received = b""
        with contextlib.suppress(ssl.SSLError, ssl.SSLZeroReturnError):
            while part := stream.read(1 << 16):
                received += part
        assert received == b"+PONG\r\n" * 1000


def test_password_is_required_over_tls(tls, authority):
    tls.set("server.password=secret").start()
    with connect(tls, context_of(authority)) as link:
        link.sendall(b"PING\r\n")
        assert receive_exactly(link, 34) == b"-NOAUTH Authentication required.\r\n"
        link.sendall(b"AUTH secret\r\n")
        assert receive_exactly(link, 5) == b"+OK\r\n"
        assert ping(link)


def test_server_with_an_expired_certificate_logs_a_warning_and_clients_refuse_it(tls, authority):
    cert, key = authority.issue("expired", days=-1)
    tls.set(f"server.tls.cert_file={cert}", f"server.tls.key_file={key}").start()
    with pytest.raises(ssl.SSLCertVerificationError):
        connect(tls, context_of(authority))
    assert f"the certificate in {cert} has expired" in tls.log_tail()
