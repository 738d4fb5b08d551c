"""Tests of hash fields that expire: random commands against a model in Python, crashes, payloads, events.

Debian's Redis does not have these commands, so replies are compared with the model. EBBTIDE_SEED repeats the random commands.
"""

import os
import random
import subprocess
import time

import pytest

from support.server import Server, binary, wait_until

redis = pytest.importorskip("redis")

SEED = int(os.environ.get("EBBTIDE_SEED", "1"))
SETTINGS = {"tree.deletes.deadline": "10s", "storage.fsync": "always", "storage.memtable_size": "1MiB"}
FAR = 10_000_000  # ms: never reached in a test


@pytest.fixture
def server(tmp_path):
    with Server(SETTINGS, tmp_path, config=None) as running:
        yield running


def now_ms():
    return int(time.time() * 1000)


class Model:
    """Hashes as {key: {field: [value, expiry]}}, and the expiries of keys. An expiry of None is never."""

    def __init__(self):
        self.hashes, self.keys = {}, {}

    def fields(self, key):
        return self.hashes.get(key, {})

    def settle(self, key):
        if not self.hashes.get(key):
            self.hashes.pop(key, None)
            self.keys.pop(key, None)

    def pass_time(self, now):
        for key in list(self.hashes):
            if (self.keys.get(key) or now + 1) <= now:
                self.hashes.pop(key)
            else:
                self.hashes[key] = {f: v for f, v in self.hashes[key].items() if v[1] is None or v[1] > now}
            self.settle(key)

    def expire(self, key, at, condition, names):
        fields, replies = self.fields(key), []
        for name in names:
            if name not in fields:
                replies.append(-2)
                continue
            current = fields[name][1]
            allowed = {
                "": True,
                "NX": current is None,
                "XX": current is not None,
                "GT": current is not None and current < at,
                "LT": current is None or current > at,
            }[condition]
            if not allowed:
                replies.append(0)
            elif at <= 1:
                del fields[name]
                replies.append(2)
            else:
                fields[name][1] = at
                replies.append(1)
        self.settle(key)
        return replies

    def set(self, key, values, expiry=None, keep=False):
        fields = self.hashes.setdefault(key, {})
        added = 0
        for name, value in values.items():
            added += name not in fields
            old = fields.get(name, [None, None])
            fields[name] = [value, old[1] if keep else expiry]
        return added

    def remove(self, key, names):
        fields = self.fields(key)
        removed = [fields.pop(name, [None])[0] for name in names]
        self.settle(key)
        return removed

    def put(self, key, fields, expiry):
        self.hashes[key] = {name: list(value) for name, value in fields.items()}
        self.keys[key] = expiry


