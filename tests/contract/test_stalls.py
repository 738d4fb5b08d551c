"""Tests that long commands are atomic and do not delay the PINGs of other clients.

The bound is generous, for busy machines, and the best of several tries counts: other processes delay a PING sometimes, but a
command that keeps the loop busy delays it each time. Without offload threads the worst of these delays are seconds.
"""

import contextlib
import selectors
import socket
import threading
import time

import pytest

from support.server import wait_until
from support.sockets import encode, receive_all, receive_exactly, receive_until

BOUND = 0.5  # seconds
TRIES = 5


@pytest.fixture
def big(fresh):
    """Gives a server with room for large values and one event loop, which PING and the long command share."""
    fresh.set("storage.memory_budget=4GiB", "server.threads=1").start()
    return fresh


def longest_beside(server, work, commands):
    """Returns the longest time of each command while `work` ran."""
    longest, stop = [0.0] * len(commands), threading.Event()

    def repeat(i, client):
        while not stop.is_set():
            start = time.monotonic()
            client.execute_command(*commands[i])
            longest[i] = max(longest[i], time.monotonic() - start)
            time.sleep(0.002)

    clients = [server.client() for _ in commands]
    for client in clients:
        client.ping()
    threads = [threading.Thread(target=repeat, args=(i, client)) for i, client in enumerate(clients)]
    for thread in threads:
        thread.start()
    try:
        work()
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    return longest


def best_of_tries(measure):
    """Returns the least result of several tries, in seconds. A try well within the bound is the last one."""
    best = float("inf")
    for _ in range(TRIES):
        best = min(best, measure())
        if best < BOUND / 2:
            break
    return best


def worst_ping(server, work):
    """Returns the longest PING while `work` ran: the best of several tries."""
    return best_of_tries(lambda: longest_beside(server, work, [("PING",)])[0])


def worst_wait_for_the_log(server, work):
    """Returns the longest time of a small SET, or of a GET of its key, minus the longest PING: the best of several tries."""

    def measure():
        ping, *small = longest_beside(server, work, [("PING",), ("SET", "small", "1"), ("GET", "small")])
        return max(small) - ping

    return best_of_tries(measure)


def send(server, data):
    """Sends prepared bytes, so that Python does not delay the measuring thread."""
    with server.connect() as s:
        s.sendall(data + encode("QUIT"))
        received = receive_all(s)
    assert received.endswith(b"+OK\r\n") and b"-" not in received[-1000:], received[-1000:]
    return received


def pairs(count):
    return [word for i in range(count) for word in (f"key:{i}", f"value:{i}")]


def test_setbit_and_setrange_at_an_offset_of_256_mb_delay_no_ping(big):
    client = big.client()
    assert worst_ping(big, lambda: (client.setbit("far", 2**31 - 1, 1), client.delete("far"))) < BOUND
    client.setbit("far", 2**31 - 1, 1)
    assert worst_ping(big, lambda: client.setrange("far", 2**28 - 10, "x")) < BOUND
    assert client.strlen("far") == 2**28


def test_bitop_of_many_large_values_alone_or_in_a_transaction_delays_no_ping(big):
    client = big.client()
    for i in range(10):
        client.set(f"source:{i}", bytes([i]) * (16 << 20))
    sources = [f"source:{i % 10}" for i in range(300)]
    assert worst_ping(big, lambda: client.bitop("XOR", "target", *sources)) < BOUND

    def transaction():
        with client.pipeline(transaction=True) as queue:
            queue.bitop("XOR", "target", *sources).bitop("OR", "other", *sources).set("done", "yes")
            assert queue.execute() == [16 << 20, 16 << 20, True]

    assert worst_ping(big, transaction) < BOUND
    assert client.getrange("other", 0, 0) == b"\x0f"

    def transaction_in_two_databases():
        queue = ["MULTI", "SELECT 1", "SET k v", "SELECT 0", "PUBLISH channel message", "EXEC"]
        queue.insert(4, "BITOP XOR target " + " ".join(sources))
        send(big, b"".join(encode(*command.split()) for command in queue))

    assert worst_ping(big, transaction_in_two_databases) < BOUND
    assert big.client(db=1).get("k") == b"v"


def test_transaction_of_200000_commands_delays_no_ping(big):
    queue = encode("MULTI") + b"".join(encode("SET", f"key:{i}", b"v" * 1000) for i in range(200_000)) + encode("EXEC")
    received = []
    assert worst_ping(big, lambda: received.append(send(big, queue))) < BOUND
    for reply in received:
        assert reply.count(b"+QUEUED\r\n") == 200_000 and reply.count(b"+OK\r\n") == 200_002
    assert big.client().dbsize() == 200_000


