"""Tests of purge tickets over a real socket and a real disk."""

import json
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis

from support.server import wait_until
from support.sockets import encode, pairs

NAME = b"name-of-a-key-to-be-forgotten"
MARKER = b"marker-of-a-value-to-be-forgotten"


def files_with(server, text):
    found = []
    for path in sorted(server.data.iterdir()):
        try:
            if path.is_file() and text in path.read_bytes():
                found.append(path.name)
        except FileNotFoundError:
            pass  # removed meanwhile
    return found


def fill(client):
    with client.pipeline(transaction=False) as pipe:
        for i in range(500):
            pipe.set(f"key{i}", "x" * 100)
        pipe.set(NAME, MARKER)
        pipe.execute()
    client.execute_command("TREE.FLUSH")


def status_of(client, ticket):
    return pairs(client.execute_command("PURGE.STATUS", ticket))


@pytest.fixture
def plain(fresh):
    """Gives a server without compression, so that a search of its files finds every stored key and value."""
    return fresh.set("storage.compression=none", "storage.compression_last_level=none").start()


@pytest.mark.parametrize("way", ["DELRANGE", "DELPREFIX"])
def test_deleted_range_is_in_no_file_after_purge_now_and_its_ticket_stays_done(plain, way):
    client = plain.client()
    fill(client)
    assert files_with(plain, MARKER)
    ticket = client.execute_command("DELPREFIX", NAME) if way == "DELPREFIX" else client.execute_command("DELRANGE", NAME, NAME + b"z")
    assert client.get(NAME) is None
    state = status_of(client, ticket)
    assert state[b"ticket"] == ticket and state[b"state"] == b"pending" and state[b"completed-at"] is None
    assert b"log" in state[b"left-in"]
    assert client.execute_command("PURGE.WAIT", ticket, 50) == 0
    assert ticket in client.execute_command("PURGE.LIST")
    assert client.execute_command("PURGE.NOW", ticket) == b"OK"
    client.execute_command("TREE.COMPACT")
    assert client.execute_command("PURGE.WAIT", ticket, 60_000) == 1
    assert files_with(plain, MARKER) == []
    assert files_with(plain, NAME) == []
    state = status_of(client, ticket)
    assert state[b"state"] == b"done" and state[b"completed-at"] >= int(ticket.split(b"-")[1])
    assert state[b"files-left"] == 0 and state[b"left-in"] == []
    assert ticket not in client.execute_command("PURGE.LIST")
    assert client.get("key7") == b"x" * 100
    # The ticket must stay done after a stop and after a kill.
    plain.restart()
    wait_until(lambda: status_of(plain.client(), ticket)[b"state"] == b"done", 5, "the ticket is done after the restart")
    plain.kill()
    plain.start()
    assert status_of(plain.client(), ticket)[b"state"] == b"done"


def test_purge_report_says_where_deleted_bytes_are_left_and_when_but_names_no_key(plain):
    client = plain.client()
    fill(client)
    ticket = client.execute_command("DELPREFIX", NAME)
    report = json.loads(client.execute_command("PURGE.REPORT", ticket))
    assert report["state"] == "pending" and report["ticket"] == ticket.decode() and report["gone_at_the_latest"] is None
    assert report["left"]["log"]["count"] >= 1
    client.execute_command("PURGE.NOW")
    client.execute_command("TREE.COMPACT")
    assert client.execute_command("PURGE.WAIT", ticket, 60_000) == 1
    text = client.execute_command("PURGE.REPORT", ticket)
    report = json.loads(text)
    assert report["state"] == "done" and report["gone_at_the_latest"] >= report["born_by"]
    assert all(place["count"] == 0 for place in report["left"].values())
    assert NAME not in text and MARKER not in text


