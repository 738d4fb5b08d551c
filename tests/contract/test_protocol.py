"""Tests of valid and invalid network input, pipelines and large values, over plain sockets."""

import threading

import pytest

from support.sockets import encode, receive_all, receive_exactly, receive_until


@pytest.mark.parametrize("data", [b"\r\n", b"*0\r\n", b"*-1\r\n", b"*-10\r\n"])
def test_empty_request_leaves_connection_usable(server, data):
    with server.connect() as s:
        s.sendall(data + b"PING\r\n")
        assert receive_exactly(s, 7) == b"+PONG\r\n"
        s.sendall(encode("PING"))
        assert receive_exactly(s, 7) == b"+PONG\r\n"


LONG = b"1" * (64 * 1024 + 1)


@pytest.mark.parametrize(
    "data,error",
    [
        (b"*2147483648\r\n", "invalid multibulk length"),
        (b"*abc\r\n", "invalid multibulk length"),
        (b"*+3\r\n", "invalid multibulk length"),
        (b"*01\r\n", "invalid multibulk length"),
        (b"*1048577\r\n", "invalid multibulk length"),
        (b"*1\r\n$-1\r\n", "invalid bulk length"),
        (b"*1\r\n$blabla\r\n", "invalid bulk length"),
        (b"*1\r\n$536870913\r\n", "invalid bulk length"),
        (b"*1\r\nfoo", "expected '$', got 'f'"),
        (b"*2\r\n$3\r\nGETxx$1\r\na\r\n", "expected CRLF after bulk"),
        (LONG, "too big inline request"),
        (b"*" + LONG, "too big mbulk count string"),
        (b"*1\r\n$" + LONG, "too big bulk count string"),
        (b'set """k""" v\r\n', "unbalanced quotes in request"),
    ],
)
def test_protocol_error_gets_its_message_and_closes_the_connection(server, data, error):
    with server.connect() as s:
        s.sendall(b"PING\r\n" + data)
        assert receive_all(s) == b"+PONG\r\n-ERR Protocol error: " + error.encode() + b"\r\n"


@pytest.mark.parametrize(
    "data",
    [
        b"POST / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"PING\r\nPOST / HTTP/1.1\r\n\r\nPING\r\n",  # commands before it get no replies either
        b"\x16\x03\x01\x02\x00",
        b"\x00\x01",
        encode("host:", "x"),
    ],
)
def test_input_of_other_protocols_closes_the_connection_without_a_reply(server, data):
    with server.connect() as s:
        s.sendall(data)
        assert receive_all(s) == b""


def test_unknown_command_gets_an_error_with_its_name(server):
    with server.connect() as s:
        s.sendall(b"nonsense a b\r\n")
        assert s.recv(1000).startswith(b"-ERR unknown command 'nonsense'")


def test_inline_command_with_quotes_and_escapes_is_understood(server):
    with server.connect() as s:
        s.sendall(b"set inline \"a b\\x41\"\r\nget inline\r\n")
        assert receive_exactly(s, 15) == b"+OK\r\n$4\r\na bA\r\n"


def test_commands_that_arrive_byte_by_byte_work(server):
    with server.connect() as s:
        for byte in encode("SET", "slow", "value") + encode("GET", "slow"):
            s.sendall(bytes([byte]))
        assert receive_exactly(s, 16) == b"+OK\r\n$5\r\nvalue\r\n"


def test_pipeline_of_100000_commands_gets_all_replies_in_order(server):
    n = 50_000
    with server.connect() as s:
        s.settimeout(60)
        data = b"".join(encode("SET", f"p{i}", i) + encode("GET", f"p{i}") for i in range(n))
        writer = threading.Thread(target=s.sendall, args=(data,))
        writer.start()
        expected = b"".join(b"+OK\r\n$%d\r\n%d\r\n" % (len(str(i)), i) for i in range(n))
        assert receive_exactly(s, len(expected)) == expected
        writer.join()


@pytest.mark.parametrize("size", [65_535, 65_536, 65_537, 1 << 20, 20_000_000])
def test_large_value_is_stored_and_returned_whole(server, size):
    client = server.client()
    value = (b"0123456789abcdef" * (size // 16 + 1))[:size]
    assert client.set("large", value)
    assert client.get("large") == value
    with client.pipeline(transaction=False) as pipe:
        for _ in range(3):
            pipe.get("large")
        assert pipe.execute() == [value] * 3
    client.delete("large")


@pytest.mark.parametrize("protocol,greeting,nil,pair", [(2, b"*14", b"$-1", b"*2"), (3, b"%7", b"_", b"%1")])
def test_hello_switches_a_connection_between_resp2_and_resp3(server, protocol, greeting, nil, pair):
    with server.connect() as s:
        s.sendall(encode("HELLO", protocol) + encode("PING"))
        answer = receive_until(s, b"+PONG\r\n")
        assert answer.startswith(greeting + b"\r\n$6\r\nserver\r\n"), answer
        s.sendall(encode("SET", "k", "v") + encode("GET", "absent") + encode("CONFIG", "GET", "maxclients"))
        expected = b"+OK\r\n" + nil + b"\r\n" + pair + b"\r\n$10\r\nmaxclients\r\n$5\r\n10000\r\n"
        assert receive_exactly(s, len(expected)) == expected


def test_300_connections_each_get_their_own_replies(server):
    sockets = [server.connect() for _ in range(300)]
    for i, s in enumerate(sockets):
        s.sendall(encode("SET", f"many{i}", i) + encode("GET", f"many{i}"))
    for i, s in enumerate(sockets):
        text = str(i).encode()
        expected = b"+OK\r\n$%d\r\n%s\r\n" % (len(text), text)
        assert receive_exactly(s, len(expected)) == expected
    for s in sockets:
        s.close()


def test_client_list_shows_client_list_as_the_current_command(server):
    client = server.client(single_connection_client=True)
    client.ping()
    number = str(client.client_id())
    assert [each["cmd"] for each in client.client_list() if each["id"] == number] == ["client|list"]