@pytest.mark.parametrize("fsync", ["always", "everysec"])
def test_small_write_does_not_wait_until_the_log_has_large_writes_of_others(big, fsync):
    big.stop()
    big.set(f"storage.fsync={fsync}").start()
    queue = encode("MULTI") + b"".join(encode("SET", f"key:{i}", b"v" * 1000) for i in range(200_000)) + encode("EXEC")
    value = encode("SET", "large", bytes(range(256)) * (200 << 12))
    for data in (queue, value):
        assert worst_wait_for_the_log(big, lambda data=data: send(big, data)) < BOUND
    big.kill()
    big.start()
    client = big.client()
    assert client.dbsize() == 200_002
    assert client.strlen("large") == 200 << 20
    assert client.getrange("large", 1000, 1003) == bytes(range(232, 236))


def test_commands_of_half_a_million_keys_delay_no_ping(big):
    largest = 524_287  # 1,048,575 arguments
    commands = {
        "MSET": encode("MSET", *pairs(largest)),
        "MGET": encode("MGET", *(f"key:{i}" for i in range(largest))),
        "EXISTS": encode("EXISTS", *(f"key:{i}" for i in range(largest))),
        "UNLINK": encode("UNLINK", *(f"key:{i}" for i in range(largest))),
    }
    for name in ("MSET", "MGET", "EXISTS", "UNLINK"):
        assert worst_ping(big, lambda name=name: send(big, commands[name])) < BOUND, name
    assert send(big, commands["MSET"]) == b"+OK\r\n" * 2
    assert send(big, commands["UNLINK"]) == b":524287\r\n+OK\r\n"
    assert big.client().dbsize() == 0


def test_commands_on_400_mb_values_delay_no_ping(big):
    value = bytes(400 << 20)
    commands = {
        "SET": encode("SET", "large", value),
        "APPEND": encode("APPEND", "large", "x"),
        "EXPIRE": encode("EXPIRE", "large", "1000"),
        "COPY": encode("COPY", "large", "other", "REPLACE"),
        "GET": encode("GET", "other"),
        "DEL": encode("DEL", "other"),
    }
    for name, command in commands.items():
        assert worst_ping(big, lambda command=command: send(big, command)) < BOUND, name
    assert big.client().strlen("large") > len(value)


def test_watch_and_subscribe_of_a_million_names_delay_no_ping(big):
    names = [f"name:{i}" for i in range(1_000_000)]
    for name in ("WATCH", "SUBSCRIBE"):
        command = encode(name, *names)
        assert worst_ping(big, lambda command=command: send(big, command)) < BOUND, name


def test_pfcount_and_pfmerge_of_20000_sketches_delay_no_ping(big):
    client = big.client()
    for i in range(200):
        client.pfadd(f"sketch:{i}", *range(i * 100, i * 100 + 3000))
    names = [f"sketch:{i % 200}" for i in range(20_000)]
    count = encode("PFCOUNT", *names)
    assert worst_ping(big, lambda: send(big, count)) < BOUND
    merge = encode("PFMERGE", "all", *names)
    assert worst_ping(big, lambda: send(big, merge)) < BOUND
    assert abs(client.pfcount("all") - 22_900) < 1_000


def transaction_in(client, *commands):
    """Runs the commands in a transaction of a client."""
    with client.pipeline(transaction=True) as queue:
        for command in commands:
            queue.execute_command(*command)
        return queue.execute()


def transaction_of(*commands):
    return b"".join(encode(*command) for command in [("MULTI",), *commands, ("EXEC",)])


def test_transactions_with_200000_copies_or_with_keys_and_scan_delay_no_ping(big):
    send(big, encode("MSET", *pairs(200_000)))
    copies = transaction_of(*(("COPY", f"key:{i}", f"copy:{i}") for i in range(200_000)), ("MOVE", "key:0", "1"))
    assert worst_ping(big, lambda: send(big, copies)) < BOUND
    walks = transaction_of(*[("DBSIZE",)] * 30, ("KEYS", "none:*"), ("SCAN", "0", "COUNT", "100000"), ("SET", "walked", "1"))
    assert worst_ping(big, lambda: send(big, walks)) < BOUND
    assert big.client().exists("copy:0", "copy:199999", "walked") == 3
    assert big.client(db=1).get("key:0") == b"value:0"


def test_pipelines_of_40000_short_commands_delay_no_ping(big):
    client = big.client()
    client.set("mebibyte", bytes(1 << 20))
    counts = encode("BITCOUNT", "mebibyte") * 40_000
    assert worst_ping(big, lambda: send(big, counts)) < BOUND / 2
    parts = encode("SETRANGE", "mebibyte", 900_000, "x") * 1_000
    assert worst_ping(big, lambda: send(big, parts)) < BOUND


