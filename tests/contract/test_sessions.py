"""Tests of transactions, subscriptions and tracking over real sockets, byte for byte against redis-server, in RESP2 and RESP3.

A script is a list of steps: a connection, its command (None: it only listens) and the number of values that it then receives. The
bytes of each step must be the same on both servers, except for HELLO's reply, which contains the connection's id.
"""

from concurrent.futures import ThreadPoolExecutor

import pytest

from conftest import SETTINGS
from support.server import Server, wait_until
from support.sockets import encode
from test_differential import Link, redis_port  # noqa: F401 (a fixture)


class RawLink(Link):
    """A connection that returns replies as received bytes."""

    def send(self, line):
        self.socket.sendall(encode(*line.split(" ")))

    def value(self):
        line = self._line()
        out, kind = line + b"\r\n", line[:1]
        if kind in b"$=" and line[1:] != b"-1":
            size = int(line[1:]) + 2
            while len(self.data) < size:
                self._more()
            out, self.data = out + self.data[:size], self.data[size:]
        elif kind in b"*~>" and line[1:] != b"-1":
            out += b"".join(self.value() for _ in range(int(line[1:])))
        elif kind == b"%":
            out += b"".join(self.value() for _ in range(2 * int(line[1:])))
        return out


@pytest.fixture(scope="module")
def two_loops(tmp_path_factory):
    with Server({**SETTINGS, "server.threads": 2}, tmp_path_factory.mktemp("sessions"), config=None) as running:
        yield running


def play(port, script, protocol):
    links, out = {}, []
    setup = RawLink(port)
    setup.call("FLUSHALL")
    for name, command, values in script:
        if name not in links:
            links[name] = RawLink(port)
            if protocol == 3:
                links[name].send("HELLO 3")
                links[name].value()
        if command is not None:
            links[name].send(command)
        out.append((name, command, b"".join(links[name].value() for _ in range(values))))
    for link in [setup, *links.values()]:
        link.close()
    return out


