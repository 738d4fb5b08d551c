"""A fleet: vehicles report where they are, are found by place, and are forgotten an hour after their last report.

    fleet.py [--port 6379] [--vehicles 100000] [--rounds 2]

A vehicle is a hash with two fields. The index of places follows each HSET and each expiry by itself. EXPIRE makes the server forget a
vehicle; by the database's delete deadline its position has also left all files.
"""

import argparse
import random

import redis

PIPELINE = 500


def create_index(client):
    if b"fleet" not in client.execute_command("SPATIAL.LIST"):
        client.execute_command("SPATIAL.CREATE", "fleet", "PREFIX", "vehicle:", "LON", "lon", "LAT", "lat")
    while b"complete" not in client.execute_command("SPATIAL.INFO", "fleet"):
        pass


def report(client, positions, seconds):
    """Reports all positions: a dict of vehicle to (longitude, latitude)."""
    pipeline = client.pipeline(transaction=False)
    for i, (vehicle, (lon, lat)) in enumerate(positions.items(), 1):
        pipeline.hset(f"vehicle:{vehicle}", mapping={"lon": lon, "lat": lat})
        pipeline.expire(f"vehicle:{vehicle}", seconds)
        if i % PIPELINE == 0:
            pipeline.execute()
    pipeline.execute()


def drive(choose, positions):
    """Moves each vehicle by up to about a kilometer."""
    return {vehicle: (lon + choose.uniform(-0.01, 0.01), lat + choose.uniform(-0.01, 0.01))
            for vehicle, (lon, lat) in positions.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=6379)
    parser.add_argument("--vehicles", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=2, help="how often each vehicle reports")
    parser.add_argument("--seconds", type=int, default=3600, help="how long a position is kept")
    options = parser.parse_args()
    client, choose = redis.Redis(options.host, options.port), random.Random(1)
    create_index(client)
    # Around Berlin, within about 100 km.
    positions = {i: (13.4 + choose.gauss(0, 0.5), 52.5 + choose.gauss(0, 0.4)) for i in range(options.vehicles)}
    for _ in range(options.rounds):
        report(client, positions, options.seconds)
        positions = drive(choose, positions)
    print("vehicles within 5 km of the center:", client.execute_command("SPATIAL.COUNT", "fleet", "RADIUS", 13.4, 52.5, 5, "km"))
    _, nearest = client.execute_command("SPATIAL.SEARCH", "fleet", "NEAREST", 13.4, 52.5, 3, "WITHDIST")
    for vehicle, meters in nearest:
        print(f"{vehicle.decode()} is {float(meters):.0f} m away")


if __name__ == "__main__":
    main()