def test_client_tracking_of_20000_prefixes_delays_no_ping(big):
    prefixes = [word for i in range(20_000) for word in ("PREFIX", f"prefix:{i:06}")]
    assert worst_ping(big, lambda: send(big, encode("CLIENT", "TRACKING", "ON", "BCAST", *prefixes))) < BOUND
    with big.connect() as s:
        s.sendall(encode("CLIENT", "TRACKING", "ON", "BCAST", *prefixes, "PREFIX", "prefix:00001") + encode("QUIT"))
        assert receive_all(s) == b"-ERR Prefixes for a single client must not overlap.\r\n+OK\r\n"


def test_writes_while_other_clients_track_100000_prefixes_delay_no_ping(big):
    with contextlib.ExitStack() as stack:
        for client in range(5):
            link = stack.enter_context(big.connect())
            prefixes = [word for i in range(20_000) for word in ("PREFIX", f"prefix:{client}:{i:06}")]
            link.sendall(encode("HELLO", "3") + encode("CLIENT", "TRACKING", "ON", "BCAST", *prefixes))
            receive_until(link, b"+OK\r\n")
        assert worst_ping(big, lambda: send(big, encode("MSET", *pairs(500)) * 10)) < BOUND / 2
        link = stack.enter_context(big.connect())
        link.sendall(encode("CLIENT", "TRACKING", "ON", "BCAST", *[word for i in range(50_000) for word in ("PREFIX", f"{i:05}")]))
        assert link.recv(100) == b"-ERR A client can have at most 32768 prefixes\r\n"


def test_long_keys_broadcast_to_1000_nested_prefixes_delay_no_ping_and_are_stored_once(big):
    """Each key begins with the prefixes of 1,000 clients, so 1,000 invalidations contain the key."""
    with contextlib.ExitStack() as stack:
        links = [stack.enter_context(big.connect()) for _ in range(1000)]
        for i, link in enumerate(links):
            link.sendall(encode("HELLO", "3") + encode("CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", "a" * (i + 1)))
            receive_until(link, b"+OK\r\n")
        before = big.resident_bytes()
        keys = [b"a" * 60_000 + b"%d" % i for i in range(10)]
        request = encode("MSET", *[word for key in keys for word in (key, "v")])
        assert worst_ping(big, lambda: send(big, request)) < BOUND / 2
    assert big.peak_resident_bytes() < before + (256 << 20)


def test_transaction_of_100000_keys_with_flushdb_and_subscribers_delays_no_ping(big):
    client = big.client()
    client.config_set("notify-keyspace-events", "KEA")
    words = [word for i in range(100_000) for word in (f"key:{i}", "v")]
    queue = transaction_of(("FLUSHDB",), ("MSET", *words), ("SWAPDB", "0", "1"))
    with listeners(big, 5, ("PSUBSCRIBE", "*")):
        assert worst_ping(big, lambda: send(big, queue)) < BOUND / 2
    assert big.client(db=1).dbsize() == 100_000


def test_message_of_60_kb_to_3000_subscribers_delays_no_ping(big):
    client = big.client()
    with contextlib.ExitStack() as stack:
        for _ in range(3000):
            stack.enter_context(big.connect()).sendall(encode("SUBSCRIBE", "channel"))
        wait_until(lambda: client.pubsub_numsub("channel")[0][1] == 3000, 60, "all have subscribed")
        message = "m" * 60_000
        assert worst_ping(big, lambda: client.publish("channel", message)) < BOUND / 2


def test_messages_to_5000_subscribers_in_a_transaction_delay_no_ping_and_arrive(big):
    with listeners(big, 5000, ("SUBSCRIBE", "channel")) as read:
        before, message = read[0], len(encode("message", "channel", "text"))
        queue = transaction_of(*[("PUBLISH", "channel", "text")] * 200)
        assert worst_ping(big, lambda: send(big, queue)) < BOUND / 2
        wait_until(lambda: read[0] >= before + 200 * 5000 * message, 60, "all messages have arrived")
        refused = ask(big, transaction_of(("CLIENT", "ID"), *[("PUBLISH", "channel", "text")] * 100))
        assert b"-EXECABORT Transaction discarded because of: a transaction with a command that cannot leave" in refused
        assert b":5000\r\n" in ask(big, transaction_of(("CLIENT", "ID"), ("PUBLISH", "channel", "text")))


@pytest.mark.parametrize("request_words", [("SUBSCRIBE", "channel"), ("CLIENT", "TRACKING", "ON", "BCAST")])
def test_messages_that_3000_slow_subscribers_share_are_charged_once(fresh, request_words):
    fresh.set("storage.memory_budget=512MiB").start()
    client = fresh.client()
    with contextlib.ExitStack() as stack:
        for _ in range(3000):
            link = stack.enter_context(fresh.connect())
            link.sendall(encode("HELLO", "3") + encode(*request_words))
            receive_until(link, b"channel\r\n:1\r\n" if request_words[0] == "SUBSCRIBE" else b"+OK\r\n")
        before = fresh.resident_bytes()
        for part in range(3):
            assert client.mset({f"key:{part}:{i}": "v" for i in range(20_000)})
            send(fresh, encode("PUBLISH", "channel", "m" * 60_000) * 5)
        assert client.info("clients")["connected_clients"] == 3001
        assert client.info("memory")["used_memory"] < 512 << 20
    assert fresh.peak_resident_bytes() < before + (128 << 20)