TRANSACTION = [
    ("a", "MULTI", 1), ("a", "SET k 1", 1), ("a", "GET k", 1), ("a", "GET none", 1), ("a", "EXEC", 1),
    ("a", "WATCH k", 1), ("b", "SET k 2", 1), ("a", "MULTI", 1), ("a", "PING", 1), ("a", "EXEC", 1),
    ("a", "MULTI", 1), ("a", "EXEC", 1), ("a", "EXEC", 1), ("a", "MULTI", 1), ("a", "NOSUCH", 1), ("a", "EXEC", 1),
    ("a", "MULTI", 1), ("a", "HELLO 4", 1), ("a", "INCR k", 1), ("a", "LCS k none", 1), ("a", "EXEC", 1),
    ("a", "MULTI", 1), ("a", "DISCARD", 1), ("a", "MULTI", 1), ("a", "RESET", 1), ("a", "EXEC", 1),
]  # fmt: skip
SUBSCRIPTIONS = [
    ("a", "UNSUBSCRIBE", 1), ("a", "PUNSUBSCRIBE x", 1), ("a", "SUNSUBSCRIBE", 1),
    ("a", "SUBSCRIBE c1 c2 c1", 3), ("a", "PSUBSCRIBE c*", 1), ("a", "SSUBSCRIBE s1", 1),
    ("b", "PUBLISH c1 hello", 1), ("a", None, 2), ("b", "PUBLISH unheard x", 1), ("b", "SPUBLISH s1 m", 1), ("a", None, 1),
    ("b", "SPUBLISH c1 m", 1),
    ("b", "PUBSUB CHANNELS c1", 1), ("b", "PUBSUB CHANNELS z*", 1), ("b", "PUBSUB NUMSUB c1 c2 z", 1), ("b", "PUBSUB NUMPAT", 1),
    ("b", "PUBSUB SHARDCHANNELS", 1), ("b", "PUBSUB SHARDNUMSUB s1 z", 1), ("b", "PUBSUB NUMSUB", 1), ("b", "PUBSUB NOSUCH", 1),
    ("a", "PING", 1), ("a", "PING x", 1), ("a", "UNSUBSCRIBE c1", 1), ("a", "UNSUBSCRIBE", 1), ("a", "PUNSUBSCRIBE", 1),
    ("a", "SUNSUBSCRIBE s1", 1), ("a", "GET k", 1), ("a", "SUBSCRIBE", 1), ("a", "PUBLISH x", 1),
    ("a", "SUBSCRIBE c", 1), ("a", "RESET", 1), ("b", "PUBLISH c x", 1), ("b", "PUBSUB CHANNELS", 1),
]  # fmt: skip
SUBSCRIPTIONS_IN_A_TRANSACTION = [
    ("a", "SUBSCRIBE c", 1), ("b", "MULTI", 1), ("b", "PUBLISH c 1", 1), ("b", "PUBLISH c 2", 1), ("b", "EXEC", 1), ("a", None, 2),
    ("b", "MULTI", 1), ("b", "SSUBSCRIBE s", 1), ("b", "EXEC", 1),
    # A client that subscribes later in the same transaction gets no message.
    ("d", "MULTI", 1), ("d", "PUBLISH e 1", 1), ("d", "PSUBSCRIBE e*", 1), ("d", "EXEC", 1), ("b", "PUBLISH e 2", 1), ("d", None, 1),
    ("c", "MULTI", 1), ("c", "SUBSCRIBE d", 1), ("c", "EXEC", 1), ("b", "PUBLISH d 3", 1), ("c", None, 1),
]  # fmt: skip
NOTIFY = [
    ("c", "CONFIG SET notify-keyspace-events KEA", 1), ("a", "PSUBSCRIBE __key*__:*", 1),
    ("b", "SET k 1", 1), ("a", None, 2), ("b", "SET k 2 EX 100", 1), ("a", None, 4), ("b", "INCR k", 1), ("a", None, 2),
    ("b", "APPEND k x", 1), ("a", None, 2), ("b", "EXPIRE k 100", 1), ("a", None, 2), ("b", "PERSIST k", 1), ("a", None, 2),
    ("b", "RENAME k l", 1), ("a", None, 4), ("b", "COPY l m", 1), ("a", None, 2), ("b", "MOVE m 3", 1), ("a", None, 4),
    ("b", "GETEX l EX 50", 1), ("a", None, 2), ("b", "GETEX l PERSIST", 1), ("a", None, 2), ("b", "MSET x 1 y 2", 1), ("a", None, 4),
    ("b", "SETBIT z 1 1", 1), ("a", None, 2), ("b", "PFADD h a", 1), ("a", None, 2), ("b", "DEL x y", 1), ("a", None, 4),
    ("b", "MULTI", 1), ("b", "SET x 1", 1), ("b", "DEL x", 1), ("b", "EXEC", 1), ("a", None, 4), ("b", "GETDEL l", 1), ("a", None, 2),
    ("b", "SETEX x 9 1", 1), ("a", None, 4), ("b", "EXPIRE x -1", 1), ("a", None, 2), ("b", "SETRANGE x 1 a", 1), ("a", None, 2),
    ("b", "BITOP NOT n z", 1), ("a", None, 2), ("b", "INCRBYFLOAT f 1.5", 1), ("a", None, 2),
    ("b", "BITFIELD f SET u8 0 9 SET u8 0 49", 1), ("a", None, 2),
    ("c", "CONFIG SET notify-keyspace-events ", 1), ("b", "SET k 1", 1), ("b", "PUBLISH __keyx__:end 1", 1), ("a", None, 1),
]  # fmt: skip
NOTIFY_OF_NEW_AND_MISSING = [
    ("c", "CONFIG SET notify-keyspace-events Emn", 1), ("a", "PSUBSCRIBE __key*__:*", 1), ("b", "GET none", 1), ("a", None, 1),
    ("b", "PFMERGE h g", 1), ("a", None, 3), ("b", "BITFIELD f GET u8 0 SET u8 0 1", 1), ("a", None, 1),
    ("b", "BITFIELD none GET u8 0", 1), ("a", None, 1), ("b", "MSET x 1 x 2", 1), ("a", None, 1),
    ("b", "MULTI", 1), ("b", "GETEX none PX 1 KEEPTTL", 1), ("b", "GET gone", 1), ("b", "EXEC", 1), ("a", None, 1),
    ("c", "CONFIG SET notify-keyspace-events ", 1), ("b", "PUBLISH __keyx__:end 1", 1), ("a", None, 1),
]  # fmt: skip
TRACKING = [
    ("a", "CLIENT TRACKINGINFO", 1), ("a", "CLIENT GETREDIR", 1), ("a", "CLIENT CACHING yes", 1), ("a", "CLIENT TRACKING on", 1),
    ("a", "CLIENT TRACKINGINFO", 1), ("a", "CLIENT GETREDIR", 1), ("a", "GET k", 1), ("b", "SET k 1", 1), ("a", None, 1),
    ("b", "SET k 2", 1), ("a", "GET k", 1), ("a", "SET k 3", 1), ("a", None, 1), ("a", "MGET k l", 1), ("b", "DEL k", 1), ("a", None, 1),
    ("b", "SET l 2", 1), ("a", None, 1), ("a", "GET l", 1), ("b", "MULTI", 1), ("b", "SET l 5", 1), ("b", "EXEC", 1), ("a", None, 1),
    ("a", "GET l", 1), ("b", "FLUSHALL", 1), ("a", None, 1),
    ("a", "CLIENT TRACKING on BCAST", 1), ("a", "CLIENT TRACKING on PREFIX x", 1), ("a", "CLIENT TRACKING off", 1),
    ("a", "CLIENT TRACKING on OPTIN OPTOUT", 1), ("a", "CLIENT TRACKING on OPTIN BCAST", 1), ("a", "CLIENT TRACKING on OPTIN", 1),
    ("a", "CLIENT CACHING no", 1), ("a", "CLIENT TRACKING on OPTOUT", 1), ("a", "GET k", 1), ("b", "SET k 1", 1), ("a", "PING", 1),
    ("a", "CLIENT CACHING yes", 1), ("a", "CLIENT TRACKINGINFO", 1), ("a", "GET k", 1), ("b", "SET k 2", 1), ("a", None, 1),
    ("a", "CLIENT TRACKING off", 1), ("a", "CLIENT TRACKING on BCAST PREFIX u: PREFIX u:1", 1),
    ("a", "CLIENT TRACKING on BCAST PREFIX u: PREFIX p:", 1), ("a", "CLIENT TRACKINGINFO", 1), ("b", "SET u:1 1", 1), ("a", None, 1),
    ("b", "SET q:1 1", 1), ("b", "MSET p:1 1 z 2", 1), ("a", None, 1), ("a", "CLIENT TRACKING on BCAST PREFIX u", 1),
    ("b", "MULTI", 1), ("b", "SET u:2 1", 1), ("b", "SET p:1 1", 1), ("b", "SET u:1 1", 1), ("b", "EXEC", 1), ("a", None, 2),
    ("b", "MSET u:2 1 p:1 1 u:1 1", 1), ("a", None, 2),
    ("a", "CLIENT TRACKING off", 1), ("a", "CLIENT TRACKING on NOLOOP", 1), ("a", "GET k", 1), ("a", "SET k 1", 1), ("a", "PING", 1),
    ("a", "CLIENT TRACKING maybe", 1), ("a", "CLIENT TRACKING on bogus", 1), ("a", "RESET", 1), ("a", "CLIENT TRACKINGINFO", 1),
]  # fmt: skip
ASKING = [
    ("a", "CLIENT PAUSE 0", 1), ("a", "CLIENT PAUSE -1", 1), ("a", "CLIENT PAUSE x", 1), ("a", "CLIENT PAUSE 1 maybe", 1),
    ("a", "CLIENT PAUSE 100000 WRITE", 1), ("b", "GET k", 1), ("b", "SET k 1", 0), ("a", "CLIENT UNPAUSE", 1), ("b", None, 1),
    ("a", "CLIENT UNBLOCK 99999", 1), ("a", "CLIENT UNBLOCK x", 1), ("a", "CLIENT UNBLOCK 1 maybe", 1),
    ("a", "SLOWLOG RESET", 1), ("a", "SLOWLOG LEN", 1), ("a", "SLOWLOG GET", 1), ("a", "SLOWLOG GET -2", 1), ("a", "SLOWLOG GET x", 1),
    ("a", "LATENCY LATEST", 1), ("a", "LATENCY HISTORY x", 1), ("a", "LATENCY RESET", 1), ("a", "LATENCY HISTOGRAM nosuch", 1),
    ("a", "MEMORY USAGE none", 1), ("a", "MEMORY USAGE none SAMPLES x", 1), ("a", "MEMORY PURGE", 1), ("a", "MEMORY NOSUCH", 1),
    ("a", "CONFIG SET notify-keyspace-events Q", 1), ("a", "CONFIG GET notify-keyspace-events", 1),
]  # fmt: skip
RESTRICTED = [
    ("a", "SUBSCRIBE c", 1), ("a", "GET k", 1), ("a", "CLIENT ID", 1), ("a", "NOSUCH", 1), ("a", "MULTI", 1), ("a", "HELLO 3", 1),
    ("a", "QUIT", 1),
]  # fmt: skip
BOTH, RESP2, RESP3 = (2, 3), (2,), (3,)
SCRIPTS = {
    "transaction": (TRANSACTION, BOTH),
    "subscriptions": (SUBSCRIPTIONS, BOTH),
    "subscriptions in a transaction": (SUBSCRIPTIONS_IN_A_TRANSACTION, BOTH),
    "keyspace notifications": (NOTIFY, BOTH),
    "notifications of new and of missing keys": (NOTIFY_OF_NEW_AND_MISSING, BOTH),
    "pauses and diagnostics": (ASKING, BOTH),
    "tracking": (TRACKING, RESP3),
    "restricted": (RESTRICTED, RESP2),
}


