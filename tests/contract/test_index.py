"""Tests of indexes on a real server: after any commands, kills and restarts an index has exactly the records that it should.

Other values of EBBTIDE_SEED, 0 otherwise, give other random commands. It also repeats the layout of the trees in the search of
files, which is random otherwise.
"""

import contextlib
import json
import os
import random
import string
import struct
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from conftest import SETTINGS
from support.layouts import chosen
from support.places import distance, is_in_box, search
from support.server import Server, binary, wait_until

SEED = int(os.environ.get("EBBTIDE_SEED", "0"))
INDEXED = {**SETTINGS, "storage.memtable_size": "1MiB"}


@pytest.fixture(params=[1, 2], ids=["one_loop", "two_loops"])
def indexed(tmp_path, request):
    with Server({**INDEXED, "server.threads": request.param}, tmp_path, config=None) as running:
        yield running


def records(client, *fields):
    """Returns the values of these fields for each hash."""
    keys = list(client.scan_iter(count=1000))
    with client.pipeline(transaction=False) as pipeline:
        for key in keys:
            pipeline.hmget(key, fields)
        replies = pipeline.execute(raise_on_error=False)
    assert all(isinstance(reply, list) or "WRONGTYPE" in str(reply) for reply in replies)
    return {key: values for key, values in zip(keys, replies) if isinstance(values, list)}


def as_number(value):
    """Returns the number that a field's value is, or None."""
    with contextlib.suppress(TypeError, ValueError):
        return float(value)


def expected(client, prefix=b"car:", field=b"town", number=False):
    """Returns the records in the order of an index, from the records themselves."""
    out = []
    for key, (value,) in records(client, field).items():
        if not key.startswith(prefix) or value is None or len(value) > 1024:
            continue
        if number:
            value = as_number(value)
        if value is not None:
            out.append((value, key))
    return [key for _, key in sorted(out)]


def places_of(client):
    """Returns the places that an index of places has, from the records themselves."""
    out = {}
    for key, values in records(client, "lon", "lat").items():
        lon, lat = map(as_number, values)
        if key.startswith(b"car:") and lon is not None and lat is not None and abs(lon) <= 180 and abs(lat) <= 90:
            out[key] = (-180.0 if lon == 180 else lon), lat
    return out


def in_index(client, name="towns", low="-", high="+"):
    return client.execute_command("INDEX.RANGE", name, low, high)


def info(client, name):
    about = client.execute_command("INDEX.INFO", name)
    return about if isinstance(about, dict) else dict(zip(about[::2], about[1::2]))


def state(client, name):
    return info(client, name)[b"state"]


def built(client, name="towns"):
    """Waits until the index is built, and returns all of it."""
    wait_until(lambda: state(client, name) == b"complete")
    return in_index(client, name)


def check_places(client, choose):
    """Compares searches in all of the earth, in a box and in a circle with the records. Returns how many records have a place."""
    wait_until(lambda: b"complete" in client.execute_command("SPATIAL.INFO", "places"))
    places = places_of(client)
    box = choose.uniform(-180, 180), -90, choose.uniform(-180, 180), choose.uniform(-90, 90)
    center, radius = (choose.uniform(-180, 180), choose.uniform(-80, 80)), choose.choice([0, 300_000, 9_000_000])
    assert search(client, "BOX", -180, -90, 180, 90, count=7) == sorted(places)
    assert search(client, "BOX", *map(repr, box), count=7) == sorted(key for key in places if is_in_box(places[key], box))
    near = sorted(key for key in places if distance(places[key], center) <= radius)
    assert search(client, "RADIUS", *map(repr, center), radius, "m", count=7) == near
    return len(places)


def test_index_returns_records_written_before_and_after_its_creation_sorted_by_value(indexed):
    client = indexed.client()
    for i in range(3000):
        client.hset(f"car:{i}", mapping={"town": f"t{i % 7}", "x": "y" * 20})
    client.set("car:string", "t1")
    client.hset("bus:1", "town", "t1")
    assert client.execute_command("INDEX.CREATE", "towns", "PREFIX", "car:", "FIELD", "town") == b"OK"
    assert built(client) == expected(client)
    client.hset("car:new", "town", "t3")
    client.hset("car:5", "town", "moved")
    client.hdel("car:6", "town")
    client.delete("car:7")
    assert in_index(client) == expected(client)
    assert in_index(client, low="[moved", high="[moved") == [b"car:5"]
    assert in_index(client, low="(t5", high="+") == [k for k in expected(client) if client.hget(k, "town") > b"t5"]
    assert client.execute_command("INDEX.RANGE", "towns", "[t3", "[t3", "LIMIT", 1, 2, "WITHVALUES")[1::2] == [b"t3", b"t3"]
    assert client.execute_command("INDEX.LIST") == [b"towns"]