def test_channel_of_40_kb_compared_with_20000_patterns_delays_no_ping(big):
    patterns = [f"*a*b*{i}*c*" for i in range(20_000)]
    client = big.client()
    with big.connect() as link, big.connect() as listener:
        link.sendall(encode("PSUBSCRIBE", *patterns))
        listener.sendall(encode("PSUBSCRIBE", "*abab"))
        wait_until(lambda: client.pubsub_numpat() == 20_001, 60, "all have subscribed")
        receive_until(listener, b":1\r\n")
        channel = "ab" * 20_000
        assert worst_ping(big, lambda: client.publish(channel, "one")) < BOUND / 2
        assert b"$3\r\none\r\n" in receive_until(listener, b"one\r\n")
        assert client.pubsub_channels(channel) == []


def test_key_of_60_kb_compared_with_20000_patterns_delays_no_ping(big):
    """Each write, miss and expiry of the key sends two messages. The channel of the first message has the name of the key."""
    client = big.client()
    client.config_set("notify-keyspace-events", "KEAm")
    key, event = "ab" * 30_000, b"__keyevent@0__:%s"
    requests = {
        b"set": lambda: client.set(key, "v"),
        b"del": lambda: transaction_in(client, ("SET", key, "v"), ("DEL", key)),
        b"keymiss": lambda: client.get(key),
        b"expire": lambda: transaction_in(client, ("SET", key, "v"), ("PEXPIRE", key, 1)),
        b"expired": lambda: client.set(key, "v", px=1),
    }
    with big.connect() as link, listeners(big, 1, *[("SUBSCRIBE", event % name) for name in requests]) as read:
        link.sendall(encode("PSUBSCRIBE", *[f"*a*b*{i}*c*" for i in range(20_000)]))
        wait_until(lambda: client.pubsub_numpat() == 20_000, 60, "all have subscribed")
        for name, request in requests.items():

            def delivered(request=request):
                before = read[0]
                request()
                wait_until(lambda: read[0] >= before + len(key), 60, "the event has arrived")

            assert worst_ping(big, delivered) < BOUND / 2, name
        in_queue = transaction_of(("SET", key, "v"), ("GET", key))
        assert worst_ping(big, lambda: send(big, in_queue)) < BOUND / 2


def user_with_patterns(server, pattern, count=4096):
    """Makes the user app. Each of its two selectors has `count` patterns of keys, and as many of channels."""
    kinds = [kind + pattern % i for i in range(count) for kind in "~&"]
    rules = ["on", ">pw", "+@all", *kinds, "(" + " ".join(["+@all", *kinds]) + ")"]
    assert server.client().execute_command("ACL", "SETUSER", "app", *rules) == b"OK"


def as_app(server, *commands):
    """Sends commands as the user app, and returns the replies."""
    return ask(server, encode("AUTH", "app", "pw") + b"".join(encode(*command) for command in commands))


# Patterns of which only the whole is compared: the first is searched in a key, the other is tried at each position.
@pytest.mark.parametrize("pattern", ["*:tenant%d:*", "*x*y%d?*z*"])
def test_rights_checks_of_keys_against_8192_patterns_of_a_user_delay_no_ping(big, pattern):
    user_with_patterns(big, pattern)
    good = pattern.replace("*", "x" * 20) % 4095 + "z" if "?" not in pattern else "x" * 20 + "y4095?zz"
    long = "x" * 300_000
    cases = {
        "key of 300 KB": ([("GET", long)], b"-NOPERM"),
        "allowed key of 60 KB": ([("SET", "x" * 60_000 + good, "1"), ("GET", "x" * 60_000 + good)], b"$1\r\n1"),
        "1,000 keys": ([("MGET", *[good + str(i) + "z" for i in range(1000)])], b"*1000"),
        "2,000 keys": ([("MGET", *[good + str(i) + "z" for i in range(2000)])], b"*2000"),
        "pipeline": ([("GET", good)] * 300, b"$-1"),
        "channel": ([("PUBLISH", long, "m")], b"-NOPERM"),
        "channels": ([("SUBSCRIBE", *["x" * 1000] * 1000)], b"-NOPERM"),
        "in a transaction": ([("MULTI",), ("SET", "x" * 60_000 + good, "1"), ("EXEC",)], b"*1\r\n+OK"),
        "DRYRUN": ([("ACL", "DRYRUN", "app", "GET", long)], b"User app has no permissions"),
        "SORT": ([("SORT", "x" * 60_000 + good, "BY", "w*")], b"BY option of SORT denied"),
        "range": ([("DELRANGE", long, long + "y")], b"-NOPERM"),
    }
    for name, (commands, reply) in cases.items():
        replies = []
        assert worst_ping(big, lambda commands=commands: replies.append(as_app(big, *commands))) < BOUND / 2, name
        assert all(reply in each for each in replies), name