@pytest.mark.parametrize("name, protocol", [(name, protocol) for name, (_, protocols) in SCRIPTS.items() for protocol in protocols])
def test_session_of_several_connections_gets_the_same_bytes_as_from_redis(name, protocol, redis_port, two_loops):  # noqa: F811
    script, _ = SCRIPTS[name]
    assert play(two_loops.port, script, protocol) == play(redis_port, script, protocol)


def test_subscribers_get_messages_of_each_publisher_in_order(two_loops):
    """There are eight subscribers on two loops, and two publishers that send as fast as they can."""
    messages = 2000
    subscribers = [two_loops.client() for _ in range(8)]
    listeners = []
    for client in subscribers:
        listener = client.pubsub(ignore_subscribe_messages=True)
        listener.subscribe("order")
        listener.psubscribe("ord*")
        for _ in range(2):
            listener.get_message(timeout=60)  # these are the confirmations
        listeners.append(listener)
    admin = two_loops.client()
    wait_until(lambda: admin.pubsub_numsub("order") == [(b"order", 8)] and admin.pubsub_numpat() == 1, 10, "all have subscribed")

    def publish(who):
        client = two_loops.client()
        with client.pipeline(transaction=False) as pipe:
            for i in range(messages):
                pipe.publish("order", f"{who}:{i}")
            return pipe.execute()

    with ThreadPoolExecutor() as threads:
        published = threads.map(publish, "ab")
        for listener in listeners:
            seen = {}
            while sum(map(len, seen.values())) < 4 * messages:
                message = listener.get_message(timeout=60)
                if message is None:
                    continue
                who, number = message["data"].decode().split(":")
                seen.setdefault((who, message["type"]), []).append(int(number))
            assert seen == {(who, kind): list(range(messages)) for who in "ab" for kind in ("message", "pmessage")}
        assert list(published) == [[16] * messages] * 2