def test_index_of_numbers_is_sorted_by_number_and_has_no_other_values(indexed):
    client = indexed.client()
    client.execute_command("INDEX.CREATE", "speeds", "PREFIX", "car:", "FIELD", "speed", "NUMBER")
    for i, speed in enumerate(["10", "9", "-3.5", "1e3", "inf", "fast", "", "-0", "0"]):
        client.hset(f"car:{i}", "speed", speed)
    wait_until(lambda: state(client, "speeds") == b"complete")
    assert in_index(client, "speeds", "-inf", "+inf") == expected(client, field=b"speed", number=True)
    assert in_index(client, "speeds", "9", "(1e3") == [b"car:1", b"car:0"]


def changes(choose, payload):
    """Returns a random command on a record. `payload`: of a hash with a town and a place, for RESTORE."""
    key = f"car:{choose.randrange(60)}"
    other = f"{choose.choice(['car', 'bus'])}:{choose.randrange(60)}"
    town = f"t{choose.randrange(9)}"
    lon, lat = choose.choice([-180, 180, 0, choose.uniform(-180, 179)]), choose.choice([-90, 48.25, 90, choose.uniform(-90, 90)])
    place = ["lon", repr(lon), "lat", repr(lat)]
    many = [part for i in range(200) for part in (f"f{i}", "v" * 20)]
    return choose.choice([
        ["HSET", key, "town", town],
        ["HSET", key, "town", town, "x", "1"],
        ["HSET", key, "x", "2"],
        ["HSET", key, "town", town, *many],
        ["HSET", key, "town", "z" * choose.choice([1000, 1024, 1025])],
        ["HSETNX", key, "town", town],
        ["HDEL", key, "town"],
        ["HDEL", key, "x"],
        ["HINCRBY", key, "n", 1],
        ["DEL", key],
        ["UNLINK", key, other],
        ["SET", key, "string"],
        ["GETDEL", key],
        ["RENAME", key, other],
        ["RENAMENX", other, key],
        ["COPY", key, other, "REPLACE"],
        ["MOVE", key, 1],
        ["PEXPIRE", key, choose.choice([-1, 1, 20, 100000])],
        ["HPEXPIRE", key, choose.choice([1, 20, 100000]), "FIELDS", 1, "town"],
        ["HGETDEL", key, "FIELDS", 1, "town"],
        ["HSETEX", key, "PX", choose.choice([1, 20, 100000]), "FIELDS", 1, "town", town],
        ["EVAL", "local d = redis.call('DUMP', KEYS[1]); return d and redis.call('RESTORE', KEYS[2], 0, d, 'REPLACE')", 2, key, other],
        ["RPUSH", key, "element"],
        ["LMOVE", key, other, "LEFT", "LEFT"],
        ["DELRANGE", f"car:{choose.randrange(9)}", f"car:{choose.randrange(9)}z"],
        ["PERSIST", key],
        ["SADD", key, "member"],
        ["SUNIONSTORE", key, "car:set"],
        ["EVAL", "redis.call('HSET', KEYS[1], 'town', ARGV[1]); return redis.call('HDEL', KEYS[1], 'x')", 1, key, town],
        ["DELPREFIX", f"car:{choose.randrange(9)}"],
        ["DELPREFIX", "bus:"],
        ["RESTORE", key, choose.choice([0, 1, 20, 100000]), payload, "REPLACE"],
        ["HSET", key, *place],
        *[["HSET", key, "town", town, *place]] * 12,  # as many as there are ways to lose it
        ["HSET", key, *place, *many],
        ["HSET", key, choose.choice(["lon", "lat"]), choose.choice(["1", "89.5", "91", "-181", "nan", "inf", "north", ""])],
        ["HINCRBYFLOAT", key, "lon", "0.5"],
        ["HDEL", key, choose.choice(["lon", "lat"])],
        ["HPEXPIRE", key, choose.choice([1, 20, 100000]), "FIELDS", 1, choose.choice(["lon", "lat"])],
        ["EVAL", "return redis.call('HSET', KEYS[1], unpack(ARGV))", 1, key, *place],
    ])


