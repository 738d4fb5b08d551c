"""A rate limiter: at most N requests per user in any window of so many seconds, with counters that expire.

    rate_limiter.py [--port 6379] [--limit 5] [--window 10]

The count of a sliding window is estimated from two fixed windows: the current one, and the part of the previous one that the sliding window
still covers. Each user has two small keys, which the server removes after they have expired.
"""

import argparse
import time

import redis


class RateLimiter:
    def __init__(self, client, limit, window_seconds):
        self.client, self.limit, self.window = client, limit, window_seconds

    def allow(self, user, now=None):
        """Returns whether the request is allowed. Only an allowed request counts."""
        now = time.time() if now is None else now
        number, passed = divmod(now, self.window)
        current, before = (f"rate:{user}:{int(number) - age}" for age in (0, 1))
        counts = [int(count or 0) for count in self.client.mget(current, before)]
        if counts[0] + counts[1] * (1 - passed / self.window) >= self.limit:
            return False
        with self.client.pipeline(transaction=True) as pipe:
            pipe.incr(current)
            pipe.expire(current, int(2 * self.window))
            pipe.execute()
        return True


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=6379)
    parser.add_argument("--limit", type=int, default=5, help="requests a window")
    parser.add_argument("--window", type=float, default=10, help="seconds")
    options = parser.parse_args()
    limiter = RateLimiter(redis.Redis(options.host, options.port), options.limit, options.window)
    for request in range(1, options.limit + 3):
        print(f"request {request}: {'allowed' if limiter.allow('ada') else 'refused'}")


if __name__ == "__main__":
    main()
