"""Tests of indexes of places on a real server, beside GEOSEARCH of the same server and a look at each record.

EBBTIDE_EQUAL_PLACES is the number of records that are all in one place.
"""

import itertools
import os
import random

import pytest
import redis

from conftest import SETTINGS
from support.meanwhile import meanwhile
from support.places import distance, is_in_box, search
from support.server import Server, wait_until
from support.sockets import Link, pairs

INDEXED = {**SETTINGS, "storage.memtable_size": "1MiB"}
EVERYWHERE = ["BOX", -180, -90, 180, 90]
EQUAL = int(os.environ.get("EBBTIDE_EQUAL_PLACES", "100000"))
COMPARATORS = ["hilbert", "zorder", "simple"]


@pytest.fixture(params=COMPARATORS)
def placed(tmp_path, request):
    with Server(INDEXED, tmp_path, config=None) as running:
        client = running.client()
        create(client, request.param)
        yield running


def is_in_shape(place, shape):
    if shape[0] == "BOX":
        return is_in_box(place, shape[1:])
    return distance(place, shape[1:3]) <= shape[3] * 1000


def create(client, comparator):
    client.execute_command("SPATIAL.CREATE", "places", "PREFIX", "car:", "LON", "lon", "LAT", "lat", "COMPARATOR", comparator)
    wait_until(lambda: b"complete" in client.execute_command("SPATIAL.INFO", "places"))


def test_matches_of_a_search_are_charged_to_the_budget_once(tmp_path):
    with Server({**INDEXED, "storage.memory_budget": "128MiB"}, tmp_path, config=None) as running:
        client = running.client()
        create(client, "hilbert")
        with client.pipeline(transaction=False) as pipe:
            for i in range(80_000):
                pipe.hset(f"car:{i}", mapping={"lon": i / 1000, "lat": 1})
                if i % 4_000 == 3_999:
                    pipe.execute()
        cursor, keys = client.execute_command("SPATIAL.SEARCH", "places", *EVERYWHERE, "COUNT", 100_000)
        assert cursor == b"0" and len(keys) == 80_000


def random_place(choose):
    lon = choose.choice([choose.uniform(-180, 179.9), choose.uniform(5, 15), -180.0, 179.5])
    return lon, choose.choice([choose.uniform(-85, 85), choose.uniform(45, 55), 85.0, 0.0])


def check(client, places, choose):
    for _ in range(10):
        center, radius = random_place(choose), choose.choice([100, 5000, 300_000, 5_000_000])
        near = sorted(key for key, place in places.items() if distance(center, place) <= radius)
        assert search(client, "RADIUS", *map(repr, center), radius, "m", count=37) == near
        west, south = random_place(choose)
        east, north = choose.uniform(-180, 180), choose.uniform(south, 85)
        box = west, south, east, north
        inside = sorted(key for key, place in places.items() if is_in_box(place, box))
        assert search(client, "BOX", *map(repr, box), count=37) == inside
        assert client.execute_command("SPATIAL.COUNT", "places", "BOX", *map(repr, box)) == len(inside)
        by_distance = sorted((distance(center, place), key) for key, place in places.items())[:20]
        _, nearest = client.execute_command("SPATIAL.SEARCH", "places", "NEAREST", *map(repr, center), 20, "WITHDIST")
        assert [float(d) for _, d in nearest] == pytest.approx([d for d, _ in by_distance], abs=0.001)


def load(server, places):
    with Link(server.port) as link:
        for at in range(0, len(places), 5000):
            link.pipeline(("HSET", key, "lon", repr(lon), "lat", repr(lat)) for key, (lon, lat) in places[at : at + 5000])


def building(client):
    """Returns how many percent of the index are built; 100: it is complete."""
    state = pairs(client.execute_command("SPATIAL.INFO", "places"))[b"state"]
    return 100 if state == b"complete" else int(state.split()[1])


