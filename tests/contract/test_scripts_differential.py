"""Tests that scripts give the same bytes here and on redis-server, in RESP2 and RESP3: conversions, errors, libraries,
the sandbox.

Each snippet runs as EVAL with two keys and two arguments, on data that SETUP has written. WITH_OTHER_TEXT has the snippets whose
replies differ on purpose, and why.
"""

from pathlib import Path
from random import Random

import pytest

from support.sockets import encode
from test_differential import redis_port  # noqa: F401 (a fixture)
from test_sessions import RawLink

SNIPPETS = Path(__file__).parents[1] / "support" / "differential" / "scripts"  # one script a line, in which \\n is a line feed
SETUP = ["FLUSHALL", "SET s hello", "SET n 10", "RPUSH l a b c", "SADD set x", "HSET h f v", "ZADD z 1.5 m", "SCRIPT FLUSH"]

BYTECODE = ["\x1bLua", "return loadstring('\x1bLuaQ')()"]
COMMANDS = [
    "EVAL", "EVAL return", "EVAL return_1 x", "EVAL return_1 -1", "EVAL return_1 3 a", "EVALSHA abc 0",
    "EVALSHA ffffffffffffffffffffffffffffffffffffffff 0", "EVALSHA abc x", "SCRIPT", "SCRIPT NOSUCH", "SCRIPT HELP",
    "SCRIPT LOAD return_1", "SCRIPT LOAD", "SCRIPT EXISTS", "SCRIPT EXISTS abc ffffffffffffffffffffffffffffffffffffffff",
    "SCRIPT FLUSH x", "SCRIPT FLUSH SYNC", "SCRIPT FLUSH ASYNC", "SCRIPT KILL", "SCRIPT DEBUG x", "SCRIPT FLUSH a b",
    "EVAL_RO redis.call('set','a','b') 0", "EVAL_RO return_redis.call('get','s') 0", "EVAL_RO redis.call('pfcount','s') 0",
    "MULTI", "EVAL redis.call('set','m','1')return_redis.call('get','m') 0", "EVAL error('x') 0", "GET m", "EVAL foo_bar 0", "EXEC",
    "MULTI", "SET m 5", "EVAL return_redis.call('incr','m') 1 m", "INCR m", "EXEC", "EVAL return_redis.call('get','m') 0",
]  # fmt: skip

# These replies have other texts here.
WITH_OTHER_TEXT = {
    "return {unpack({1},1,1e8)}": "unpack checks its range before it asks for stack",
}


# Functions for scripts about bytes and nested values. A table that is too deep for `deep` shows its depth.
HELPERS = (SNIPPETS / "helpers.lua").read_text()


def unescape(line):
    """Returns the script of a line."""
    if "cmsgpack" in line or "struct" in line:
        return HELPERS.replace("\n", " ") + line
    return line.replace("\\r", "\r").replace("\\n", "\n") if "cjson" not in line else line.replace("\\\\", "\\")


def snippets(name):
    return (SNIPPETS / f"{name}.txt").read_text().splitlines()


class Pair:
    """The same connection to both servers."""

    def __init__(self, ours, redis, protocol):
        self.links = [RawLink(ours), RawLink(redis)]
        for link in self.links:
            if protocol == 3:
                link.send("HELLO 3")
                link.value()
        for command in SETUP:
            self.call(*command.split(" "))

    def call(self, *arguments):
        for link in self.links:
            link.socket.sendall(encode(*arguments))
        return [link.value() for link in self.links]

    def close(self):
        for link in self.links:
            link.close()


@pytest.fixture
def pair(server, redis_port, request):  # noqa: F811
    both = Pair(server.port, redis_port, request.param)
    yield both
    both.close()


def compare(pair, scripts, command="EVAL"):
    differing = []
    for script in scripts:
        try:
            ours, redis = pair.call(command, unescape(script), 2, "s", "n", "one", "two")
        except OSError as error:
            raise AssertionError(f"a server has closed the connection after {script}") from error
        if ours != redis and script not in WITH_OTHER_TEXT:
            differing.append((script, ours, redis))
    assert not differing, "\n".join(f"{script}\n  here  {ours}\n  redis {redis}" for script, ours, redis in differing)


@pytest.mark.parametrize("pair", [2, 3], indirect=True)
@pytest.mark.parametrize("name", ["conversions", "errors", "sandbox", "libraries", "messagepack", "struct"])
def test_scripts_reply_as_in_redis(pair, name):
    compare(pair, snippets(name) + BYTECODE)


def random_message(random):
    """Returns bytes that often begin like MessagePack, with lengths that mostly fit."""
    tags = [*range(0x80, 0xE4), 0, 1, 127, 255]
    return b"".join(bytes([random.choice(tags)]) + random.randbytes(random.choice([0, 0, 1, 2, 4, 8])) for _ in range(random.randrange(1, 9)))


def random_format(random):
    return "".join(random.choice(list("xbBhHlLTiIfdsc<>! ") + ["c0", "Bc0", "i3", "I8", "i16", "!4", "!8"]) for _ in range(random.randrange(1, 7)))


# Each returns the results of all arguments, or their errors.
RANDOM_SCRIPTS = {
    "return outcomes(function(text) return cmsgpack.unpack(text) end)": random_message,
    "return outcomes(function(text) return cmsgpack.pack(cmsgpack.unpack(text)) end)": random_message,
    "return outcomes(function(text, data) return struct.unpack(text, data) end, ARGV[1])": random_format,
    "return outcomes(function(text, data) return struct.pack(text, 1, -2.5, 'abc', 3e9, 'x', 7) end)": random_format,
    "return outcomes(function(text) return struct.size(text) end)": random_format,
}
OUTCOMES = HELPERS.replace("\n", " ") + (
    "local function outcomes(f, data) local out = {} "
    "for i = 2, #ARGV do out[i - 1] = deep({pcall(f, ARGV[i], data)}) end return out end "
)


@pytest.mark.parametrize("pair", [2], indirect=True)
@pytest.mark.parametrize("script", RANDOM_SCRIPTS)
def test_random_data_for_cmsgpack_and_struct_gives_the_same_values_and_errors_as_in_redis(pair, script):
    random = Random(script)
    for _ in range(10):
        arguments = [RANDOM_SCRIPTS[script](random) for _ in range(500)]
        data = random.randbytes(40)
        ours, redis = pair.call("EVAL", OUTCOMES + script, 0, data, *arguments)
        if ours != redis:
            differing = [case for case in arguments if len(set(pair.call("EVAL", OUTCOMES + script, 0, data, case))) > 1]
            case = differing[0]
            raise AssertionError((case, data, pair.call("EVAL", OUTCOMES + script, 0, data, case)))


@pytest.mark.parametrize("pair", [2], indirect=True)
def test_scripts_of_eval_ro_reply_as_in_redis(pair):
    compare(pair, snippets("conversions"), "EVAL_RO")


@pytest.mark.parametrize("pair", [2, 3], indirect=True)
def test_commands_about_scripts_reply_as_in_redis(pair):
    for command in COMMANDS:
        ours, redis = pair.call(*[word.replace("_1", " 1").replace("_redis", " redis").replace("foo_bar", "foo bar") for word in command.split(" ")])
        assert ours == redis, command


@pytest.mark.parametrize("pair", [2], indirect=True)
def test_commands_run_by_scripts_have_the_same_effects_as_in_redis(pair):
    compare(pair, snippets("conversions") + snippets("errors"))
    for key in ["s", "n", "l", "h", "z", "t", "kept"]:
        ours, redis = pair.call("GET" if key in "snt" else "TYPE", key)
        assert ours == redis, key
