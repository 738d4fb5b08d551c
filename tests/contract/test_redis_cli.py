"""What redis-cli does by itself: its samplers, counters, mass insertion, and the hints that it makes from COMMAND DOCS."""

import shutil
import subprocess

import pytest

CLI = shutil.which("redis-cli")


def cli(server, *options, stdin=b"", seconds=60):
    if CLI is None:
        pytest.fail("there is no redis-cli: ./dev test installs it")
    return subprocess.run([CLI, "-p", str(server.port), *options], input=stdin, capture_output=True, timeout=seconds, check=False)


def text_of(server, *options, **more):
    done = cli(server, *options, **more)
    assert done.returncode == 0, done
    return done.stdout.decode()


@pytest.fixture(scope="module")
def filled(server):
    client = server.client()
    client.flushall()
    client.mset({f"user:{i}": "x" * (i % 50) for i in range(2000)})
    client.set("the:largest", "y" * 5000)
    return server


def test_bigkeys(filled):
    out = text_of(filled, "--bigkeys")
    assert "Sampled 2001 keys in the keyspace!" in out
    assert "Biggest string found '\"the:largest\"' has 5000 bytes" in out
    assert "2001 strings with" in out


def test_memkeys(filled):
    out = text_of(filled, "--memkeys")
    assert "Sampled 2001 keys in the keyspace!" in out
    assert "Biggest string found '\"the:largest\"' has 5" in out


def test_hotkeys_says_why_there_are_none(filled):
    out = cli(filled, "--hotkeys").stdout + cli(filled, "--hotkeys").stderr
    assert b"An LFU maxmemory policy is not selected" in out


def test_scan(filled):
    assert len(set(text_of(filled, "--scan").split())) == 2001
    assert len(set(text_of(filled, "--scan", "--pattern", "user:1*").split())) == 1111


def test_pipe(filled):
    commands = b"".join(b"*3\r\n$3\r\nSET\r\n$%d\r\npipe:%d\r\n$1\r\nv\r\n" % (len(b"pipe:%d" % i), i) for i in range(20_000))
    out = text_of(filled, "--pipe", stdin=commands + b"PING\r\n")
    assert "errors: 0, replies: 20001" in out
    assert filled.client().get("pipe:19999") == b"v"


def ended_after(server, lines, *options):
    """The first lines of a mode that goes on for ever, each as soon as it comes."""
    with subprocess.Popen(["stdbuf", "-oL", CLI, "-p", str(server.port), *options], stdout=subprocess.PIPE) as process:
        try:
            return [process.stdout.readline().decode() for _ in range(lines)]
        finally:
            process.kill()


def test_stat(filled):
    title, names, first, _ = ended_after(filled, 4, "-i", "0.1", "--stat")
    assert "data" in title and "load" in title
    assert names.split()[:3] == ["keys", "mem", "clients"]
    keys, memory = first.split()[:2]
    assert int(keys) >= 1900 and memory[-1] in "BKMG"


def test_latency(filled):
    # Without a terminal the mode samples for a second and prints: minimum, maximum, average, number.
    least, most, mean, samples = text_of(filled, "-i", "0.3", "--latency", "--raw", seconds=30).split()[:4]
    assert int(least) <= float(mean) <= int(most) and int(samples) > 1


def test_hints_have_all_that_they_are_made_of(server):
    """redis-cli asks COMMAND DOCS for every command and shows the arguments: every command that takes some has to list them."""
    connection = server.client().connection_pool.get_connection("_")

    def ask(*words):
        connection.send_command("COMMAND", *words)
        return connection.read_response()

    docs = ask("DOCS")
    bare = []

    def look(name, doc, info_arity):
        doc = dict(zip(doc[::2], doc[1::2], strict=True))
        assert doc[b"summary"] and doc[b"since"] and doc[b"group"] and doc[b"complexity"], name
        words = 1 + name.count(b"|")
        takes_some = info_arity < -words or info_arity > words
        if b"subcommands" in doc:
            for sub, inner in zip(doc[b"subcommands"][::2], doc[b"subcommands"][1::2], strict=True):
                look(sub, inner, arity(sub))
        elif takes_some and b"arguments" not in doc:
            bare.append(name)

    def arity(name):
        return ask("INFO", name)[0][1]

    for name, doc in zip(docs[::2], docs[1::2], strict=True):
        look(name, doc, arity(name))
    # Whatever follows is a command of its own, in any form.
    assert set(bare) <= {b"command|getkeys", b"command|getkeysandflags", b"debug"}, bare