def build_through_ends(server, places, choose):
    """Creates the index, changes records while it is built, and ends the server twice, if the index is not complete before.
    Returns how many searches were refused before, between and after the ends."""
    refused = [0]
    client = server.client()
    client.execute_command("SPATIAL.CREATE", "places", "PREFIX", "car:", "LON", "lon", "LAT", "lat")
    while True:
        for _ in range(3):
            key = b"car:%d" % choose.randrange(25_000)
            if choose.random() < 0.3:
                places.pop(key, None)
                client.delete(key)
            else:
                places[key] = random_place(choose)
                client.hset(key, mapping={"lon": repr(places[key][0]), "lat": repr(places[key][1])})
        built = building(client)
        try:
            count = client.execute_command("SPATIAL.COUNT", "places", *EVERYWHERE)
        except redis.ResponseError as error:
            assert "is being built" in str(error)
            refused[-1] += 1
        else:
            assert count == len(places)
            return refused
        if len(refused) < 3 and built > 20 * len(refused):
            [server.kill, server.stop][len(refused) - 1]()
            client = server.start().client()
            refused.append(0)


def test_search_of_an_index_that_is_built_is_refused_until_it_finds_all_also_after_a_kill_and_a_restart(tmp_path):
    choose = random.Random(4)
    with Server({**INDEXED, "server.threads": 2}, tmp_path, config=None) as server:
        places = {b"car:%d" % i: random_place(choose) for i in range(20_000)}
        load(server, list(places.items()))
        for _ in range(5):
            refused = build_through_ends(server, places, choose)
            print(f"searches refused: {refused}")
            if len(refused) == 3 and all(refused):
                break
            server.client().execute_command("SPATIAL.DROP", "places")
        assert len(refused) == 3 and all(refused), "each time the index was complete too early"
        _, found = server.client().execute_command("SPATIAL.SEARCH", "places", *EVERYWHERE, "COUNT", 1_000_000, "WITHCOORD")
        assert {key: (float(lon), float(lat)) for key, (lon, lat) in found} == places and len(found) == len(places)


def pages(client, name, *shape):
    """Yields the records of each reply, by cursors."""
    cursor = b"0"
    while True:
        cursor, part = client.execute_command("SPATIAL.SEARCH", name, *shape, "CURSOR", cursor)
        yield part
        if cursor == b"0":
            return


