"""Tests of users and their rights: replies as from redis-server, connections of changed users, the users file, and the shipped
users file."""

import os
import re
import stat
import subprocess

import pytest
import redis

from contract import test_differential
from support.server import ROOT, binary, redis_server


class Link(test_differential.Link):
    """Makes a connection show pushes of RESP3 as arrays."""

    def _line(self):
        line = super()._line()
        return b"*" + line[1:] if line[:1] == b">" else line


# Both servers get these commands one after another on one connection per user. Redis 7.0 and 7.2 word denials differently, and
# 7.2 keeps the rules as they were given. So the texts of denials become `DENIED`, and descriptions of commands are not compared.
SESSIONS = {
    "commands": [
        ("", "ACL SETUSER app on >pw ~* &* +@all -@dangerous +keys"),
        ("app", "SET k v"), ("app", "GET k"), ("app", "FLUSHALL"), ("app", "KEYS *"), ("app", "CONFIG GET port"), ("app", "ACL WHOAMI"),
        ("app", "ACL LIST"), ("app", "CLIENT GETREDIR"), ("app", "CLIENT KILL 1.2.3.4:5"), ("app", "NONSENSE"), ("app", "GET"), ("app", "CONFIG NONSENSE"),
        ("", "ACL SETUSER app -client|getredir +flushall -@read"),
        ("app", "CLIENT GETREDIR"), ("app", "CLIENT GETNAME"), ("app", "FLUSHALL"), ("app", "GET k"), ("app", "STRLEN k"), ("app", "SET k v"),
        ("", "ACL SETUSER app nocommands +config|set +select|1"),
        ("app", "CONFIG GET port"), ("app", "SELECT 1"), ("app", "SELECT 0"), ("app", "PING"), ("app", "AUTH app pw"), ("app", "RESET"), ("app", "PING"),
    ],
    "keys": [
        ("", "ACL SETUSER app on >pw ~app:* %R~read:* %W~write:* +@all"),
        ("app", "SET app:1 v"), ("app", "SET write:1 v"), ("app", "SET read:1 v"), ("app", "GET app:1"), ("app", "GET read:1"), ("app", "GET write:1"),
        ("app", "SET write:1 v GET"), ("app", "MSET app:1 a write:1 b"), ("app", "MSET app:1 a read:1 b"), ("app", "MGET app:1 read:1"),
        ("app", "MGET app:1 write:1"), ("app", "COPY read:1 write:2"), ("app", "COPY write:1 app:2"), ("app", "RENAME app:1 write:1"),
        ("app", "RENAME write:1 app:1"), ("app", "EXISTS write:1"), ("app", "EXISTS other"), ("app", "DEL write:1"), ("app", "DEL read:1"),
        ("app", "GETDEL write:1"), ("app", "EXPIRE write:1 100"), ("app", "EXPIRE read:1 100"), ("app", "TTL write:1"), ("app", "TTL read:1"),
        ("app", "INCR write:1"), ("app", "APPEND write:3 x"), ("app", "STRLEN write:3"), ("app", "BITOP AND write:4 read:1 app:1"),
        ("app", "BITOP AND read:4 app:1"), ("app", "BITFIELD read:1 GET u8 0"), ("app", "BITFIELD read:1 SET u8 0 1"), ("app", "BITFIELD_RO read:1 GET u8 0"),
        ("app", "PFADD write:5 a"), ("app", "PFCOUNT write:5"), ("app", "PFMERGE write:6 read:9"), ("app", "TYPE write:1"), ("app", "TOUCH write:1"),
        ("app", "WATCH write:1"), ("app", "WATCH other"), ("app", "DUMP write:1"), ("app", "OBJECT ENCODING other"), ("app", "LCS read:1 app:1"),
        ("app", "SETEX write:1 10 x"), ("app", "GETSET write:1 x"), ("app", "SETNX write:1 x"), ("app", "GETRANGE write:1 0 1"), ("app", "SETRANGE write:1 0 x"),
        ("app", "GETEX write:1"), ("app", "SETBIT write:7 1 1"), ("app", "GETBIT write:7 1"), ("app", "KEYS nothing*"), ("app", "MOVE write:1 1"),
    ],
    "selectors": [
        ("", "ACL SETUSER app on >pw ~a* +get (~b* +set +@pubsub &x) (%R~c* +@read)"),
        ("app", "GET a1"), ("app", "SET a1 v"), ("app", "SET b1 v"), ("app", "GET b1"), ("app", "GET c1"), ("app", "STRLEN c1"), ("app", "SET c1 v"),
        ("app", "PUBLISH x 1"), ("app", "PUBLISH y 1"),
        ("", "ACL SETUSER app clearselectors"),
        ("app", "SET b1 v"), ("app", "GET a1"),
    ],
    "channels": [
        ("", "ACL SETUSER app on >pw ~* +@all resetchannels &news.*"),
        ("app", "PUBLISH news.1 x"), ("app", "PUBLISH other x"), ("app", "SPUBLISH other x"), ("app", "PSUBSCRIBE news.1*"), ("app", "SUBSCRIBE news.1 other"),
        ("app", "PSUBSCRIBE news.*"), ("app", "PUNSUBSCRIBE other"), ("app", "UNSUBSCRIBE other"), ("app", "SSUBSCRIBE news.2"), ("app", "SSUBSCRIBE other"),
    ],
    "transactions": [
        ("", "ACL SETUSER app on >pw ~a* +@all -flushall"),
        ("app", "MULTI"), ("app", "SET a 1"), ("app", "GET b"), ("app", "EXEC"), ("app", "MULTI"), ("app", "FLUSHALL"), ("app", "DISCARD"),
        ("app", "MULTI"), ("app", "SET a 1"), ("app", "SET a2 1"), ("", "ACL SETUSER app resetkeys ~a"), ("app", "EXEC"), ("app", "GET a2"),
        ("app", "MULTI"), ("app", "SET a 1"), ("", "ACL SETUSER app -set -exec"), ("app", "EXEC"), ("", "ACL SETUSER app +exec"), ("app", "GET a"),
    ],
    "setuser": [
        ("", line) for line in (
            "ACL SETUSER x", "ACL SETUSER x ON", "ACL SETUSER x >a <a", "ACL SETUSER x <a", "ACL SETUSER x #12", "ACL SETUSER x !12",
            "ACL SETUSER x +nonsense", "ACL SETUSER x -nonsense", "ACL SETUSER x +@nonsense", "ACL SETUSER x nonsense", "ACL SETUSER x +config|nonsense",
            "ACL SETUSER x +config|get|x", "ACL SETUSER x +select|", "ACL SETUSER x -select|0", "ACL SETUSER x ~* ~b", "ACL SETUSER x &* &b",
            "ACL SETUSER x %~a", "ACL SETUSER x %X~a", "ACL SETUSER x %RW~a %rw~b", "ACL SETUSER x (~a", "ACL SETUSER x (~a +get) (+nonsense)",
            "ACL SETUSER x (on)", "ACL SETUSER x ()", "ACL SETUSER 'a b' on", "ACL SETUSER", "ACL DELUSER", "ACL DELUSER default", "ACL DELUSER carol",
            "ACL GETUSER", "ACL GETUSER carol", "ACL GETUSER x", "ACL USERS", "ACL DELUSER x x carol", "ACL USERS", "ACL WHOAMI", "ACL NONSENSE",
            "ACL SETUSER y allkeys allchannels allcommands nopass on skip-sanitize-payload", "ACL GETUSER y", "ACL LIST", "ACL SETUSER y reset", "ACL GETUSER y",
            "ACL SETUSER y sanitize-payload >p #" + "ab" * 32, "ACL GETUSER y", "ACL LOAD", "ACL SAVE", "ACL CAT nonsense", "ACL GENPASS 0", "ACL GENPASS x",
            "ACL LOG x", "ACL LOG 0", "ACL LOG RESET", "ACL LOG", "ACL DRYRUN", "ACL DRYRUN carol GET a", "ACL DRYRUN y NONSENSE", "ACL DRYRUN y GET",
            "ACL DRYRUN y GET a", "ACL SETUSER y +get ~a", "ACL DRYRUN y GET a", "ACL DRYRUN y GET b", "ACL DRYRUN y CONFIG GET x", "ACL SETUSER z off nopass",
            "AUTH z x", "AUTH y p", "ACL DELUSER y", "CLIENT KILL USER carol",
        )
    ],
}  # fmt: skip


