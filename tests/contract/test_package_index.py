"""Tests that the machine's package index, loaded through redis-cli --pipe, is read back byte for byte after kill -9.

Each stanza of `apt-cache dumpavail` becomes one key, `package:version`, with the stanza as its value. On Debian 12 these are
about 60,000 keys with values of about 1 KB. Names share prefixes, and values have very different lengths. A machine without apt,
or with empty lists, gets stanzas of the same shape from a seed."""

import random
import shutil
import subprocess

import pytest

from support.server import Server
from support.sockets import encode


def dumped_stanzas():
    if not shutil.which("apt-cache"):
        return []
    text = subprocess.run(["apt-cache", "dumpavail"], capture_output=True, check=False).stdout
    return [stanza for stanza in text.split(b"\n\n") if stanza.strip()]


def made_up_stanzas(count=60_000, seed=20):
    """Returns stanzas like the real ones, for a machine that has none."""
    choose = random.Random(seed)
    stems = ["lib%s", "lib%s-dev", "%s-doc", "python3-%s", "golang-%s-dev", "linux-image-%s", "%s"]
    stanzas = []
    for number in range(count):
        name = choose.choice(stems) % f"{choose.choice('abcdefghijklmnopqrstuvwxyz')}{number:x}"
        text = " ".join(f"{choose.getrandbits(40):x}" for _ in range(choose.randint(10, 180)))
        stanzas.append(f"Package: {name}\nVersion: {choose.randint(0, 9)}.{choose.randint(0, 99)}-1\nDescription: {text}".encode())
    return stanzas


def records():
    result = {}
    stanzas = dumped_stanzas()
    for stanza in stanzas if len(stanzas) >= 1_000 else made_up_stanzas():
        fields = dict(line.split(b": ", 1) for line in stanza.split(b"\n") if line[:1].isalpha() and b": " in line)
        if b"Package" in fields and b"Version" in fields:
            result[fields[b"Package"] + b":" + fields[b"Version"]] = stanza
    return result


def scan(client, **options):
    return set(client.scan_iter(count=1000, **options))


def check_contents(client, expected):
    keys = sorted(expected)
    for start in range(0, len(keys), 500):
        chunk = keys[start : start + 500]
        for key, value in zip(chunk, client.mget(chunk)):
            assert value == expected[key], key


@pytest.fixture(scope="module")
def loaded():
    """Gives a server with the index, killed with -9 after the load and restarted."""
    expected = records()
    # The memtable is small, so that the load causes flushes and merges.
    server = Server(settings={"storage.memtable_size": "4MiB", "tree.file_size": "4MiB"})
    with server:
        said = server.cli("--pipe", stdin=b"".join(encode("SET", key, value) for key, value in expected.items()))
        assert b"errors: 0, replies: %d" % len(expected) in said
        server.kill()
        server.start()
        yield server, expected


def test_every_package_record_is_read_back_byte_for_byte_after_kill_9(loaded):
    server, expected = loaded
    client = server.client()
    assert client.dbsize() == len(expected)
    check_contents(client, expected)


def test_scan_with_match_finds_exactly_the_matching_keys(loaded):
    server, expected = loaded
    client = server.client()
    assert scan(client, match="lib*") == {key for key in expected if key.startswith(b"lib")}
    assert scan(client, match="*-dev:*") == {key for key in expected if b"-dev:" in key}
    assert scan(client) == set(expected)


def test_deleted_range_and_prefix_stay_deleted_after_kill_9(loaded):
    server, expected = loaded
    client = server.client()
    client.execute_command("DELRANGE", b"m", b"n")
    client.execute_command("DELPREFIX", b"libx")
    left = {key: value for key, value in expected.items() if not b"m" <= key < b"n" and not key.startswith(b"libx")}
    assert 0 < len(left) < len(expected)
    assert scan(client) == set(left)

    server.kill()
    server.start()
    client = server.client()
    assert scan(client) == set(left)
    check_contents(client, left)
    client.execute_command("TREE.COMPACT")
    assert scan(client) == set(left)
    check_contents(client, left)
    assert not client.exists(*[key for key in expected if key not in left][:100])
