"""A cache in front of a slow function: values expire, and all values of one kind are invalidated in one command.

    cache.py [--port 6379]
"""

import argparse
import json
import time

import redis


class Cache:
    def __init__(self, client, prefix, seconds):
        self.client, self.prefix, self.seconds = client, prefix, seconds

    def get(self, name, compute):
        """Returns the cached value of `name`; if there is none, computes and stores it."""
        key = self.prefix + name
        kept = self.client.get(key)
        if kept is not None:
            return json.loads(kept)
        value = compute(name)
        self.client.set(key, json.dumps(value), ex=self.seconds)
        return value

    def invalidate(self, beginning=""):
        """Deletes all values whose names begin with `prefix`, at the same cost for any number."""
        self.client.execute_command("DELPREFIX", self.prefix + beginning)


def slow_report(name):
    time.sleep(0.2)
    return {"report": name, "total": len(name) * 100}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=6379)
    options = parser.parse_args()
    cache = Cache(redis.Redis(options.host, options.port), "cache:report:", seconds=60)
    cache.invalidate()
    for text in ("computed", "cached"):
        start = time.monotonic()
        cache.get("2026-11", slow_report)
        print(f"{text}: {(time.monotonic() - start) * 1000:.1f} ms")
    cache.invalidate("2026-")
    print("after the invalidation:", "kept" if cache.client.exists("cache:report:2026-11") else "deleted")


if __name__ == "__main__":
    main()