REFUSALS = ("no such key", "WRONGTYPE", "unknown command", "hash value is not", "same", "Bad data format", "increment would")


def run(client, command):
    try:
        client.execute_command(*command)
    except Exception as error:
        assert any(known in str(error) for known in REFUSALS), (command, error)


@pytest.mark.parametrize("seed", range(3))
def test_index_equals_a_scan_of_records_after_random_commands_transactions_kills_and_restarts(indexed, seed):
    print(f"EBBTIDE_SEED={SEED}")
    choose, comparator = random.Random(SEED + seed), ["hilbert", "zorder", "simple"][seed]
    client = indexed.client()
    compared = 0
    client.sadd("car:set", "a")
    client.execute_command("INDEX.CREATE", "towns", "PREFIX", "car:", "FIELD", "town")
    client.execute_command("INDEX.CREATE", "all", "PREFIX", "", "FIELD", "x")
    client.execute_command("SPATIAL.CREATE", "places", "PREFIX", "car:", "LON", "lon", "LAT", "lat", "COMPARATOR", comparator)
    client.hset("car:0", mapping={"town": "t1", "lon": "-180", "lat": "5.5"})
    payload = client.dump("car:0")
    for step in range(40):
        for _ in range(40):
            command = changes(choose, payload)
            if choose.random() < 0.2:
                with client.pipeline(transaction=True) as pipeline:
                    for each in (command, changes(choose, payload), changes(choose, payload)):
                        pipeline.execute_command(*each)
                    pipeline.execute(raise_on_error=False)
            elif choose.random() < 0.2:  # SETs of a pipeline commit as one batch
                with client.pipeline(transaction=False) as pipeline:
                    for _ in range(choose.randrange(2, 8)):
                        pipeline.set(f"car:{choose.randrange(60)}", "string")
                    pipeline.execute()
            else:
                run(client, command)
        if choose.random() < 0.1:
            client.execute_command("TREE.FLUSH")
        if step % 10 == 9:
            choose.choice([lambda: client.swapdb(0, 2), client.flushdb, lambda: client.swapdb(0, 1)])()
        if step % 13 == 12:
            indexed.kill()
            indexed.start()
            client = indexed.client()
        time.sleep(0.03)
        assert built(client) == expected(client), f"step {step}"
        assert built(client, "all") == expected(client, b"", b"x"), f"step {step}"
        compared += check_places(client, choose)
    assert compared > 100


def test_index_equals_a_scan_of_records_while_clients_wait_for_elements_of_indexed_keys(indexed):
    client = indexed.client()
    client.execute_command("INDEX.CREATE", "towns", "PREFIX", "car:", "FIELD", "town")
    built(client)
    waiting = [threading.Thread(target=indexed.client().blpop, args=(f"car:{i}", 20)) for i in range(8)]
    for thread in waiting:
        thread.start()
    wait_until(lambda: int(client.info("clients")["blocked_clients"]) == 8)
    for i in range(8):
        with client.pipeline(transaction=i % 2 == 0) as pipeline:
            pipeline.hset(f"car:{i}", "town", "t").set(f"car:{i}", "string").delete(f"car:{i}").rpush(f"car:{i}", "a", "b")
            pipeline.execute()
    for thread in waiting:
        thread.join()
    assert in_index(client) == []
    for i in range(8):
        client.delete(f"car:{i}")
        client.hset(f"car:{i}", "town", f"t{i}")
    assert in_index(client) == expected(client)


def test_imported_records_are_in_the_index(indexed, tmp_path):
    client = indexed.client()
    for i in range(300):
        client.hset(f"car:{i}", mapping={"town": f"t{i % 5}", **({f"f{j}": "v" * 40 for j in range(300)} if i % 50 == 0 else {})})
    file = tmp_path / "dump.rdb"
    subprocess.run([binary("ebbtide-export"), "-p", str(indexed.port), str(file)], check=True, timeout=60)
    client.flushdb()
    client.execute_command("INDEX.CREATE", "towns", "PREFIX", "car:", "FIELD", "town")
    client.hset("car:7", "town", "other")
    subprocess.run([binary("ebbtide-import"), "-p", str(indexed.port), "--replace", str(file)], check=True, timeout=60)
    assert len(built(client)) == 300
    assert in_index(client) == expected(client)