def test_rights_checks_of_40_clients_delay_no_ping_and_no_command_of_an_administrator(big):
    """Each check takes a second or more. Nearly all checks wait for a thread, and no check is done before its client is killed."""
    user_with_patterns(big, "*:tenant%d:*")
    client = big.client()
    request = encode("AUTH", "app", "pw") + encode("MGET", *["x" * 62_900 + f":tenant0:{i}" for i in range(40)])
    commands = {
        "CONFIG SET": ("CONFIG", "SET", "slowlog-max-len", "128"),
        "ACL SETUSER": ("ACL", "SETUSER", "other", "on"),
        "CLIENT LIST": ("CLIENT", "LIST"),
        "CLIENT KILL": ("CLIENT", "KILL", "USER", "app"),
    }

    def measure():
        times = {}
        with contextlib.ExitStack() as stack:
            links = [stack.enter_context(big.connect()) for _ in range(40)]

            def work():
                for link in links:
                    link.sendall(request)
                wait_until(lambda: int(client.info("clients")["waiting_clients"]) >= 40, 60, "the checks wait for threads")
                for name, command in commands.items():
                    start = time.monotonic()
                    client.execute_command(*command)
                    times[name] = time.monotonic() - start

            ping = longest_beside(big, work, [("PING",)])[0]
            assert all(receive_all(link) == b"+OK\r\n" for link in links)
            return max(ping, *times.values())

    assert best_of_tries(measure) < BOUND


def test_acl_setuser_that_checks_20000_subscriptions_of_the_user_delays_no_ping(big):
    user_with_patterns(big, "*:tenant%d:*", 512)
    client = big.client()
    with big.connect() as link:
        names = [f"{'x' * 200}:tenant{i % 512}:{i}" for i in range(20_000)]
        link.sendall(encode("AUTH", "app", "pw") + encode("SUBSCRIBE", *names))
        receive_until(link, b":20000\r\n")
        assert worst_ping(big, lambda: client.execute_command("ACL", "SETUSER", "app", "-get")) < BOUND / 2
        assert client.execute_command("PUBLISH", names[-1], "m") == 1
        assert worst_ping(big, lambda: client.execute_command("ACL", "SETUSER", "app", "clearselectors", "resetchannels")) < BOUND / 2
        wait_until(lambda: client.execute_command("PUBSUB", "NUMSUB", names[-1])[1] == 0, 20, "the client is closed")


def test_long_transaction_that_must_stay_on_its_event_loop_is_refused(big):
    client = big.client()
    client.setrange("large", 40 << 20, "x")
    many = transaction_of(*[("SUBSCRIBE", f"channel:{i}") for i in range(300_000)])
    deletes = transaction_of(*[words for i in range(200_000) for words in (("MSET", f"key:{i}", "v"), ("DELPREFIX", f"key:{i}"))])
    large = transaction_of(("SUBSCRIBE", "channel"), ("BITOP", "NOT", "other", "large"))
    client.set("text", b"t" * 4000)
    compared = transaction_of(("CLIENT", "ID"), *[("LCS", "text", "text", "LEN")] * 50)
    described = transaction_of(("CLIENT", "ID"), *[("MEMORY", "STATS")] * 500)
    for queue in (many, deletes, large, compared, described):
        received = []
        assert worst_ping(big, lambda queue=queue: received.append(ask(big, queue))) < BOUND / 2
        for replies in received:
            assert b"-EXECABORT Transaction discarded because of: a transaction with a command that cannot leave" in replies
    assert client.exists("key:0", "other") == 0
    assert client.pubsub_numsub("channel:0") == [(b"channel:0", 0)]
    few = ask(big, transaction_of(*[("SUBSCRIBE", f"channel:{i}") for i in range(1000)]))
    assert few.count(b"subscribe") == 1000


@pytest.mark.parametrize("size, most, too_many", [(10, 1500, 20_000), (60_000, 30, 300)], ids=["short", "long"])
def test_transaction_of_range_deletes_delays_no_ping_and_is_refused_if_there_are_too_many(big, size, most, too_many):
    client = big.client()
    client.set("key", "v")

    def deletes(count):
        start = "x" * size
        return transaction_of(*[("DELRANGE", f"{start}{i}a", f"{start}{i}b") for i in range(count)], ("DELRANGE", "key", "key0"))

    received = []
    assert worst_ping(big, lambda: received.append(ask(big, deletes(too_many)))) < BOUND
    for replies in received:
        assert b"-EXECABORT Transaction discarded because of: a transaction with a command that cannot leave" in replies
    assert client.exists("key") == 1
    assert worst_ping(big, lambda: received.append(ask(big, deletes(most)))) < BOUND
    assert received[-1].count(b"purge-") == most + 1 and client.exists("key") == 0
    stamps = ask(big, transaction_of(*[("STAMP.DELRANGE", str(i), str(i + 1)) for i in range(5000)]))
    assert b"-EXECABORT Transaction discarded because of: a transaction with a command that cannot leave" in stamps