class Round:
    """Commands whose near expiries all come at one moment, `soon`. All run before it, so the model knows what they see."""

    def __init__(self, client, model, rng, names):
        self.client, self.model, self.rng, self.names = client, model, rng, names
        self.soon = now_ms() + 1300

    def key(self):
        return self.rng.choice([b"a", b"b", b"c"])

    def some(self):
        return self.rng.sample(self.names, self.rng.choice([1, 1, 2, 5]))

    def expiry(self):
        return self.rng.choice([1, self.soon, self.soon, now_ms() + FAR, now_ms() + 2 * FAR])

    def step(self):
        run, key, names, model = self.client.execute_command, self.key(), self.some(), self.model
        kind = self.rng.randrange(14)
        values = {name: b"%d" % self.rng.randrange(10**6) for name in names}
        pairs = [word for pair in values.items() for word in pair]
        if kind in (0, 1):
            assert run("HSET", key, *pairs) == model.set(key, values)
        elif kind in (2, 3, 4):
            at, condition = self.expiry(), self.rng.choice(["", "", "NX", "XX", "GT", "LT"])
            reply = run("HPEXPIREAT", key, at, *condition.split(), "FIELDS", len(names), *names)
            assert reply == model.expire(key, at, condition, names)
        elif kind == 5:
            at = self.rng.choice([self.soon, now_ms() + FAR])
            model.set(key, values, at)
            assert run("HSETEX", key, "PXAT", at, "FIELDS", len(names), *pairs) == 1
        elif kind == 6:
            fields = model.fields(key)
            allowed = all(name in fields for name in names)
            if allowed:
                model.set(key, values, keep=True)
            assert run("HSETEX", key, "FXX", "KEEPTTL", "FIELDS", len(names), *pairs) == int(allowed)
        elif kind == 7:
            fields = model.fields(key)
            replies = [-2 if n not in fields else -1 if fields[n][1] is None else 1 for n in names]
            for name in names:
                if name in fields:
                    fields[name][1] = None
            assert run("HPERSIST", key, "FIELDS", len(names), *names) == replies
        elif kind == 8:
            assert run("HGETDEL", key, "FIELDS", len(names), *names) == model.remove(key, names)
        elif kind == 9:
            assert run("HDEL", key, *names) == sum(value is not None for value in model.remove(key, names))
        elif kind == 10:
            number = int(model.fields(key).get(names[0], [b"0"])[0])
            model.set(key, {names[0]: b"%d" % (number + 7)}, keep=True)
            assert run("HINCRBY", key, names[0], 7) == number + 7
        elif kind == 11:
            self.copy(key)
        elif kind == 12:
            exists = key in model.hashes
            if exists:
                model.keys[key] = at = self.rng.choice([self.soon, now_ms() + FAR])
                assert run("PEXPIREAT", key, at) == 1
        else:
            had = model.keys.get(key) is not None
            model.keys[key] = None
            model.settle(key)
            assert run("PERSIST", key) == int(had)

    def copy(self, key):
        other, run, model = self.key(), self.client.execute_command, self.model
        if key not in model.hashes or other == key:
            return
        how = self.rng.choice(["RENAME", "COPY", "RESTORE"])
        fields, expiry = model.hashes[key], model.keys.get(key)
        if how == "RENAME":
            run("RENAME", key, other)
            del model.hashes[key]
            model.keys.pop(key, None)
        elif how == "COPY":
            assert run("COPY", key, other, "REPLACE") in (1, True)
        else:
            run("RESTORE", other, expiry or 0, run("DUMP", key), "REPLACE", "ABSTTL")
        model.put(other, fields, expiry)


def check(client, model):
    run = client.execute_command
    assert client.dbsize() == len(model.hashes)
    for key in (b"a", b"b", b"c"):
        fields = model.fields(key)
        assert client.hgetall(key) == {name: value[0] for name, value in fields.items()}
        assert client.hlen(key) == len(fields)
        assert client.exists(key) == (key in model.hashes)
        assert dict(client.hscan_iter(key, count=7)) == {name: value[0] for name, value in fields.items()}
        assert run("PEXPIRETIME", key) == (-2 if not fields else model.keys.get(key) or -1)
        taken = client.hrandfield(key, 1000)
        assert sorted(taken) == sorted(fields)
        if fields:
            names = list(fields)
            assert run("HPEXPIRETIME", key, "FIELDS", len(names), *names) == [fields[n][1] or -1 for n in names]
            assert client.hrandfield(key) in fields


@pytest.mark.parametrize("count", [6, 40, 400])
def test_random_commands_on_expiring_fields_reply_as_the_model_in_python(server, count):
    rng, model = random.Random(SEED * 1000 + count), Model()
    names = [b"field-%d" % i for i in range(count)]
    late = 0
    for number in range(10):
        client = server.client()
        this = Round(client, model, rng, names)
        try:
            while now_ms() < this.soon - 900:
                this.step()
            check(client, model)
        except AssertionError:
            if now_ms() < this.soon:
                raise
        if now_ms() >= this.soon:  # the machine was too slow, so the model does not know what the commands have seen
            late += 1
            client.flushall()
            model = Model()
        if number % 6 == 2:
            client.execute_command("TREE.FLUSH")
        if number % 8 == 5:
            server.kill()
            server.start()
            client = server.client()
        wait_until(lambda: now_ms() > this.soon + 5)  # noqa: B023
        model.pass_time(this.soon + 5)
        check(client, model)
    assert late < 5