def test_index_is_dropped_and_created_again(indexed):
    client = indexed.client()
    for i in range(100):
        client.hset(f"car:{i}", "town", f"t{i % 3}")
    for round in range(20):
        client.execute_command("INDEX.CREATE", "towns", "PREFIX", "car:", "FIELD", "town")
        assert built(client) == expected(client)
        assert client.execute_command("INDEX.DROP", "towns") == b"OK"
        assert client.execute_command("INDEX.LIST") == []
    with pytest.raises(Exception, match="there is no index"):
        in_index(client)
    for i in range(15):
        client.execute_command("INDEX.CREATE", f"i{i}", "PREFIX", "car:", "FIELD", "town")
    with pytest.raises(Exception, match="15 indexes"):
        client.execute_command("INDEX.CREATE", "i15", "PREFIX", "car:", "FIELD", "town")


def test_deletes_of_records_by_stamp_or_by_prefix_remove_their_index_entries(indexed):
    client = indexed.client()
    client.execute_command("INDEX.CREATE", "towns", "PREFIX", "car:", "FIELD", "town")
    for i in range(50):
        client.hset(f"car:{i}", "town", f"t{i % 3}")
    time.sleep(0.01)
    between = int(time.time() * 1000)
    time.sleep(0.01)
    for i in range(25, 75):
        client.hset(f"car:{i}", "x", "1") if i < 50 else client.hset(f"car:{i}", "town", "new")
    client.execute_command("STAMP.DELRANGE", "-", between)
    assert len(expected(client)) == 50
    assert in_index(client) == expected(client)
    client.hset("cargo", "town", "kept")
    client.execute_command("DELPREFIX", "car:")
    assert in_index(client) == []
    client.hset("car:1", "town", "again")
    assert in_index(client) == [b"car:1"]


def test_tree_info_and_metrics_list_the_tree_of_an_index_apart_from_its_database(tmp_path):
    with Server(INDEXED, tmp_path, config=None) as server:
        client = server.client()
        client.execute_command("INDEX.CREATE", "towns", "PREFIX", "car:", "FIELD", "town")
        for i in range(100):
            client.hset(f"car:{i}", "town", f"t{i}")
        client.set("other", "1")
        client.execute_command("TREE.FLUSH")

        def tree(*about):
            reply = client.execute_command("TREE.INFO", *about)
            return reply if isinstance(reply, dict) else dict(zip(reply[::2], reply[1::2]))

        assert tree()[b"estimated-keys"] == 101
        assert tree("INDEX", "towns")[b"estimated-keys"] == 100
        assert tree("INDEX", "towns")[b"files"] == 1
        with pytest.raises(Exception, match="there is no index"):
            tree("INDEX", "none")
        with pytest.raises(Exception, match="syntax"):
            tree("INDEX")
        _, text = server.http("/metrics")
        assert 'ebbtide_index_entries{db="0",index="towns"} 100' in text
        assert 'ebbtide_level_files{db="0",index="towns",level="0"} 1' in text
        seen = json.loads(server.http("/console.json?db=1024")[1])
        (shown,) = [entry for entry in seen["databases"] if "index" in entry]
        assert (shown["db"], shown["owner"], shown["index"], shown["keys"]) == (1024, 0, "towns", 100)
        assert seen["tree"]["db"] == 1024
        verified = client.execute_command("TREE.VERIFY")
        verified = verified if isinstance(verified, dict) else dict(zip(verified[::2], verified[1::2]))
        assert verified[b"files"] >= 3 and verified[b"errors"] == []


def policy(client, name="towns"):
    return info(client, name)[b"policy"]


def test_build_waits_while_the_disk_is_full(tmp_path):
    with Server({**INDEXED, "storage.max_disk_bytes": "32MiB"}, tmp_path, config=None) as server:
        client, filler = server.client(), server.client(db=1)
        for i in range(3000):
            client.hset(f"car:{i}", "town", os.urandom(900))
        with pytest.raises(Exception, match="full"):
            while True:
                filler.set(os.urandom(8), os.urandom(100_000))
        client.execute_command("INDEX.CREATE", "towns", "PREFIX", "car:", "FIELD", "town")
        wait_until(lambda: b"full" in info(client, "towns").get(b"error", b""))
        assert state(client, "towns").startswith(b"building")
        assert client.hdel("car:5", "town") == 1
        assert server.log().count("cannot be built") == 1
        filler.flushdb()
        assert built(client) == expected(client)
        assert b"error" not in info(client, "towns")