def test_keys_and_scan_in_a_transaction_that_must_stay_on_its_event_loop_delay_no_ping(big):
    send(big, encode("MSET", *pairs(100_000)))
    walks = [("SCAN", "0", "COUNT", "100000"), ("KEYS", "*none*"), ("DBSIZE",), ("RANDOMKEY",), ("COUNTRANGE", "-", "+", "EXACT")]
    queue = transaction_of(("CLIENT", "ID"), *walks[:2] * 100, *walks[3:] * 100, *walks[2:3] * 10, ("SCAN", "0", "COUNT", "1"))
    received = []
    assert worst_ping(big, lambda: received.append(ask(big, queue))) < BOUND / 2
    for replies in received:
        assert replies.endswith(b"\r\n*1\r\n$5\r\nkey:0\r\n+OK\r\n")


def test_command_info_and_config_get_of_half_a_million_names_delay_no_ping(big):
    def ask(request):
        with big.connect() as s:
            s.sendall(request + encode("QUIT"))
            assert receive_all(s).endswith(b"+OK\r\n")

    for command in (("COMMAND", "INFO"), ("COMMAND", "DOCS"), ("CONFIG", "GET")):
        request = encode(*command, *["none"] * 500_000)
        assert worst_ping(big, lambda request=request: ask(request)) < BOUND / 2, command
    assert big.client().config_get("timeout") == {"timeout": "0"}


def test_client_list_of_7000_clients_with_long_names_delays_no_ping(big):
    texts = (("SETNAME",), ("SETINFO", "lib-name"), ("SETINFO", "lib-ver"))
    request = b"".join(encode("CLIENT", *words, "n" * 1024) for words in texts)
    with contextlib.ExitStack() as stack:
        links = [stack.enter_context(big.connect()) for _ in range(7000)]
        for link in links:
            link.sendall(request)
        for link in links:
            receive_exactly(link, len(b"+OK\r\n" * 3))

        def list_all():
            listed = [stack.enter_context(big.connect(timeout=60)) for _ in range(12)]
            for link in listed:
                link.sendall(encode("CLIENT", "LIST") + encode("QUIT"))
            for link in listed:
                assert len(receive_all(link)) > 7000 * 3 * 1024

        assert worst_ping(big, list_all) < BOUND / 2


def test_acl_list_of_users_with_75_mb_of_patterns_delays_no_ping(big):
    client = big.client()
    patterns = [f"~{i:05}" + "k" * 250 for i in range(1000)]
    for user in range(300):
        client.execute_command("ACL", "SETUSER", f"user{user}", "on", *patterns)
    assert worst_ping(big, lambda: send(big, encode("ACL", "LIST") + encode("ACL", "GETUSER", "user7"))) < BOUND / 2
    assert len(client.execute_command("ACL", "USERS")) == 301


def test_pubsub_channels_of_900000_channels_delays_no_ping(big):
    client = big.client()
    with big.connect() as link:
        reader = threading.Thread(target=receive_all, args=(link,))
        reader.start()
        link.sendall(encode("SUBSCRIBE", *[f"channel:{i}" for i in range(900_000)]))
        wait_until(lambda: client.pubsub_numsub("channel:899999")[0][1] == 1, 60, "all have subscribed")
        assert worst_ping(big, lambda: send(big, encode("PUBSUB", "CHANNELS"))) < BOUND / 2
        link.shutdown(socket.SHUT_RDWR)
        reader.join()


def test_arguments_of_20_mb_shown_to_20_monitors_delay_no_ping(big):
    with contextlib.ExitStack() as stack:
        for _ in range(20):
            link = stack.enter_context(big.connect())
            link.sendall(encode("MONITOR"))
            assert link.recv(5) == b"+OK\r\n"
        commands = encode("SET", "large", bytes(20 << 20)) * 3
        assert worst_ping(big, lambda: send(big, commands)) < BOUND / 2


def test_transaction_of_100000_keys_broadcast_to_50_tracking_clients_delays_no_ping(big):
    queue = encode("MULTI") + b"".join(encode("SET", f"key:{i}", "v") for i in range(100_000)) + encode("EXEC")
    with contextlib.ExitStack() as stack:
        for _ in range(50):
            link = stack.enter_context(big.connect())
            link.sendall(encode("HELLO", "3") + encode("CLIENT", "TRACKING", "ON", "BCAST"))
            receive_until(link, b"+OK\r\n")
        assert worst_ping(big, lambda: send(big, queue)) < BOUND


