"""Computes which places a search finds, without code of the server, and asks the server. A place is a pair of numbers: longitude and
latitude."""

import math

EARTH = 6372797.560856  # the radius in meters, as GEO commands have it


def distance(a, b):
    """Returns the meters between two places."""
    (lon1, lat1), (lon2, lat2) = [tuple(map(math.radians, place)) for place in (a, b)]
    v, u = math.sin((lon2 - lon1) / 2), math.sin((lat2 - lat1) / 2)
    return 2 * EARTH * math.asin(min(1, math.sqrt(u * u + math.cos(lat1) * math.cos(lat2) * v * v)))


def is_in_box(place, box):
    """Returns true if a place is in a box (west, south, east, north). If west > east, the box crosses the antimeridian."""
    lon, lat = place
    west, south, east, north = box
    return south <= lat <= north and (west <= lon <= east if west <= east else lon >= west or lon <= east)


def search(client, *shape, count):
    """Returns all records of a shape in the index "places", in order. Each search returns about `count`, and the next one begins at its
    cursor."""
    cursor, keys = b"0", []
    while True:
        cursor, part = client.execute_command("SPATIAL.SEARCH", "places", *shape, "COUNT", count, "CURSOR", cursor)
        keys += part
        if cursor == b"0":
            assert len(keys) == len(set(keys))
            return sorted(keys)