def compared(reply):
    """Returns a reply without the texts that differ between Redis 7.0 and 7.2."""
    reply = re.sub(r"NOPERM (User \S+ has no permissions|this user has no permissions|No permissions)[^,\]]*", "NOPERM DENIED", reply)
    reply = re.sub(r'"(User \S+|This user) has no permissions to ', '"DENIED to ', reply)
    reply = re.sub(r'"commands": "[^"]*"|"commands", "[^"]*"', "COMMANDS", reply)
    reply = re.sub(r'"(on|off)( nopass)? (skip-)?sanitize-payload', r'"\1\2', reply)
    reply = re.sub(r'(<|\[)("on"|"off")(, "nopass")?(, "(skip-)?sanitize-payload")?', r"\1\2\3", reply)  # only 7.0 shows sanitize-payload
    reply = re.sub(r'("user \S+ (on|off)( nopass)?) (skip-)?sanitize-payload', r"\1", reply)
    return re.sub(r"[+-]@all[^\"]*", "RULES", reply)


def replies(port, session, protocol):
    links = {"": Link(port)}
    links[""].call(*"ACL DELUSER app x y z".split())
    links[""].call("FLUSHALL")
    out = []
    for user, line in session:
        if user not in links:
            links[user] = Link(port)
            assert links[user].call("HELLO", str(protocol), "AUTH", user, "pw").startswith("{" if protocol == 3 else "[")
        words = re.findall(r"'([^']*)'|(\S+)", line)
        reply = links[user].call(*[quoted or plain for quoted, plain in words])
        out.append((user, line, compared(reply)))
    for link in links.values():
        link.close()
    return out