def test_index_has_a_merge_policy_of_its_own(indexed):
    client = indexed.client()
    create = ["INDEX.CREATE", "towns", "PREFIX", "car:", "FIELD", "town", "POLICY"]
    for wrong in (["none"], ["klsm", "size_ratio", "0"], ["klsm", "size_ratio", "x"], ["klsm", "unknown", "1"], []):
        with pytest.raises(Exception):
            client.execute_command(*create, *wrong)
    before = None
    for round in range(2):
        client.execute_command(*create, "tiering", "size_ratio", "5")
        client.execute_command("INDEX.CREATE", "other", "PREFIX", "car:", "FIELD", "x")
        wait_until(lambda: policy(client) == b"tiering")
        before = policy(client, "other")
        assert before != b"tiering"
        client.config_set("tree.policy.name", "lazy_leveling")
        wait_until(lambda: policy(client, "other") == b"lazy_leveling")
        assert policy(client) == b"tiering"
        indexed.kill()
        indexed.start()
        client = indexed.client()
        wait_until(lambda: policy(client) == b"tiering")
        assert policy(client, "other") == before
        client.execute_command("INDEX.DROP", "towns")
        client.execute_command("INDEX.DROP", "other")
    client.execute_command("INDEX.CREATE", "towns", "PREFIX", "car:", "FIELD", "town")
    wait_until(lambda: policy(client) == before)



def letters(way):
    """Returns the town of a record: random letters, which depend on the way alone and occur nowhere else."""
    return "".join(random.Random(way).choices(string.ascii_letters, k=30))


def place_of(way):
    choose = random.Random("place " + way)
    return choose.uniform(-180, 180), choose.uniform(-90, 90)


def ordered(number):
    """Returns a number as keys of entries have it: 8 bytes in the order of the numbers."""
    (bits,) = struct.unpack(">Q", struct.pack(">d", number))
    return struct.pack(">Q", ~bits & (1 << 64) - 1 if bits >> 63 else bits | 1 << 63)


def entries_of(way, key):
    """Returns bytes that only the record's entries have: in the index by town, and in those by place. A page leaves out what an
    entry has in common with the previous one, so the first letters are not among them."""
    return {"town": letters(way)[6:].encode() + b"\0\2" + key.encode(), "place": ordered(place_of(way)[1]) + key.encode()}


def restore_without_town(client, key):
    client.hset("other", "x", "1")
    client.restore(key, 0, client.dump("other"), replace=True)


def swap_and_flush(client, key):
    client.swapdb(5, 6)
    client.execute_command("SELECT", 6)
    client.flushdb()


def drop_indexes(client, key):
    for name in ("INDEX.DROP", "towns"), ("SPATIAL.DROP", "places"), ("SPATIAL.DROP", "simple"):
        client.execute_command(*name)


WAYS = {
    "DEL": lambda client, key: client.delete(key),
    "UNLINK": lambda client, key: client.unlink(key),
    "HDEL": lambda client, key: client.hdel(key, "town", "lon"),
    "HGETDEL": lambda client, key: client.execute_command("HGETDEL", key, "FIELDS", 2, "town", "lat"),
    "HSET": lambda client, key: client.hset(key, mapping={"town": "another", "lat": "1.5"}),
    "HINCRBYFLOAT": lambda client, key: client.hset(key, "town", "another") or client.hincrbyfloat(key, "lat", 0.001),
    "SET": lambda client, key: client.set(key, "string"),
    "RENAME": lambda client, key: client.rename(key, "away:" + key),
    "RENAME within": lambda client, key: client.rename(key, "car:renamed"),
    "RENAME onto": lambda client, key: client.set("car:onto", "string") and client.rename("car:onto", key),
    "COPY onto": lambda client, key: client.set("car:onto", "string") and client.copy("car:onto", key, replace=True),
    "MOVE": lambda client, key: client.move(key, 9),
    "RESTORE": restore_without_town,
    "PEXPIRE": lambda client, key: client.pexpire(key, 50),
    "PEXPIREAT": lambda client, key: client.pexpireat(key, 1),
    "HPEXPIRE": lambda client, key: client.execute_command("HPEXPIRE", key, 50, "FIELDS", 2, "town", "lon"),
    "HSETEX": lambda client, key: client.execute_command("HSETEX", key, "PX", 50, "FIELDS", 2, "town", "new", "lat", "1.5"),
    "DELPREFIX": lambda client, key: client.execute_command("DELPREFIX", key),
    "DELRANGE": lambda client, key: client.execute_command("DELRANGE", key, key + "x"),
    "many": lambda client, key: client.execute_command("DELPREFIX", "car:many:"),
    "EXEC": lambda client, key: client.pipeline(transaction=True).delete(key).hset(key, "x", "1").execute(),
    "EVAL": lambda client, key: client.eval("redis.call('HSET', KEYS[1], 'x', 1); redis.call('DEL', KEYS[1])", 1, key),
    "SUNIONSTORE": lambda client, key: client.sadd("car:set", "a") and client.sunionstore(key, "car:set"),
}
# These have a database each.
WHOLE = {
    "STAMP.DELRANGE": lambda client, key: client.execute_command("STAMP.DELRANGE", "-", "+"),
    "FLUSHDB": lambda client, key: client.flushdb(),
    "DELPREFIX of all": lambda client, key: client.execute_command("DELPREFIX", "car"),
    "INDEX.DROP": drop_indexes,
    "SWAPDB": swap_and_flush,  # from database 5 to 6
}
LIVE_ON = ["RENAME", "RENAME within", "MOVE", "INDEX.DROP"]  # the record lives on, so its own value does, too
KILL_AFTER = 2.0
DEADLINE = 5.0