def test_hlen_of_a_hash_with_5000_fields_counts_no_expired_field(server):
    client, many = server.client(), 5000
    soon = now_ms() + 3000
    for start in range(0, many, 500):
        part = range(start, start + 500)
        client.hset("h", mapping={b"f%d" % i: b"v" for i in part})
        for at, names in ((soon, [b"f%d" % i for i in part if i % 2]), (soon + FAR, [b"f%d" % i for i in part if i % 4 == 0])):
            assert set(client.execute_command("HPEXPIREAT", "h", at, "FIELDS", len(names), *names)) == {1}
    assert client.hlen("h") == many
    wait_until(lambda: now_ms() > soon, 10)
    assert client.hlen("h") == many // 2
    assert len(client.hgetall("h")) == many // 2
    assert client.hrandfield("h") is not None
    for i in range(0, many, 4):
        client.execute_command("HDEL", "h", b"f%d" % i)
    assert client.hlen("h") == many // 4
    for i in range(2, many, 4):
        client.execute_command("HDEL", "h", b"f%d" % i)
    assert client.exists("h") == 0 and client.dbsize() == 0


def test_hash_is_deleted_when_its_last_field_expires(server):
    client = server.client()
    client.hset("h", mapping={"a": 1, "b": 2})
    client.execute_command("HPEXPIRE", "h", FAR, "FIELDS", 1, "a")
    client.execute_command("HPEXPIRE", "h", 300, "FIELDS", 1, "b")
    assert client.ttl("h") == -1
    client.hdel("h", "a")  # now b is the last field
    assert client.exists("h") == 1
    wait_until(lambda: client.exists("h") == 0, 5)
    assert (client.dbsize(), client.type("h"), client.keys()) == (0, b"none", [])
    client.hset("h", "c", 3)
    assert (client.hgetall("h"), client.hlen("h"), client.ttl("h")) == ({b"c": b"3"}, 1, -1)


def test_transaction_sees_the_field_expiries_that_it_has_set(server):
    client = server.client()
    with client.pipeline(transaction=True) as pipe:
        pipe.hset("h", mapping={"a": 1, "b": 2})
        pipe.execute_command("HEXPIRE", "h", 100, "FIELDS", 1, "a")
        pipe.execute_command("HTTL", "h", "FIELDS", 2, "a", "b")
        pipe.execute_command("HEXPIRE", "h", 0, "FIELDS", 1, "b")
        pipe.hlen("h")
        pipe.ttl("h")
        pipe.hgetall("h")
        pipe.execute_command("HGETDEL", "h", "FIELDS", 1, "a")
        pipe.exists("h")
        replies = pipe.execute()
    assert replies == [2, [1], [100, -1], [2], 1, -1, {b"a": b"1"}, [b"1"], 0]


def test_dump_of_a_hash_with_expiring_fields_has_the_bytes_of_redis_7_4(server):
    """The bytes are written down from Redis's rdb.c: type 24, the soonest expiry, and each field after its own expiry."""
    client = server.client()
    at = 4_000_000_000_000
    client.hset("h", mapping={"a": "x", "b": "y"})
    client.execute_command("HPEXPIREAT", "h", at, "FIELDS", 1, "a")
    body = client.dump("h")[:-8]
    assert body == b"\x18" + at.to_bytes(8, "little") + b"\x02" + b"\x01\x01a\x01x" + b"\x00\x01b\x01y" + b"\x0c\x00"