@pytest.fixture(scope="module")
def redis_port(tmp_path_factory):
    with redis_server(tmp_path_factory.mktemp("redis")) as port:
        yield port


@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.parametrize("name", SESSIONS)
def test_user_with_limited_rights_gets_the_replies_of_redis(name, protocol, server, redis_port):
    assert replies(server.port, SESSIONS[name], protocol) == replies(redis_port, SESSIONS[name], protocol)


def test_acl_cat_lists_the_categories_of_redis_and_their_commands(server, redis_port):
    ours, theirs = (redis.Redis(port=port) for port in (server.port, redis_port))
    categories = theirs.acl_cat()
    assert ours.acl_cat() == categories
    mine, wanted = ({name: client.acl_cat(name) for name in categories} for client in (ours, theirs))
    shared = set(sum(mine.values(), [])) & set(sum(wanted.values(), []))
    assert len(shared) > 250
    for name in categories:
        assert sorted(shared.intersection(mine[name])) == sorted(shared.intersection(wanted[name])), name
        assert len(mine[name]) == len(set(mine[name])), name


def test_denied_command_gets_the_error_text_of_redis_7_2(server):
    admin, app = Link(server.port), Link(server.port)
    admin.call("ACL", "SETUSER", "app", "reset", "on", ">pw", "~a*", "&a*", "+@all", "-flushall")
    app.call("AUTH", "app", "pw")
    assert app.call("FLUSHALL") == "(error) NOPERM User app has no permissions to run the 'flushall' command"
    assert app.call("GET", "b") == "(error) NOPERM No permissions to access a key"
    assert app.call("PUBLISH", "b", "x") == "(error) NOPERM No permissions to access a channel"


def test_connections_get_new_rights_if_their_user_changes_and_are_closed_if_it_is_removed(server):
    admin, app, listener, narrow = (Link(server.port) for _ in range(4))
    admin.call("ACL", "SETUSER", "app", "reset", "on", ">pw", "~*", "&*", "+@all")
    for link in (app, listener, narrow):
        assert link.call("AUTH", "app", "pw") == "OK"
    listener.call("SUBSCRIBE", "other")
    narrow.call("SUBSCRIBE", "news.1")
    assert app.call("SET", "k", "v") == "OK"
    assert " user=app " in admin.call("CLIENT", "LIST")
    admin.call("ACL", "SETUSER", "app", "resetchannels", "&news.*", "-set")
    assert app.call("SET", "k", "v").startswith("(error) NOPERM")
    assert app.call("GET", "k") == '"v"'
    with pytest.raises((ConnectionError, OSError)):  # its channel is not allowed any more
        listener.call("PING")
    assert narrow.call("PING").startswith('["pong"')
    admin.call("ACL", "SETUSER", "app", "off")
    assert app.call("GET", "k") == '"v"'  # a connection stays, as in Redis
    assert Link(server.port).call("AUTH", "app", "pw").startswith("(error) WRONGPASS")
    assert admin.call("CLIENT", "KILL", "USER", "carol") == "(error) ERR No such user 'carol'"
    assert admin.call("ACL", "DELUSER", "app") == "(integer) 1"
    for link in (app, narrow):
        with pytest.raises((ConnectionError, OSError)):
            link.call("PING")