def ask(server, data):
    """Sends prepared bytes, and returns the replies, which may be errors."""
    with server.connect() as s:
        s.sendall(data)
        s.sendall(encode("QUIT"))
        received = receive_all(s)
    assert received.endswith(b"+OK\r\n")
    return received


def test_commands_with_arguments_of_400_mb_that_they_refuse_delay_no_ping(big):
    client = big.client()
    client.setrange("sketch", 400_000_000, "x")
    client.setrange("sketch", 0, b"HYLL\x01" + bytes(10) + b"\x80")
    for subcommand in ("GET", "RESETSTAT", "HELP"):
        client.execute_command("CONFIG", subcommand, *(["port"] if subcommand == "GET" else []))
    large = bytes([ord("x")]) * 400_000_000
    requests = {
        "name of a command": encode(large),
        "AUTH": encode("AUTH", "default", large),
        "CONFIG SET": encode("CONFIG", "SET", large, "1"),
        "CONFIG GET": encode("CONFIG", "GET", b"*" * 60_000_000),
        "COMMAND LIST": encode("COMMAND", "LIST", "FILTERBY", "PATTERN", b"*" * 60_000_000),
        "COMMAND INFO": encode("COMMAND", "INFO", large),
        "LATENCY HISTOGRAM": encode("LATENCY", "HISTOGRAM", *["config"] * 1_000_000),
        "CLIENT SETNAME": encode("CLIENT", "SETNAME", large),
        "PFADD": encode("PFADD", "other", large),
        "PFADD to a large value": encode("PFADD", "sketch", "x"),
        "DELPREFIX": encode("DELPREFIX", bytes(100_000_000)),
        "DELRANGE": encode("DELRANGE", large, large),
        "channel": encode("PUBLISH", large, "m"),
    }
    for name, request in requests.items():
        assert worst_ping(big, lambda request=request: ask(big, request)) < BOUND / 2, name


def test_transactions_of_commands_that_always_leave_the_event_loop_delay_no_ping(big):
    client = big.client()
    client.mset({"a": "ab" * 2000, "b": "ba" * 2000})
    for command in (("LCS", "a", "b", "LEN"), ("PFSELFTEST",)):
        queue = transaction_of(*[command] * 150)
        assert worst_ping(big, lambda queue=queue: send(big, queue)) < BOUND / 2, command


def test_writes_of_500_keys_while_a_client_tracks_32768_prefixes_delay_no_ping(big):
    keys = [f"a prefix of more bytes than a short string has:{i:06}" for i in range(32_768)]
    with big.connect() as link:
        link.sendall(encode("HELLO", "3") + encode("CLIENT", "TRACKING", "ON", "BCAST", *[word for key in keys for word in ("PREFIX", key)]))
        receive_until(link, b"+OK\r\n")
        request = encode("MSET", *[word for key in keys[::66] for word in (key, "v")])
        assert worst_ping(big, lambda: send(big, request)) < BOUND
        receive_until(link, keys[-1 - 32_767 % 66].encode())


def test_pipelines_of_3000_clients_that_do_not_read_delay_no_ping(big):
    big.client().set("k", b"v" * 60_000)
    pipeline = encode("GET", "k") * 100

    def read_slowly():
        with contextlib.ExitStack() as stack:
            links = [stack.enter_context(big.connect()) for _ in range(3000)]
            for link in links:
                link.sendall(pipeline)
            time.sleep(2)

    assert worst_ping(big, read_slowly) < BOUND


@contextlib.contextmanager
def listeners(server, count, *requests):
    """Opens connections that have sent the requests. A thread reads and drops their replies. Yields the number of bytes read."""
    read, stop = [0], threading.Event()
    with contextlib.ExitStack() as stack, selectors.DefaultSelector() as selector:
        for _ in range(count):
            link = stack.enter_context(server.connect())
            for request in requests:
                link.sendall(encode(*request))
                assert link.recv(1 << 10)[:1] != b"-"
            selector.register(link, selectors.EVENT_READ)

        def drain():
            while not stop.is_set():
                for key, _ in selector.select(0.1):
                    received = len(key.fileobj.recv(1 << 20))
                    if received == 0:
                        selector.unregister(key.fileobj)
                    read[0] += received

        thread = threading.Thread(target=drain)
        thread.start()
        try:
            yield read
        finally:
            stop.set()
            thread.join()