def test_purge_tickets_are_valid_after_restarts_and_purge_list_is_empty(plain):
    client = plain.client()
    fill(client)
    ticket = client.execute_command("DELPREFIX", NAME)
    emptied = plain.client(db=1)
    emptied.set(NAME, MARKER)
    emptied.execute_command("TREE.FLUSH")
    of_emptied = emptied.execute_command("DELRANGE", "-", "+")
    emptied.flushdb()
    asked = client.execute_command("PURGE.TICKET")
    before = status_of(client, ticket)
    assert set(client.execute_command("PURGE.LIST")) >= {ticket, asked}
    plain.kill()
    plain.start()
    client = plain.client()
    after = status_of(client, ticket)
    assert (after[b"state"], after[b"deadline"]) == (b"pending", before[b"deadline"])
    assert client.execute_command("PURGE.LIST") == []
    assert client.execute_command("PURGE.WAIT", ticket, 1) == 0
    report = json.loads(client.execute_command("PURGE.REPORT", ticket))
    assert (report["state"], report["promised"], report["in_time"]) == ("pending", True, None)
    client.execute_command("PURGE.NOW")
    client.execute_command("TREE.COMPACT")
    for each in (ticket, of_emptied, asked):
        assert client.execute_command("PURGE.WAIT", each, 60_000) == 1
    assert json.loads(client.execute_command("PURGE.REPORT", ticket))["in_time"] is True
    plain.restart()
    client = plain.client()
    for each in (ticket, of_emptied, asked):
        assert client.execute_command("PURGE.WAIT", each, 5000) == 1
    assert status_of(client, ticket)[b"deadline"] == before[b"deadline"]
    report = json.loads(client.execute_command("PURGE.REPORT", of_emptied))
    # The tree was removed, so its deadline is unknown after a restart.
    assert (report["state"], report["promised"], report["deadline"], report["in_time"]) == ("done", None, None, None)


def test_ticket_for_all_databases_without_deletes_is_done_at_once(plain):
    client = plain.client()
    ticket = client.execute_command("PURGE.TICKET")
    assert ticket.startswith(b"purge-") and ticket.count(b"-") == 1
    assert client.execute_command("PURGE.WAIT", ticket, 5000) == 1  # nothing was deleted
    client.set("k", "v")
    later = client.execute_command("PURGE.TICKET")
    assert int(later[6:]) >= int(ticket[6:])


def test_invalid_and_unknown_tickets_are_refused(plain):
    client = plain.client()
    client.set("k", "v")
    far = b"purge-%d" % (int(time.time() * 1000) + 10_000_000)
    for text in (b"", b"purge-", b"purge-x", b"purge-1-", b"purge--1", b"purge-01", b"purge-1-2-3", b"purge-1 ", b"PURGE-1", b"purge-" + b"9" * 30):
        with pytest.raises(redis.ResponseError, match="not a purge ticket"):
            client.execute_command("PURGE.STATUS", text)
    for text in (far, b"purge-0", b"purge-1-4000000000"):
        for command in (("PURGE.STATUS", text), ("PURGE.WAIT", text, 10), ("PURGE.NOW", text), ("PURGE.REPORT", text)):
            with pytest.raises(redis.ResponseError, match="no such purge ticket"):
                client.execute_command(*command)
    ticket = client.execute_command("PURGE.TICKET")
    for text, why in ((b"x", "not an integer"), (b"-1", "negative"), (b"9" * 30, "not an integer")):
        with pytest.raises(redis.ResponseError, match=why):
            client.execute_command("PURGE.WAIT", ticket, text)
    with pytest.raises(redis.ResponseError, match="wrong number of arguments"):
        client.execute_command("PURGE.STATUS")


def test_40_clients_in_purge_wait_delay_no_other_client(plain):
    client = plain.client()
    fill(client)
    ticket = client.execute_command("DELPREFIX", NAME)

    def wait(ms):
        return plain.client().execute_command("PURGE.WAIT", ticket, ms)

    with ThreadPoolExecutor(40) as threads:
        waiting = [threads.submit(wait, 60_000 if i else 0) for i in range(40)]
        with plain.connect() as gone:
            gone.sendall(encode("PURGE.WAIT", ticket, 0))
            wait_until(lambda: client.info("clients")["waiting_clients"] == 41, what="all clients wait")
            began = time.monotonic()
            assert client.execute_command("PURGE.WAIT", ticket, 300) == 0
            assert 0.25 < time.monotonic() - began
            assert client.execute_command("COUNTRANGE", "-", "+", "EXACT") == 500  # offload threads are free
            assert client.get("key1") is not None
        assert not any(one.done() for one in waiting)
        client.execute_command("PURGE.NOW", ticket)
        client.execute_command("TREE.COMPACT")
        assert [one.result() for one in waiting] == [1] * 40