def test_new_connections_must_authenticate_as_soon_as_default_has_a_password(fresh):
    fresh.start()
    old = Link(fresh.port)
    assert old.call("ACL", "SETUSER", "default", "resetpass", ">secret") == "OK"
    assert old.call("PING") == "PONG"
    new = Link(fresh.port)
    assert new.call("PING") == "(error) NOAUTH Authentication required."
    assert new.call("AUTH", "secret") == "OK"
    assert old.call("CONFIG", "SET", "requirepass", "other") == "OK"
    assert Link(fresh.port).call("AUTH", "secret").startswith("(error) WRONGPASS")
    assert Link(fresh.port).call("AUTH", "other") == "OK"
    old.call("ACL", "SETUSER", "default", "-flushall")
    assert old.call("CONFIG", "SET", "requirepass", "") == "OK"
    assert Link(fresh.port).call("FLUSHALL").startswith("(error) NOPERM User default has no permissions")


def test_acl_save_writes_a_private_file_and_a_restart_loads_the_same_users(fresh, tmp_path):
    file = tmp_path / "users.acl"
    file.write_text("# comment\nuser app on >pw ~app:* &* +@all -@dangerous (~x* +get)\n")
    file.chmod(0o644)
    fresh.set(f"server.users_file={file}").start()
    link = Link(fresh.port)
    assert link.call("ACL", "SETUSER", "second", "on", ">two", "%R~*", "+@read") == "OK"
    before = link.call("ACL", "LIST")
    assert link.call("ACL", "SAVE") == "OK"
    assert stat.S_IMODE(os.stat(file).st_mode) == 0o600
    assert link.call("ACL", "LOAD") == "OK"
    assert Link(fresh.port).call("ACL", "LIST") == before
    fresh.stop()
    fresh.start()
    assert Link(fresh.port).call("ACL", "LIST") == before
    assert list(tmp_path.glob("users.acl.*")) == []


def test_users_file_with_a_wrong_rule_is_refused_with_its_line_and_acl_load_changes_no_user(fresh, tmp_path):
    file = tmp_path / "users.acl"
    file.write_text("user default on nopass ~* &* +@all\n\nuser app on >pw +nonsense\n")
    checked = subprocess.run([binary(), "--set", f"server.users_file={file}", "--check"], capture_output=True, text=True, check=False)
    assert checked.returncode == 2
    assert f"{file}:3: the rule '+nonsense': Unknown command or category name in ACL; allowed are on, off" in checked.stderr
    assert "pw" not in checked.stderr
    file.write_text("user app on >pw +ping\n")
    fresh.set(f"server.users_file={file}").start()
    app, admin = Link(fresh.port), Link(fresh.port)
    assert app.call("AUTH", "app", "pw") == "OK"
    file.write_text("user app on >pw +nonsense\n")
    assert "users.acl:1: the rule '+nonsense'" in admin.call("ACL", "LOAD")
    assert app.call("PING") == "PONG"
    assert app.call("ACL", "LOAD").startswith("(error) NOPERM")


