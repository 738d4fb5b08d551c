"""Tests of redis-py and its asyncio client in common use: pipelines, transactions, scans, pub/sub, RESP3, invalidations."""

import asyncio

import pytest
import redis
import redis.asyncio

from support.server import wait_until
from support.sockets import receive_until


def run(server, body, **options):
    """Runs `body(client)` with an asyncio client."""

    async def main():
        client = redis.asyncio.Redis(host="127.0.0.1", port=server.port, **options)
        try:
            return await asyncio.wait_for(body(client), 120)
        finally:
            await client.close()

    return asyncio.run(main())


# Debian's redis-py may be older than RESP3 support; other tests use RESP3 over plain sockets.
PROTOCOLS = [{}, {"protocol": 3}] if "protocol" in redis.Connection.__init__.__code__.co_varnames else [{}]


@pytest.fixture(params=PROTOCOLS, ids=["resp3" if options else "resp2" for options in PROTOCOLS])
def options(request):
    return request.param


def test_redis_py_commands_return_replies_of_the_right_types(server, options):
    async def body(client):
        await client.flushall()
        assert await client.set("k", "v", ex=100) is True
        assert await client.get("k") == b"v"
        assert 90 < await client.ttl("k") <= 100
        assert await client.set("k", "w", nx=True) is None
        assert await client.getex("k", persist=True) == b"v"
        assert await client.incrbyfloat("f", 1.5) == 1.5
        assert await client.bitfield("b").incrby("u8", 0, 255).overflow("sat").incrby("u8", 0, 9).execute() == [255, 255]
        assert await client.pfadd("h", "a", "b") == 1
        assert await client.mget("k", "none") == [b"v", None]
        with pytest.raises(redis.ResponseError, match="value is not an integer"):
            await client.incr("k")

    run(server, body, **options)


def test_redis_py_gets_every_reply_of_long_pipelines_and_concurrent_gets(server, options):
    async def body(client):
        async with client.pipeline(transaction=False) as pipe:
            for i in range(10_000):
                pipe.set(f"p{i}", i)
            assert await pipe.execute() == [True] * 10_000
        values = await asyncio.gather(*[client.get(f"p{i}") for i in range(200)])
        assert values == [b"%d" % i for i in range(200)]

    run(server, body, **options)


def test_concurrent_watch_loops_lose_no_increment(server, options):
    async def body(client):
        await client.set("watched", 0)

        async def increment():
            async with client.pipeline() as pipe:
                while True:
                    try:
                        await pipe.watch("watched")
                        n = int(await pipe.get("watched"))
                        pipe.multi()
                        pipe.set("watched", n + 1)
                        return await pipe.execute()
                    except redis.WatchError:
                        continue

        await asyncio.gather(*[increment() for _ in range(50)])
        assert await client.get("watched") == b"50"
        # Another client certainly aborts this transaction.
        async with client.pipeline() as pipe:
            await pipe.watch("watched")
            await client.set("watched", 7)
            pipe.multi()
            pipe.set("watched", 8)
            with pytest.raises(redis.WatchError):
                await pipe.execute()

    run(server, body, **options)


def test_scan_iter_with_a_pattern_returns_every_matching_key(server, options):
    async def body(client):
        await client.flushall()
        await client.mset({f"scan:{i}": i for i in range(3000)} | {"other": 1})
        assert len({key async for key in client.scan_iter(match="scan:*", count=200)}) == 3000

    run(server, body, **options)


def test_pattern_subscriber_receives_the_message(server, options):
    async def body(client):
        async with client.pubsub() as listener:
            await listener.psubscribe("news.*")
            assert (await listener.get_message(timeout=20))["type"] == "psubscribe"
            assert await client.publish("news.python", "hello") == 1
            message = await listener.get_message(timeout=20)
            assert (message["pattern"], message["channel"], message["data"]) == (b"news.*", b"news.python", b"hello")

    run(server, body, **options)


def test_invalidations_reach_the_redirect_connection(server):
    async def body(client):
        listener = client.pubsub()
        await listener.subscribe("__redis__:invalidate")
        await listener.get_message(timeout=20)
        await listener.execute_command("PING")
        clients = await client.client_list(_type="pubsub")
        reader = redis.asyncio.Redis(host="127.0.0.1", port=server.port, single_connection_client=True)
        await reader.execute_command("CLIENT", "TRACKING", "on", "REDIRECT", clients[-1]["id"])
        await client.set("cached", 1)
        await reader.get("cached")
        await client.set("cached", 2)
        message = None
        while message is None or message["type"] != "message":
            message = await listener.get_message(timeout=20)
        assert message["data"] == [b"cached"]
        await reader.close()
        await listener.close()

    run(server, body)


def expired_up_to(last, listener, meanwhile=lambda: None):
    """Returns the keys whose expired event arrives before that of `last`."""
    keys = []

    def heard_last():
        meanwhile()
        message = listener.get_message(timeout=0.05)
        if message is not None and message["type"] == "pmessage":
            keys.append(message["data"])
        return last in keys

    wait_until(heard_last, 60, f"{last} has expired", interval=0)
    return sorted(keys[:-1])


def test_expired_keys_get_one_event_and_persisted_or_deleted_keys_none(server):
    """This holds whether a client reads the key at its expiry or not."""
    client = server.client()
    client.config_set("notify-keyspace-events", "Ex")
    listener = client.pubsub(ignore_subscribe_messages=True)
    listener.psubscribe("__keyevent@*__:expired")
    try:
        client.set("gone:soon", 1, px=300)
        client.set("gone:met", 1, px=300)
        client.set("kept", 1, px=3000)
        assert client.persist("kept")
        client.set("deleted", 1, px=3000)
        assert client.delete("deleted")
        client.set("last", 1, px=4000)
        assert expired_up_to(b"last", listener, meanwhile=lambda: client.get("gone:met")) == [b"gone:met", b"gone:soon"]
    finally:
        client.config_set("notify-keyspace-events", "")
        listener.close()


def test_keys_written_before_a_restart_get_expired_events(fresh):
    """The sweep over page expiries finds keys in tables and in the log of an earlier run. After a kill, engine time may be up to
    ten seconds ahead, so keys that expire within these ten seconds get no event."""
    fresh.start()
    client = fresh.client()
    client.mset({f"filler:{i}": "x" * 100 for i in range(3000)})
    client.set("in:table", 1, px=15_000)
    client.set("in:table:overwritten", 1, px=15_000)
    client.execute_command("TREE.FLUSH")
    client.set("in:table:overwritten", 2)
    client.set("in:memtable", 1, px=15_000)
    client.set("last", 1, px=16_000)
    fresh.kill()
    fresh.set("server.notify_keyspace_events=KEx").start()
    with fresh.client().pubsub(ignore_subscribe_messages=True) as listener:
        listener.psubscribe("__keyevent@0__:expired")
        assert expired_up_to(b"last", listener) == [b"in:memtable", b"in:table"]


def test_expiry_of_a_tracked_key_sends_an_invalidation(server):
    """Uses RESP3 over a plain socket."""
    with server.connect() as link:
        link.settimeout(20)
        link.sendall(b"HELLO 3\r\nCLIENT TRACKING ON\r\nSET cached:short 1 PX 700\r\nGET cached:short\r\n")
        receive_until(link, b">2\r\n$10\r\ninvalidate\r\n*1\r\n$12\r\ncached:short\r\n")