def test_searches_find_many_records_of_one_place_each_once(tmp_path):
    here, near, far = (13.5, 48.25), (13.5000001, 48.25), (-170.0, -3.0)
    places = [(b"car:%d" % i, here) for i in range(EQUAL)]
    others = [(b"near:%d" % i, near) for i in range(10)] + [(b"far:%d" % i, far) for i in range(10)]
    equal = {key for key, _ in places}
    around = [13.4, 48.2, 13.6, 48.3]
    with Server({**INDEXED, "storage.memory_budget": "512MiB"}, tmp_path, config=None) as server:
        client = server.client()

        def create_one(name):
            client.execute_command("SPATIAL.CREATE", name, "PREFIX", "", "LON", "lon", "LAT", "lat", "COMPARATOR", name)

        create_one("hilbert")
        load(server, others[::2] + places + others[1::2])
        create_one("zorder")  # these two are built from the records
        create_one("simple")
        for name in COMPARATORS:
            wait_until(lambda name=name: b"complete" in client.execute_command("SPATIAL.INFO", name), 120)
            for shape, count in (["RADIUS", *here, 0, "m"], EQUAL), (["BOX", *around], EQUAL + 10):
                assert client.execute_command("SPATIAL.COUNT", name, *shape) == count
            found = list(pages(client, name, "BOX", *around, "COUNT", EQUAL // 4))
            assert [len(part) for part in found] == [EQUAL // 4] * 4 + [10]
            keys = {key for part in found for key in part}
            assert len(keys) == EQUAL + 10 and equal <= keys
            _, nearest = client.execute_command("SPATIAL.SEARCH", name, "NEAREST", *here, 100)
            assert len(set(nearest)) == 100 and equal.issuperset(nearest)
        _, found = client.execute_command("SPATIAL.SEARCH", "zorder", "NEAREST", *far, EQUAL // 2, "WITHDIST")
        assert {key for key, _ in found[:10]} == {key for key, place in others if place == far}
        assert len({key for key, _ in found}) == EQUAL // 2
        meters = [float(distance) for _, distance in found]
        assert meters == sorted(meters)
        deleted = [key for key, _ in places[::10]]
        for i in range(0, len(deleted), 1000):
            client.delete(*deleted[i : i + 1000])
        for name in COMPARATORS:
            left = [key for part in pages(client, name, "RADIUS", *here, 0, "m", "COUNT", EQUAL // 3) for key in part]
            assert len(left) == len(set(left)) and set(left) == equal.difference(deleted)


def test_pages_of_a_search_have_each_record_that_stays_in_its_place_once_while_others_move(placed):
    choose, client, writer = random.Random(8), placed.client(), placed.client()
    fixed = {b"car:%d" % i: random_place(choose) for i in range(3000)}
    load(placed, list(fixed.items()))
    moves = random.Random(9)

    def move():
        with writer.pipeline(transaction=False) as pipeline:
            for _ in range(100):
                lon, lat = random_place(moves)
                key = f"car:moving:{moves.randrange(2000)}"
                pipeline.hset(key, mapping={"lon": repr(lon), "lat": repr(lat)}) if moves.random() < 0.8 else pipeline.delete(key)
                pipeline.hset(f"car:{moves.randrange(3000)}", "other", "x" * 100)
            if moves.random() < 0.2:
                pipeline.execute_command(moves.choice(["TREE.FLUSH", "TREE.COMPACT"]))
            pipeline.execute()

    with meanwhile(move):
        for shape in [EVERYWHERE, ["BOX", 5, 45, 15, 55], ["RADIUS", 10, 50, 500, "km"]] * 5:
            keys = [key for part in pages(client, "places", *shape, "COUNT", 19) for key in part if key in fixed]
            inside = [key for key in fixed if is_in_shape(fixed[key], shape)]
            assert len(inside) > 100 and sorted(keys) == sorted(inside)


def test_replies_of_an_index_have_each_transaction_whole(placed):
    client, writer, count = placed.client(), placed.client(), itertools.count()
    client.execute_command("INDEX.CREATE", "towns", "PREFIX", "car:", "FIELD", "town")
    wait_until(lambda: b"complete" in client.execute_command("INDEX.INFO", "towns"))

    def write():
        number = next(count)
        with writer.pipeline(transaction=True) as pipeline:
            for i in range(5):
                pipeline.hset(f"car:{i}", mapping={"town": number, "lon": number % 180, "lat": number % 90})
            if number % 10 == 0:
                pipeline.delete(*(f"car:{i}" for i in range(5)))
            pipeline.execute()
            if number % 200 == 0:
                writer.execute_command("TREE.FLUSH")

    with meanwhile(write):
        for _ in range(300):
            towns = client.execute_command("INDEX.RANGE", "towns", "-", "+", "WITHVALUES")[1::2]
            _, places = client.execute_command("SPATIAL.SEARCH", "places", *EVERYWHERE, "WITHCOORD")
            for values in towns, [tuple(place) for _, place in places]:
                assert len(values) in (0, 5) and len(set(values)) <= 1


def test_searches_find_the_same_places_as_a_scan_of_all_records(placed):
    client, choose, places = placed.client(), random.Random(5), {}
    for step in range(6):
        pipeline = client.pipeline(transaction=False)
        for _ in range(1500):
            key = b"car:%d" % choose.randrange(3000)
            if choose.random() < 0.2:
                pipeline.delete(key)
                places.pop(key, None)
            else:
                places[key] = random_place(choose)
                pipeline.hset(key, mapping={"lon": repr(places[key][0]), "lat": repr(places[key][1])})
        pipeline.execute()
        check(client, places, choose)
        if step == 2:
            placed.kill()
            placed.start()
            client = placed.client()
        if step == 4:
            client.execute_command("DELPREFIX", "car:1")
            places = {key: place for key, place in places.items() if not key.startswith(b"car:1")}
            wait_until(lambda: b"complete" in client.execute_command("SPATIAL.INFO", "places"))
            check(client, places, choose)


def test_search_in_a_circle_finds_the_members_that_geosearch_finds(placed):
    client, choose = placed.client(), random.Random(6)
    for i in range(2000):
        lon, lat = random_place(choose)
        client.geoadd("cells", (lon, lat, f"car:{i}"))
        # GEO commands keep the middle of a cell: the index gets the same place.
        (lon, lat), = client.geopos("cells", f"car:{i}")
        client.hset(f"car:{i}", mapping={"lon": repr(lon), "lat": repr(lat)})
    for _ in range(40):
        lon, lat = random_place(choose)
        radius = choose.choice([10, 1000, 300_000])
        # The client's own geosearch() leaves out a latitude of 0.
        theirs = client.execute_command("GEOSEARCH", "cells", "FROMLONLAT", repr(lon), repr(lat), "BYRADIUS", radius, "m",
                                        store=False, store_dist=False, withdist=False, withcoord=False, withhash=False)
        assert search(client, "RADIUS", repr(lon), repr(lat), radius, "m", count=37) == sorted(theirs)