def test_subscriber_that_does_not_read_is_closed_and_other_clients_are_served(two_loops):
    slow = RawLink(two_loops.port)
    slow.send("SUBSCRIBE flood")
    slow.value()
    client = two_loops.client()
    wait_until(lambda: client.pubsub_numsub("flood") == [(b"flood", 1)], 10, "the slow client has subscribed")
    before = two_loops.resident_bytes()
    text = b"x" * 100_000
    for _ in range(2000):  # 200 MB in all
        client.publish("flood", text)
    wait_until(lambda: client.pubsub_numsub("flood") == [(b"flood", 0)], 30, "the server has closed the slow client")
    assert two_loops.resident_bytes() - before < 100 << 20
    assert client.ping()
    slow.close()


def test_invalidations_reach_a_redirect_connection_on_another_event_loop(two_loops):
    """In RESP2 the tracking and the listening connection may be on different loops."""
    writer = two_loops.client()
    for round_number in range(6):
        listener, reader = RawLink(two_loops.port), RawLink(two_loops.port)
        number = int(listener.call("CLIENT", "ID").split()[1])
        listener.send("SUBSCRIBE __redis__:invalidate")
        listener.value()
        assert reader.call("CLIENT", "TRACKING", "on", "REDIRECT", str(number)) == "OK"
        assert reader.call("CLIENT", "GETREDIR") == f"(integer) {number}"
        reader.call("GET", "redirected")
        writer.set("redirected", round_number)
        assert listener.value() == b"*3\r\n$7\r\nmessage\r\n$20\r\n__redis__:invalidate\r\n*1\r\n$10\r\nredirected\r\n"
        reader.close()
        listener.close()


