"""Tests with a wall clock that is set while the server runs, or is wrong when the server starts. libfaketime fakes the clock for
the server only."""

import os
import re
import time
from pathlib import Path

import pytest

from support.server import wait_until


@pytest.fixture
def stepped(fresh):
    """Gives a server, and a function that sets its wall clock: "+3600" is an hour ahead of the real clock, "@1969-01-01 00:00:00"
    is absolute."""
    if "EBBTIDE_SANITIZED" in os.environ:
        pytest.skip("a sanitizer's library has to be the first one")
    library = next(iter(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1")), None)
    if library is None:
        pytest.skip("there is no libfaketime: ./dev test installs it")
    file = fresh.home / "clock"
    fake = {"LD_PRELOAD": library, "FAKETIME_TIMESTAMP_FILE": file, "FAKETIME_NO_CACHE": 1, "DONT_FAKE_MONOTONIC": 1}
    fresh.prefix = ["env", *(f"{name}={value}" for name, value in fake.items())]

    def step(clock):
        file.write_text(f"{clock}\n")

    step("+0")
    return fresh, step


def uptime(server):
    return float(re.search(r"^ebbtide_uptime_seconds (\S+)$", server.http("/metrics")[1], re.MULTILINE)[1])


def test_wall_clock_before_1970_counts_as_1970(stepped):
    server, step = stepped
    step("@1969-01-01 00:00:00")
    server.start()
    client = server.client()
    assert client.time()[0] == 0
    client.set("k", "v", ex=100)
    assert 90_000 < client.pttl("k") <= 100_000
    assert uptime(server) < 60
    server.kill()
    server.start()
    assert server.client().get("k") == b"v"


def test_wall_clock_set_back_delays_no_expiry_and_the_uptime_stays_right(stepped):
    server, step = stepped
    server.start()
    client = server.client()
    client.set("k", "v", px=1500)
    client.set("long", "v", ex=3600)
    step("-7200")
    wait_until(lambda: client.time()[0] < time.time() - 7000, what="the clock is back")
    wait_until(lambda: client.get("k") is None, 5, "the key has expired")
    assert 3_500_000 < client.pttl("long") <= 3_600_000
    assert uptime(server) < 60 and client.info("server")["uptime_in_seconds"] < 60


def test_wall_clock_set_two_days_ahead_expires_no_key_and_is_logged(stepped):
    server, step = stepped
    server.start()
    client = server.client()
    client.set("k", "v", ex=86_400)
    step("+172800")
    wait_until(lambda: "the wall clock went forward by more than a day" in server.log(), what="the server has logged the jump")
    assert client.get("k") == b"v" and client.ttl("k") > 86_000
    assert uptime(server) < 60 and client.info("server")["uptime_in_seconds"] < 60