def test_hash_with_expiring_listpack_of_redis_7_4_is_restored(server):
    """The listpack has fields, values and expiries in turns, the soonest expiry first (listpackEx of Redis's t_hash.c)."""
    client = server.client()
    at = 4_000_000_000_000

    def text(word):
        return bytes([0x80 | len(word)]) + word + bytes([1 + len(word)])

    def number64(value):
        return b"\xf4" + value.to_bytes(8, "little") + b"\x09"

    entries = text(b"a") + text(b"x") + number64(at) + text(b"b") + text(b"y") + b"\x00\x01"
    listpack = (7 + len(entries)).to_bytes(4, "little") + (6).to_bytes(2, "little") + entries + b"\xff"
    body = b"\x19" + at.to_bytes(8, "little") + bytes([len(listpack)]) + listpack + b"\x0c\x00"
    client.restore("h", 0, body + crc64(body).to_bytes(8, "little"))
    assert client.hgetall("h") == {b"a": b"x", b"b": b"y"}
    assert client.execute_command("HPEXPIRETIME", "h", "FIELDS", 2, "a", "b") == [at, -1]
    assert client.object("encoding", "h") == b"listpackex"


def test_restored_hash_has_no_expired_fields(server):
    client = server.client()

    def payload(*fields):
        body = b"\x18" + (1000).to_bytes(8, "little") + bytes([len(fields)]) + b"".join(fields) + b"\x0c\x00"
        return body + crc64(body).to_bytes(8, "little")

    client.restore("h", 0, payload(b"\x01\x01a\x01x", b"\x00\x01b\x01y"))
    assert (client.hgetall("h"), client.hlen("h"), client.object("encoding", "h")) == ({b"b": b"y"}, 1, b"listpack")
    client.restore("h", 0, payload(b"\x01\x01a\x01x"), replace=True)
    assert client.exists("h") == 0


def crc64(data):
    crc = 0
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x95AC9329AC4BC9B5 if crc & 1 else 0)
    return crc


def events_of(client, *commands):
    """Returns the events of h that the commands cause, in order."""
    client.config_set("notify-keyspace-events", "KA")
    with client.pubsub() as listener:
        listener.subscribe("__keyspace@0__:h")
        wait_until(lambda: listener.get_message(timeout=0.1), 5)
        for command in commands:
            client.execute_command(*command)
        client.execute_command("SET", "end", "1")
        listener.subscribe("__keyspace@0__:end")
        client.execute_command("PUBLISH", "__keyspace@0__:h", "end")
        events = []
        while not events or events[-1] != b"end":
            message = listener.get_message(timeout=5)
            assert message is not None, events
            if message["type"] == "message" and message["channel"].endswith(b":h"):
                events.append(message["data"])
    return b" ".join(events[:-1]).decode()


def test_commands_on_expiring_fields_have_the_events_of_redis(server):
    client = server.client()
    fields = ("FIELDS", 1, "a")
    assert events_of(client, ("HSET", "h", "a", 1, "b", 2), ("HEXPIRE", "h", 100, *fields)) == "hset hexpire"
    assert events_of(client, ("HPERSIST", "h", *fields), ("HPERSIST", "h", *fields)) == "hpersist"
    assert events_of(client, ("HGETEX", "h", *fields), ("HGETEX", "h", "EX", 9, *fields)) == "hexpire"
    assert events_of(client, ("HGETEX", "h", "PERSIST", *fields), ("HEXPIRE", "h", 9, "XX", *fields)) == "hpersist"
    assert events_of(client, ("HSETEX", "h", "EX", 100, *fields, 5), ("HSETEX", "h", "KEEPTTL", *fields, 6)) == "hset hexpire hset"
    assert events_of(client, ("HPEXPIREAT", "h", 1, *fields)) == "hdel"
    assert events_of(client, ("HGETDEL", "h", "FIELDS", 1, "b")) == "hdel del"
    client.hset("h", "a", 1)
    assert events_of(client, ("HEXPIRE", "h", 0, *fields)) == "hdel del"
    client.hset("h", "a", 1)
    assert events_of(client, ("HSETEX", "h", "EXAT", 1, *fields, 2)) == "hset hdel del"


def listen(server, flags="KA"):
    client = server.client()
    client.config_set("notify-keyspace-events", flags)
    listener = client.pubsub()
    listener.psubscribe("__keyspace@0__:*")
    wait_until(lambda: listener.get_message(timeout=0.1), 5)
    return client, listener


