"""Tests of indexes of places on a real server, beside GEOSEARCH of the same server and a look at each record."""

import math
import random

import pytest

from conftest import SETTINGS
from support.server import Server, wait_until

INDEXED = {**SETTINGS, "storage.memtable_size": "1MiB"}
COMPARATORS = ["hilbert", "zorder", "simple"]
EARTH = 6372797.560856


@pytest.fixture(params=COMPARATORS)
def placed(tmp_path, request):
    with Server(INDEXED, tmp_path, config=None) as running:
        client = running.client()
        create(client, request.param)
        yield running


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
        cursor, keys = client.execute_command("SPATIAL.SEARCH", "places", "BOX", -180, -90, 180, 90, "COUNT", 100_000)
        assert cursor == b"0" and len(keys) == 80_000


def distance(a, b):
    (lon1, lat1), (lon2, lat2) = [tuple(map(math.radians, place)) for place in (a, b)]
    v, u = math.sin((lon2 - lon1) / 2), math.sin((lat2 - lat1) / 2)
    return 2 * EARTH * math.asin(min(1, math.sqrt(u * u + math.cos(lat1) * math.cos(lat2) * v * v)))


def random_place(choose):
    lon = choose.choice([choose.uniform(-180, 179.9), choose.uniform(5, 15), -180.0, 179.5])
    return lon, choose.choice([choose.uniform(-85, 85), choose.uniform(45, 55), 85.0, 0.0])


def found(client, *shape):
    """Returns all records of a search, by its cursors."""
    cursor, keys = b"0", []
    while True:
        cursor, part = client.execute_command("SPATIAL.SEARCH", "places", *shape, "COUNT", 37, "CURSOR", cursor)
        keys += part
        if cursor == b"0":
            assert len(keys) == len(set(keys))
            return sorted(keys)


def check(client, places, choose):
    for _ in range(10):
        center, radius = random_place(choose), choose.choice([100, 5000, 300_000, 5_000_000])
        near = sorted(key for key, place in places.items() if distance(center, place) <= radius)
        assert found(client, "RADIUS", *map(repr, center), radius, "m") == near
        west, south = random_place(choose)
        east, north = choose.uniform(-180, 180), choose.uniform(south, 85)
        inside = sorted(
            key for key, (lon, lat) in places.items()
            if south <= lat <= north and (west <= lon <= east if west <= east else lon >= west or lon <= east))
        assert found(client, "BOX", repr(west), repr(south), repr(east), repr(north)) == inside
        assert client.execute_command("SPATIAL.COUNT", "places", "BOX", repr(west), repr(south), repr(east), repr(north)) == len(inside)
        by_distance = sorted((distance(center, place), key) for key, place in places.items())[:20]
        _, nearest = client.execute_command("SPATIAL.SEARCH", "places", "NEAREST", *map(repr, center), 20, "WITHDIST")
        assert [float(d) for _, d in nearest] == pytest.approx([d for d, _ in by_distance], abs=0.001)


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
        assert found(client, "RADIUS", repr(lon), repr(lat), radius, "m") == sorted(theirs)