def test_tracking_client_gets_tracking_redir_broken_once_its_redirect_client_has_quit(two_loops):
    """QUIT is enough; the client may keep its socket open."""
    for round_number in range(4):  # readers and redirects are on either loop
        writer, listener, reader = two_loops.client(), RawLink(two_loops.port), RawLink(two_loops.port)
        number = int(listener.call("CLIENT", "ID").split()[1])
        reader.send("HELLO 3")
        reader.value()
        assert reader.call("CLIENT", "TRACKING", "on", "REDIRECT", str(number)) == "OK"
        reader.call("GET", "redirected")
        assert listener.call("QUIT") == "OK"
        writer.set("redirected", round_number)
        assert reader.value() == b">2\r\n$21\r\ntracking-redir-broken\r\n:%d\r\n" % number
        reader.send("CLIENT TRACKINGINFO")
        assert b"broken_redirect" in reader.value()
        reader.close()
        listener.close()


def test_transaction_with_swapdb_and_flushdb_is_replayed_in_order_after_kill_9(fresh):
    fresh.start()
    client = fresh.client()
    with client.pipeline() as pipe:
        for i in range(3):
            pipe.select(7 + i)
            pipe.set("first", i)
            pipe.execute_command("FLUSHDB")
            pipe.set("second", i)
            pipe.execute_command("SWAPDB", 7 + i, 8 + i)
        pipe.execute()
    fresh.kill()
    fresh.start()
    values = []
    for database in range(7, 11):
        link = RawLink(fresh.port)
        link.call("SELECT", str(database))
        values.append((link.call("GET", "first"), link.call("GET", "second")))
        link.close()
    # Each swap moved the keys to the next database, where they were flushed; only the last keys are left.
    assert values == [("(nil)", "(nil)")] * 3 + [("(nil)", '"2"')]


def test_monitors_see_commands_of_every_event_loop(redis_port, two_loops):  # noqa: F811
    def watch(port):
        watcher, other = RawLink(port), RawLink(port)
        watcher.send("MONITOR")
        seen = [watcher.value()]
        for command in ("SET k 1", "GET k\n\x01", "CONFIG GET port", "SELECT 3", "PING"):
            other.send(command)
            other.value()
        for _ in range(4):
            line = watcher.value()
            seen.append(line[line.index(b"[") + 1 : line.index(b" ", line.index(b"["))] + line[line.index(b"]") :])
        for link in (watcher, other):
            link.close()
        return seen

    for _ in range(4):
        assert watch(two_loops.port) == watch(redis_port)