def heard(listener, count):
    events = []
    end = time.monotonic() + 5
    while len(events) < count and time.monotonic() < end:
        message = listener.get_message(timeout=0.2)
        if message is not None:
            events.append(message["channel"].split(b":")[1].decode() + " " + message["data"].decode())
    return events


def test_expired_fields_publish_hexpired_and_the_last_one_also_publishes_del(server):
    client, listener = listen(server)
    client.execute_command("HSETEX", "h", "PX", 200, "FIELDS", 2, "a", 1, "b", 2)
    client.execute_command("HSETEX", "g", "PX", 400, "FIELDS", 1, "a", 1)
    client.hset("g", "b", 2)
    client.execute_command("HSETEX", "k", "EX", 100, "FIELDS", 1, "a", 1)
    client.pexpire("k", 600)
    assert heard(listener, 9) == ["h hset", "h hexpire", "g hset", "g hexpire", "g hset", "k hset", "k hexpire", "k expire", "h hexpired"]
    assert heard(listener, 3) == ["h del", "g hexpired", "k expired"]
    listener.close()


def test_fields_written_before_a_restart_publish_hexpired_when_they_expire(server):
    client = server.client()
    client.execute_command("HSETEX", "h", "PX", 4000, "FIELDS", 2, "a", 1, "b", 2)
    client.execute_command("HSETEX", "g", "PX", 4000, "FIELDS", 1, "a", 1)
    client.hset("g", "b", 2)
    client.execute_command("TREE.FLUSH")
    server.kill()
    server.start()
    client, listener = listen(server, "Khgx")
    time.sleep(2)
    assert sorted(heard(listener, 3)) == ["g hexpired", "h del", "h hexpired"]
    listener.close()


def test_tracking_client_gets_an_invalidation_when_a_field_expires(server):
    raw = server.connect()

    def call(*words):
        raw.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words))

    call(b"HELLO", b"3")
    call(b"CLIENT", b"TRACKING", b"ON")
    call(b"HSETEX", b"h", b"PX", b"300", b"FIELDS", b"1", b"a", b"1")
    call(b"HSET", b"h", b"b", b"2")
    call(b"HGETALL", b"h")
    received = b""
    raw.settimeout(5)
    while b"invalidate" not in received:
        received += raw.recv(4096)
    raw.close()


def test_hash_is_exported_and_imported_with_the_expiries_of_its_fields(server, tmp_path):
    client = server.client()
    at = 4_000_000_000_000
    client.set("string", "x")
    client.hset("h", mapping={"a": 1, "b": 2})
    client.execute_command("HPEXPIREAT", "h", at, "FIELDS", 1, "a")
    file = tmp_path / "dump.rdb"
    for command in (("ebbtide-export", "-p", str(server.port), file), ("ebbtide-import", "--check", file)):
        subprocess.run([binary(command[0]), *command[1:]], check=True, timeout=60)
    client.flushall()
    subprocess.run([binary("ebbtide-import"), "-p", str(server.port), file], check=True, timeout=60)
    assert (client.get("string"), client.hgetall("h")) == (b"x", {b"a": b"1", b"b": b"2"})
    assert client.execute_command("HPEXPIRETIME", "h", "FIELDS", 2, "a", "b") == [at, -1]


def test_set_keepttl_over_a_hash_does_not_keep_the_expiry_of_a_field(server):
    client = server.client()
    client.execute_command("HSETEX", "h", "EX", 100, "FIELDS", 1, "a", 1)
    client.set("h", "x", keepttl=True)
    assert client.ttl("h") == -1


def test_commands_for_expiring_fields_work_in_a_script(server):
    client = server.client()
    script = """
        redis.call('HSET', KEYS[1], 'a', 1, 'b', 2)
        redis.call('HEXPIRE', KEYS[1], 100, 'FIELDS', 1, 'a')
        return redis.call('HTTL', KEYS[1], 'FIELDS', 2, 'a', 'b')
    """
    assert client.eval(script, 1, "h") == [100, -1]
    assert client.execute_command("HTTL", "h", "FIELDS", 1, "a") in ([100], [99])