@pytest.mark.parametrize("threads", [1, 4])
def test_notifications_of_300000_keys_to_5_subscribers_delay_no_ping_and_lose_none(big, threads):
    big.stop()
    big.set(f"server.threads={threads}").start()
    client = big.client()
    client.config_set("notify-keyspace-events", "KEAm")
    count = 300_000
    names = [f"key:{i}" for i in range(count)]
    message = len(encode("pmessage", "*", "__keyspace@0__:", "set")) + len(encode("pmessage", "*", "__keyevent@0__:set", ""))
    with listeners(big, 5, ("PSUBSCRIBE", "*")) as read:
        for command in (encode("MSET", *pairs(count)), encode("MGET", "none:1", *names), encode("UNLINK", *names)):
            assert worst_ping(big, lambda command=command: send(big, command)) < BOUND / 2, command[:20]
        read[0] = 0
        send(big, encode("MSET", *pairs(count)))
        # A lower bound: in some messages the length of a name has more digits than in `message`.
        least = 5 * (count * message + 2 * sum(map(len, names)))
        wait_until(lambda: read[0] >= least, 60, "all notifications have arrived")
        queue = transaction_of(*(("SET", name, "w") for name in names[:100_000]))
        assert worst_ping(big, lambda: send(big, queue)) < BOUND / 2


def test_notifications_of_500_keys_to_5000_subscribers_delay_no_ping(big):
    big.client().config_set("notify-keyspace-events", "KEA")
    with listeners(big, 5000, ("PSUBSCRIBE", "*")):
        assert worst_ping(big, lambda: send(big, encode("MSET", *pairs(500)))) < BOUND
        assert worst_ping(big, lambda: send(big, transaction_of(*(("SET", f"key:{i}", "v") for i in range(300))))) < BOUND


@pytest.mark.parametrize("mode", [(), ("BCAST",), ("BCAST", "NOLOOP")])
def test_invalidations_of_300000_keys_delay_no_ping(big, mode):
    names = [f"key:{i}" for i in range(300_000)]
    send(big, encode("MSET", *pairs(300_000)))
    reads = [] if mode else [("MGET", *names)]
    queue = transaction_of(*(("SET", name, "w") for name in names[:100_000]))
    for command in (encode("MSET", *pairs(300_000)), queue):

        def beside_new_caches(command=command):
            """Makes one try. Its listeners read the keys again, since the write of the try before has invalidated their
            caches."""
            with listeners(big, 10, ("HELLO", "3"), ("CLIENT", "TRACKING", "ON", *mode), *reads):
                return longest_beside(big, lambda: send(big, command), [("PING",)])[0]

        assert best_of_tries(beside_new_caches) < BOUND / 2, command[:20]


def test_client_that_disconnects_during_its_long_command_blocks_no_other_client(big):
    client = big.client()
    client.set("account", "1")
    for i in range(20):
        link = big.connect()
        link.sendall(encode("MULTI") + encode("SETBIT", "far", 2**31 - 1, 1) + encode("INCR", "account") + encode("EXEC"))
        time.sleep(0.02 * i)
        link.close()
    # Each transaction happened or did not, and none may block later commands.
    assert client.incr("account") >= 2
    assert client.setbit("far", 7, 1) in (0, 1)


def test_unions_of_4000_large_sorted_sets_end_when_their_clients_disconnect(big):
    """Each union would take ten seconds or more, and there are more unions than threads."""
    client = big.client()
    client.zadd("z", {f"member:{i}": i for i in range(16_000)})
    for command in (("ZUNION", "4000", *["z"] * 4000), ("ZUNIONSTORE", "to", "4000", *["z"] * 4000)):
        links = [big.connect() for _ in range(6)]
        for link in links:
            link.sendall(encode(*command))
        time.sleep(1)  # some of the commands run, and others wait for a thread
        for link in links:
            link.close()
    start = time.monotonic()
    assert big.stop() == 0
    assert time.monotonic() - start < 5
    big.start()


def test_long_and_short_writes_of_the_same_keys_lose_no_update(fresh):
    """Two kinds of long transactions run beside short ones and range deletes of other keys, on two event loops."""
    fresh.set("storage.memory_budget=1GiB", "server.threads=2").start()
    counters, until, sums, errors = ["a", "b"], time.monotonic() + 5, [], []

    def many_keys(client):
        with client.pipeline(transaction=True) as queue:
            queue.mset({f"filler:{i}": i for i in range(600)})
            for name in counters:
                queue.incr(name)
            queue.execute()

    def large_value(client):
        with client.pipeline(transaction=True) as queue:
            queue.setrange("large", 3 << 20, "x")
            for name in reversed(counters):
                queue.incr(name)
            queue.execute()

    def short(client):
        with client.pipeline(transaction=True) as queue:
            for name in counters:
                queue.incr(name)
            queue.execute()

    def delete(client):
        client.execute_command("DELPREFIX", "filler:")
        time.sleep(0.05)

    def read(client):
        first, second = client.mget(counters)
        assert first == second, "half a transaction"

    def run(work):
        client, done = fresh.client(), 0
        try:
            while time.monotonic() < until:
                work(client)
                done += work not in (delete, read)
            sums.append(done)
        except BaseException as error:
            errors.append(error)
            raise

    threads = [threading.Thread(target=run, args=(work,)) for work in (many_keys, large_value, short, short, delete, read)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert fresh.client().mget(counters) == [str(sum(sums)).encode()] * 2