def test_named_pipe_instead_of_the_users_file_is_refused_at_once(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    why = f"{pipe}: is a pipe or a device, not a regular file; write its content to a file, and give that file's path"
    tls = ["--set", "server.tls.port=1", "--set", "server.tls.key_file=x"]
    ways = [["--config", pipe], *[["--set", f"server.{key}={pipe}"] for key in ("users_file", "password_file")]]
    for arguments in [*ways, [*tls, "--set", f"server.tls.cert_file={pipe}"]]:
        checked = subprocess.run([binary(), *arguments, "--check"], capture_output=True, text=True, check=False, timeout=20)
        assert checked.returncode == 2, arguments
        assert why in checked.stderr


def test_users_of_the_shipped_file_can_run_only_the_commands_that_its_comments_name(fresh, tmp_path):
    shipped = (ROOT / "config" / "users.acl").read_text()
    file = tmp_path / "users.acl"
    file.write_text(shipped)
    fresh.set(f"server.users_file={file}").start()
    # As shipped, no user can log in.
    for user in ("default", "app", "operator", "monitoring"):
        assert Link(fresh.port).call("AUTH", user, "").startswith("(error) WRONGPASS")
    fresh.stop()
    file.write_text(re.sub(r"(?m)^user (\S+) on ", r"user \1 on >\1-pw ", shipped))
    fresh.start()
    links = {}
    for user in ("app", "operator", "monitoring"):
        links[user] = Link(fresh.port)
        assert links[user].call("AUTH", user, f"{user}-pw") == "OK"
    denied = "(error) NOPERM"
    wanted = {
        "app": (
            ["SET app:1 v", "GET app:1", "MULTI", "DISCARD", "DELPREFIX app:tmp:", "DELRANGE app:1 app:2", "PUBLISH app:x y", "SCAN 0", "CLIENT SETNAME a"],
            ["GET other", "DELPREFIX ''", "DELRANGE - +", "STAMP.DELRANGE - +", "FLUSHALL", "CONFIG GET port", "KEYS *", "SHUTDOWN", "ACL LIST", "PUBLISH x y"],
        ),
        "operator": (
            ["CONFIG GET port", "CONFIG SET maxclients 1000", "ACL LIST", "CLIENT LIST", "BGSAVE", "LASTSAVE", "TREE.INFO", "PURGE.LIST", "SLOWLOG GET", "INFO", "LATENCY LATEST"],
            ["GET app:1", "SET app:1 v", "DEL app:1", "FLUSHALL", "KEYS *", "SCAN 0", "DELPREFIX app:", "RANDOMKEY"],
        ),
        "monitoring": (
            ["INFO", "PING", "CONFIG GET maxmemory", "CLIENT LIST", "SLOWLOG GET", "LATENCY LATEST", "DBSIZE"],
            ["GET app:1", "SET app:1 v", "CONFIG SET maxclients 1", "ACL LIST", "FLUSHALL", "KEYS *", "SHUTDOWN", "BGSAVE", "CLIENT KILL 1.2.3.4:5"],
        ),
    }
    for user, (allowed, refused) in wanted.items():
        for line in allowed:
            assert not links[user].call(*[w.strip("'") for w in line.split()]).startswith("(error)"), (user, line)
        for line in refused:
            assert links[user].call(*[w.strip("'") for w in line.split()]).startswith(denied), (user, line)


def test_denied_commands_are_counted_and_logged_without_names_of_keys(fresh):
    fresh.start()
    admin, app = Link(fresh.port), Link(fresh.port)
    admin.call("ACL", "SETUSER", "app", "on", ">pw", "~a*", "+@all", "-flushall")
    app.call("AUTH", "app", "pw")
    for line in ("GET secret-key", "GET secret-key", "FLUSHALL", "PUBLISH secret-channel x"):
        assert app.call(*line.split()).startswith("(error) NOPERM")
    info = admin.call("INFO", "stats")
    for field in ("cmd:1", "key:2", "channel:1", "auth:0"):
        assert f"acl_access_denied_{field}" in info
    entries = admin.call("ACL", "LOG")
    assert entries.count("entry-id") == 3
    assert 'client-info' in entries and "user=app" in entries
    log = fresh.log_tail()
    assert "user 'app' from" in log and "has no right to a key of get" in log
    assert "secret-key" not in log and "secret-channel" not in log
    assert admin.call("CONFIG", "SET", "acllog-max-len", "1") == "OK"
    assert admin.call("ACL", "LOG").count("entry-id") == 1
    assert admin.call("CONFIG", "GET", "acl-pubsub-default") == '["acl-pubsub-default", "resetchannels"]'