@pytest.mark.parametrize("reason, answer", [((), b":0"), (("TIMEOUT",), b":0"), (("error",), b"-UNBLOCKED client unblocked via CLIENT UNBLOCK")])
def test_client_unblock_ends_purge_wait(plain, reason, answer):
    client = plain.client()
    fill(client)
    ticket = client.execute_command("DELPREFIX", NAME)
    with plain.connect() as waiting, waiting.makefile("rb") as replies:
        waiting.sendall(encode("CLIENT", "ID"))
        number = int(replies.readline()[1:])
        assert client.execute_command("CLIENT", "UNBLOCK", number, *reason) == 0  # the client does not wait
        waiting.sendall(encode("PURGE.WAIT", ticket, 0) + encode("PING"))
        wait_until(lambda: client.info("clients")["blocked_clients"] == 1, what="the client waits")
        assert next(one for one in client.client_list() if int(one["id"]) == number)["flags"] == "b"
        assert client.execute_command("CLIENT", "UNBLOCK", number, *reason) == 1
        assert (replies.readline().strip(), replies.readline().strip()) == (answer, b"+PONG")
        assert client.info("clients")["blocked_clients"] == 0
        assert client.execute_command("CLIENT", "UNBLOCK", number, *reason) == 0
        waiting.sendall(encode("PURGE.WAIT", ticket, 0))
        wait_until(lambda: client.info("clients")["blocked_clients"] == 1, what="the client waits again")
    wait_until(lambda: client.info("clients")["blocked_clients"] == 0, what="a closed client no longer waits")


def test_purge_wait_in_a_transaction_returns_at_once(plain):
    client = plain.client()
    fill(client)
    ticket = client.execute_command("DELPREFIX", NAME)
    with client.pipeline(transaction=True) as pipe:
        pipe.execute_command("PURGE.WAIT", ticket, 0)
        pipe.execute_command("DELRANGE", "key1", "key2")
        answers = pipe.execute()
    assert answers[0] == 0
    assert status_of(client, answers[1])[b"state"] == b"pending"


@pytest.mark.parametrize("fsync", ["everysec", "no", "always"])
def test_reply_with_a_purge_ticket_is_sent_after_the_log_is_synced(fresh, fsync):
    fresh.set(f"storage.fsync={fsync}").start()
    client = fresh.client()

    def synced():
        return client.info("ebbtide")["synced_seq"]

    for i in range(20):
        client.set(f"k{i}", "v")
        client.execute_command("DELRANGE", f"k{i}", f"k{i}z")
        assert synced() >= 2 * i + 2
    client.set("last", "v")
    seen = client.info("ebbtide")["visible_seq"]
    client.execute_command("PURGE.TICKET")
    assert synced() >= seen


def test_arguments_of_failed_commands_are_in_no_log_and_no_file(plain):
    client = plain.client()
    secret = b"secret-that-is-in-no-log"
    client.config_set("slowlog-log-slower-than", 0)
    client.set("s", "v")
    for command in (("INCR", "s", secret), (secret, secret), ("LPUSH", secret), ("GET", secret), ("PURGE.STATUS", secret), ("INCRBY", "s", secret)):
        try:
            client.execute_command(*command)
        except redis.ResponseError:
            pass
    raw = plain.connect()
    raw.sendall(b"*1\r\n$-5\r\n" + secret + b"\r\n")
    raw.recv(1000)
    raw.close()
    plain.stop()
    assert secret not in plain.log_path.read_bytes()
    assert files_with(plain, secret) == []


def test_core_dumps_of_the_server_are_disabled(plain):
    limits = dict(
        (line[:26].strip(), line[26:].split()) for line in open(f"/proc/{plain.pid}/limits", encoding="ascii").read().splitlines()[1:]
    )
    assert limits["Max core file size"][:2] == ["0", "0"]