def create_indexes(client):
    client.execute_command("INDEX.CREATE", "towns", "PREFIX", "car:", "FIELD", "town")
    for name, comparator in ("places", "hilbert"), ("simple", "simple"):
        client.execute_command("SPATIAL.CREATE", name, "PREFIX", "car:", "LON", "lon", "LAT", "lat", "COMPARATOR", comparator)


def write_record(client, way, key):
    lon, lat = place_of(way)
    client.hset(key, mapping={"town": letters(way), "lon": repr(lon), "lat": repr(lat), "y": "1"})


def files_of(server):
    return b"".join(path.read_bytes() for path in server.data.iterdir() if path.is_file())


def found_entries(server, ways):
    content = files_of(server)
    return [(way, index) for way in ways for index, text in entries_of(way, f"car:{way}:1").items() if text in content]


def write_and_delete(server):
    """Writes a record for each way to delete, and deletes them all."""
    client = server.client()
    create_indexes(client)
    with client.pipeline(transaction=False) as pipeline:
        for way in WAYS:
            write_record(pipeline, way, f"car:{way}:1")
        write_record(pipeline, "kept", "car:kept:1")
        for i in range(10, 1210):
            pipeline.hset(f"car:many:{i}", mapping={"town": "of many", "lon": i / 10, "lat": 1})
        pipeline.execute()
    client.execute_command("TREE.FLUSH")
    others = {way: server.client(db=number) for number, way in enumerate(WHOLE, 1)}
    for way, other in others.items():
        create_indexes(other)
        write_record(other, way, f"car:{way}:1")
        other.execute_command("TREE.FLUSH")
    ways = {**WAYS, **WHOLE}
    assert len(found_entries(server, [*ways, "kept"])) == 2 * len(ways) + 2
    for way in ways:
        ways[way](others.get(way, client), f"car:{way}:1")


def test_index_entries_of_deleted_records_are_in_no_file_after_the_deadline_also_after_a_kill(tmp_path):
    # Keys of entries are stored as they are, and no page is compressed. So the files have a plain text for each entry.
    plain = {"storage.compression": "none", "storage.compression_last_level": "none"}
    layout = chosen("index entries", but=plain)
    settings = {**INDEXED, **layout, **plain, "tree.deletes.deadline": f"{DEADLINE:.0f}s"}
    ways = [*WAYS, *WHOLE]
    for name in ("killed", "running"):
        (tmp_path / name).mkdir()
    with (
        Server(settings, tmp_path / "killed", config=None) as killed,
        Server(settings, tmp_path / "running", config=None) as running,
    ):
        with ThreadPoolExecutor() as pool:
            list(pool.map(write_and_delete, (killed, running)))
        deleted = time.monotonic()
        time.sleep(KILL_AFTER)
        killed.kill()
        killed.start()
        time.sleep(max(0.0, deleted + DEADLINE + 0.5 - time.monotonic()))
        for server in (killed, running):
            assert found_entries(server, [*ways, "kept"]) == [("kept", "town"), ("kept", "place")]
            content = files_of(server)
            assert [way for way in ways if letters(way).encode() in content] == LIVE_ON
            client = server.client()
            assert built(client) == expected(client)
            check_places(client, random.Random(1))
