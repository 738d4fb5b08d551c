"""An erasure request: deletes all data of a user, waits until no file has it, and prints the certificate.

    erasure.py [--port 6379] [--user 42] [--seconds 60]

Keys of a user share a prefix, so one range delete takes all of them. Its reply is a purge ticket. PURGE.NOW starts the removal at once
instead of by the delete deadline; PURGE.WAIT waits for it; PURGE.REPORT is what an auditor gets.
"""

import argparse
import sys

import redis


def erase(client, user, seconds):
    """Returns the purge ticket, and whether the removal ended in time."""
    ticket = client.execute_command("DELPREFIX", f"user:{user}:").decode()
    client.execute_command("PURGE.NOW", ticket)
    done = client.execute_command("PURGE.WAIT", ticket, int(seconds * 1000))
    return ticket, done == 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=6379)
    parser.add_argument("--user", default="42")
    parser.add_argument("--seconds", type=float, default=60, help="how long to wait for the removal")
    options = parser.parse_args()
    client = redis.Redis(options.host, options.port)
    client.mset({f"user:{options.user}:{field}": "secret" for field in ("name", "mail", "address")})
    ticket, done = erase(client, options.user, options.seconds)
    print(f"ticket {ticket}: {'removed from all files' if done else 'not yet removed'}")
    report = client.execute_command("PURGE.REPORT", ticket)
    print(report.decode() if isinstance(report, bytes) else report)
    sys.exit(0 if done else 1)


if __name__ == "__main__":
    main()
