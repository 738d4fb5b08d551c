"""Tests of modes of redis-cli: --bigkeys, --memkeys, --scan, --pipe, --stat, --latency, and its hints from COMMAND DOCS."""

import re
import subprocess

import pytest

from support.server import ROOT
from support.sockets import Link, pairs


def said(server, *options, **more):
    return server.cli(*options, **more).decode()


@pytest.fixture(scope="module")
def filled(server):
    client = server.client()
    client.flushdb()
    client.mset({f"user:{i}": "x" * (i % 50) for i in range(2000)})
    client.set("the:largest", "y" * 5000)
    return server


SIZES = {"first": 5, "most": 300, "other": 70}  # the elements of three collections of each type; the second one has the large form


@pytest.fixture(scope="module")
def mixed(server):
    """A second database with strings and collections of each type."""
    client = server.client(db=1)
    client.flushdb()
    client.mset({f"user:{i}": "x" * (i % 50) for i in range(2000)})
    client.set("the:largest", "y" * 5000)
    for key, size in SIZES.items():
        names = [f"{key}-{i:03d}" for i in range(size)]
        client.hset(f"hash:{key}", mapping=dict.fromkeys(names, "value"))
        client.sadd(f"set:{key}", *names)
        client.zadd(f"zset:{key}", {name: i for i, name in enumerate(names)})
        client.rpush(f"list:{key}", *names)
    return server


UNITS = {"hash": "fields", "set": "members", "zset": "members", "list": "items"}
NAMES = {"hash": "hashs", "set": "sets", "zset": "zsets", "list": "lists"}  # redis-cli's plurals


def test_redis_cli_bigkeys_finds_the_largest_value_of_each_type(mixed):
    out = said(mixed, "-n", "1", "--bigkeys")
    assert "Sampled 2013 keys in the keyspace!" in out
    assert "Biggest string found '\"the:largest\"' has 5000 bytes" in out
    assert "2001 strings with" in out
    for kind, unit in UNITS.items():
        assert re.search(rf"Biggest +{kind} found '\"{kind}:most\"' has 300 {unit}\n", out), out
        assert re.search(rf"\n3 {NAMES[kind]} with {sum(SIZES.values())} {unit} \(", out), out


def test_redis_cli_memkeys_finds_the_largest_value_of_each_type(mixed):
    out = said(mixed, "-n", "1", "--memkeys")
    assert "Sampled 2013 keys in the keyspace!" in out
    client = mixed.client(db=1)
    for kind, key in {"string": "the:largest", **{kind: f"{kind}:most" for kind in UNITS}}.items():
        match = re.search(rf"Biggest +{kind} found '\"{key}\"' has (\d+) bytes\n", out)
        assert match and int(match[1]) == client.memory_usage(key), out
    for kind, name in NAMES.items():
        size = sum(client.memory_usage(f"{kind}:{key}") for key in SIZES)
        assert re.search(rf"\n3 {name} with {size} bytes \(", out), out


def test_redis_cli_hotkeys_reports_that_no_lfu_policy_is_selected(filled):
    with pytest.raises(RuntimeError, match="An LFU maxmemory policy is not selected"):
        filled.cli("--hotkeys")


def test_redis_cli_scan_lists_all_keys_or_those_that_match_a_pattern(filled):
    assert len(set(said(filled, "--scan").split())) == 2001
    assert len(set(said(filled, "--scan", "--pattern", "user:1*").split())) == 1111


def test_redis_cli_pipe_inserts_20000_keys_without_errors(filled):
    commands = b"".join(b"*3\r\n$3\r\nSET\r\n$%d\r\npipe:%d\r\n$1\r\nv\r\n" % (len(b"pipe:%d" % i), i) for i in range(20_000))
    out = said(filled, "--pipe", stdin=commands + b"PING\r\n")
    assert "errors: 0, replies: 20001" in out
    assert filled.client().get("pipe:19999") == b"v"


def ended_after(server, lines, *options):
    """Yields the first lines of a mode that never ends, each as soon as it is printed."""
    with subprocess.Popen(["stdbuf", "-oL", "redis-cli", "-p", str(server.port), *options], stdout=subprocess.PIPE) as process:
        try:
            return [process.stdout.readline().decode() for _ in range(lines)]
        finally:
            process.kill()


def test_redis_cli_stat_prints_the_number_of_keys_and_the_memory(filled):
    title, names, first, _ = ended_after(filled, 4, "-i", "0.1", "--stat")
    assert "data" in title and "load" in title
    assert names.split()[:3] == ["keys", "mem", "clients"]
    keys, memory = first.split()[:2]
    assert int(keys) >= 2001 and memory[-1] in "BKMG"


def test_redis_cli_latency_prints_minimum_maximum_and_average(filled):
    # Without a terminal the mode samples for a second and prints minimum, maximum, average and number.
    least, most, mean, samples = said(filled, "-i", "0.3", "--latency", "--raw").split()[:4]
    assert int(least) <= float(mean) <= int(most) and int(samples) >= 1


def test_command_docs_have_the_arguments_that_redis_cli_shows_as_hints(server):
    """redis-cli shows the arguments of COMMAND DOCS, so every command with arguments has to list them."""
    bare = []

    def look(name, doc):
        doc = pairs(doc)
        assert doc["summary"] and doc["since"] and doc["group"] and doc["complexity"], name
        arity, words = link.call("COMMAND", "INFO", name)[0][1], 1 + name.count("|")
        takes_some = arity < -words or arity > words
        if "subcommands" in doc:
            for sub, inner in pairs(doc["subcommands"]).items():
                look(sub, inner)
        elif takes_some and "arguments" not in doc:
            bare.append(name)

    with Link(server.port) as link:
        docs = pairs(link.call("COMMAND", "DOCS"))
        assert len(docs) == link.call("COMMAND", "COUNT")
        for name, doc in docs.items():
            look(name, doc)
    # The arguments of these commands are commands of any form.
    assert set(bare) <= {"command|getkeys", "command|getkeysandflags", "debug"}, bare


def test_commands_md_lists_exactly_the_commands_that_redis_lacks(server):
    text = (ROOT / "server/docs/commands.md").read_text()
    ours = {name.upper() for name in said(server, "COMMAND", "LIST").split() if "." in name}
    assert ours == set(re.findall(r"\b[A-Z]+\.[A-Z]+\b", text))
    for name in ("DELRANGE", "DELPREFIX", "COUNTRANGE"):
        assert f"| `{name} " in text
