"""Tests of ebbtide-import and ebbtide-export: keys go from Redis's files and from a running Redis to this server, and back."""

import random
import shutil
import signal
import subprocess
import time

import pytest

from support.server import Server, binary, free_port, redis_server, wait_until

READERS = {
    b"string": lambda client, key: client.get(key),
    b"list": lambda client, key: client.lrange(key, 0, -1),
    b"set": lambda client, key: client.smembers(key),
    b"hash": lambda client, key: client.hgetall(key),
    b"zset": lambda client, key: client.zrange(key, 0, -1, withscores=True),
}


def run(tool, *arguments, status=0, stdin=None):
    """Runs a tool, requires its exit status, and returns its output: standard output and standard error together."""
    done = subprocess.run([str(binary(tool)), *map(str, arguments)], capture_output=True, input=stdin, timeout=120, check=False)
    text = (done.stdout + done.stderr).decode()
    assert done.returncode == status, text
    return text


def contents(client, databases=(0, 3)):
    """Returns all keys with their values, and whether they expire."""

    def of_each(keys, ask):
        with client.pipeline(transaction=False) as pipe:
            for key in keys:
                ask(pipe, key)
            return pipe.execute()

    found = {}
    for database in databases:
        client.select(database)
        keys = list(client.scan_iter(count=1000))
        kinds = dict(zip(keys, of_each(keys, lambda pipe, key: pipe.type(key)), strict=True))
        expiries = dict(zip(keys, of_each(keys, lambda pipe, key: pipe.pexpiretime(key)), strict=True))
        known = [key for key in keys if kinds[key] in READERS]
        values = dict(zip(known, of_each(known, lambda pipe, key: READERS[kinds[key]](pipe, key)), strict=True))
        found |= {(database, key): (kinds[key], values.get(key), expiries[key] if key in values else None) for key in keys}
    client.select(0)
    return found


def fill(client, seed=1):
    """Writes keys of every type that both servers have, small and large, with and without expiry, into two databases."""
    rng = random.Random(seed)
    text = lambda: rng.choice([b"%d" % rng.randrange(-(1 << 40), 1 << 40), b"x" * rng.randrange(100), rng.randbytes(rng.randrange(300))])  # noqa: E731
    with client.pipeline(transaction=False) as pipe:
        for i in range(300):
            pipe.set(b"string%d\x00" % i, text(), px=rng.choice([None, 10**9]))
        for i in range(40):
            size = rng.choice([1, 3, 100, 600])
            pipe.rpush(b"list%d" % i, *(text() for _ in range(size)))
            pipe.sadd(b"set%d" % i, *(text() for _ in range(size)))
            pipe.sadd(b"numbers%d" % i, *range(size))
            pipe.hset(b"hash%d" % i, mapping={b"f%d" % j: text() for j in range(size)})
            pipe.zadd(b"sorted%d" % i, {b"m%d" % j: rng.uniform(-1e6, 1e6) for j in range(size)})
        pipe.execute()
    client.select(3)
    client.set("in3", "x")
    client.rpush("list3", *range(1000))
    client.select(0)


@pytest.fixture
def redis_client(tmp_path):
    import redis

    home = tmp_path / "redis"
    home.mkdir()
    with redis_server(home) as port:
        client = redis.Redis(port=port)
        client.home, client.port = home, port
        yield client


@pytest.fixture
def ours(fresh):
    client = fresh.start().client()
    client.port = fresh.port
    return client


def test_import_of_an_rdb_file_keeps_every_type_database_and_expiry(redis_client, ours):
    fill(redis_client)
    redis_client.save()
    file = redis_client.home / "dump.rdb"
    assert "importable" in run("ebbtide-import", "--check", file)
    total = run("ebbtide-import", "-p", ours.port, file).splitlines()[-1]
    assert total.split() == ["all", "502", "0", "0", "0"]
    assert contents(ours) == contents(redis_client)


def test_import_lists_keys_that_are_too_large_or_of_unsupported_types_and_imports_the_others(redis_client, ours, tmp_path):
    redis_client.set("k", "v")
    for _ in range(9):
        redis_client.rpush("large", *[0] * 120_000)  # more elements than one command may build
    redis_client.set("gone", "v", px=1)
    redis_client.xadd("stream", {"a": "b"})
    redis_client.xgroup_create("stream", "group")
    redis_client.xadd("stream", {"a": "c"})
    redis_client.xreadgroup("group", "consumer", {"stream": ">"})
    redis_client.function_load("#!lua name=lib\nredis.register_function('f', function() return 1 end)")
    redis_client.save()
    lost = tmp_path / "lost"
    text = run("ebbtide-import", "-p", ours.port, "--list", lost, redis_client.home / "dump.rdb", status=3)
    assert 'stream "stream": the server does not have this type' in text and "function library" in text
    assert 'list "large": ' in text
    assert len(lost.read_text().splitlines()) == 3
    assert contents(ours, [0]).keys() == {(0, b"k")}


@pytest.mark.parametrize("damage", ["truncated", "one bit flipped"])
def test_import_refuses_a_damaged_rdb_file_and_imports_no_key_of_it(redis_client, ours, damage):
    fill(redis_client)
    redis_client.save()
    file = redis_client.home / "dump.rdb"
    content = bytearray(file.read_bytes())
    if damage == "truncated":
        content = content[: len(content) // 2]
    else:
        content[len(content) // 2] ^= 4
    file.write_bytes(content)
    text = run("ebbtide-import", "-p", ours.port, file, status=1)
    assert "dump.rdb" in text and "byte" in text
    assert ours.dbsize() == 0


def test_import_refuses_existing_keys_unless_they_may_be_replaced(redis_client, ours):
    redis_client.set("k", "new")
    redis_client.set("other", "new")
    redis_client.save()
    ours.set("k", "old")
    file = redis_client.home / "dump.rdb"
    assert 'string "k": BUSYKEY' in run("ebbtide-import", "-p", ours.port, file, status=3)
    assert (ours.get("k"), ours.get("other")) == (b"old", b"new")
    run("ebbtide-import", "-p", ours.port, "--replace", file)
    assert ours.get("k") == b"new"


def test_import_from_standard_input_takes_only_the_chosen_database(redis_client, ours):
    fill(redis_client)
    redis_client.save()
    run("ebbtide-import", "-p", ours.port, "--database", "3", "-", stdin=(redis_client.home / "dump.rdb").read_bytes())
    assert {database for database, _ in contents(ours)} == {3}


def begin_append_only_file(redis_client, preamble="yes"):
    """Makes the server write an append-only file that begins with its data of now, and returns the path of the manifest."""
    redis_client.config_set("aof-use-rdb-preamble", preamble)
    # Otherwise Redis replies up to two seconds before it writes a command to the file, while a sync is slow.
    redis_client.config_set("appendfsync", "always")
    redis_client.config_set("appendonly", "yes")
    wait_until(lambda: redis_client.info("persistence")["aof_rewrite_in_progress"] == 0 and redis_client.info("persistence")["aof_rewrite_scheduled"] == 0)
    return redis_client.home / "appendonlydir" / "appendonly.aof.manifest"


@pytest.mark.parametrize("preamble", ["yes", "no"])
def test_import_of_an_append_only_file_runs_the_commands_after_its_base(redis_client, ours, preamble):
    fill(redis_client)
    manifest = begin_append_only_file(redis_client, preamble)
    redis_client.incrby("counter", 5)
    redis_client.delete("list1")
    with redis_client.pipeline(transaction=True) as pipe:
        pipe.hset("hash2", "more", "1").select(3).set("later", "3").execute()
    redis_client.xadd("stream", {"a": "b"})
    redis_client.delete("stream")
    text = run("ebbtide-import", "-p", ours.port, manifest, status=3)
    assert '"XADD": ERR unknown command' in text
    assert contents(ours) == contents(redis_client)


def test_killed_import_run_again_with_replace_imports_every_key(redis_client, ours, tmp_path):
    with redis_client.pipeline(transaction=False) as pipe:
        for i in range(100_000):
            pipe.set(f"key{i}", f"value{i}")
        pipe.execute()
    redis_client.save()
    command = ["-p", str(ours.port), str(redis_client.home / "dump.rdb")]
    with subprocess.Popen([str(binary("ebbtide-import")), *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        wait_until(lambda: ours.dbsize() > 0, interval=0.001, what="the first keys")
        process.send_signal(signal.SIGKILL)
    run("ebbtide-import", "--replace", *command)
    assert ours.dbsize() == 100_000 and ours.get("key77777") == b"value77777"


def test_copy_of_a_running_redis_includes_a_database_first_used_after_the_first_pass(redis_client, ours):
    redis_client.set("k", "v")
    command = [str(binary("ebbtide-import")), "-p", str(ours.port), "--from", f"127.0.0.1:{redis_client.port}", "--passes", "2", "--wait"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert "Stop the writers" in process.stderr.readline()
        redis_client.select(3)
        redis_client.set("late", "1")
        redis_client.select(0)
        out, err = process.communicate("\n", timeout=60)
    assert process.returncode == 0, out + err
    assert "since the pass before 1 written" in out
    assert contents(ours) == contents(redis_client)


@pytest.mark.parametrize("command", ["CLIENT REPLY OFF", "SHUTDOWN", "hello 3", "BLPOP k 0"])
def test_append_only_file_with_a_command_that_redis_never_writes_there_is_refused(ours, tmp_path, command):
    words = command.split()
    file = tmp_path / "commands.aof"
    file.write_text("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n" + f"*{len(words)}\r\n" + "".join(f"${len(word)}\r\n{word}\r\n" for word in words))
    assert "does not belong in an append-only file" in run("ebbtide-import", "-p", ours.port, file, status=1)
    assert not ours.exists("k")


def test_import_refuses_a_file_that_is_a_pipe_or_is_empty_or_incomplete(ours, tmp_path):
    assert "cannot be read twice" in subprocess.run(
        ["bash", "-c", f"{binary('ebbtide-import')} -p {ours.port} <(cat /dev/null)"], capture_output=True, text=True, timeout=60, check=False
    ).stderr
    empty = tmp_path / "empty"
    empty.touch()
    assert "is empty" in run("ebbtide-import", "-p", ours.port, empty, status=1)
    multi = tmp_path / "multi.aof"
    multi.write_text("*1\r\n$5\r\nMULTI\r\n*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n")
    assert "MULTI without EXEC" in run("ebbtide-import", "-p", ours.port, multi, status=1)
    assert "--database is for RDB files" in run("ebbtide-import", "-p", ours.port, "--database", "0", multi, status=1)
    assert ours.dbsize() == 0


def test_import_refuses_to_write_its_list_of_missing_keys_over_an_existing_file(redis_client, ours):
    redis_client.set("k", "v")
    redis_client.save()
    file = redis_client.home / "dump.rdb"
    before = file.read_bytes()
    assert "--list makes a new file" in run("ebbtide-import", "-p", ours.port, "--list", file, file, status=1)
    assert file.read_bytes() == before


def test_last_pass_of_a_copy_from_a_running_redis_copies_the_keys_that_changed(redis_client, ours):
    fill(redis_client)
    command = [str(binary("ebbtide-import")), "-p", str(ours.port), "--from", f"127.0.0.1:{redis_client.port}", "--passes", "2", "--wait"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        wait_until(lambda: ours.dbsize() == redis_client.dbsize(), what="the first pass")
        assert "Stop the writers" in process.stderr.readline()
        redis_client.set("new", "1")
        redis_client.append(b"string1\x00", "changed")
        redis_client.expire("list2", 10_000)
        redis_client.delete("set1", "set2")
        redis_client.select(3)
        redis_client.delete("in3")
        redis_client.select(0)
        out, err = process.communicate("\n", timeout=60)
    assert process.returncode == 0, out + err
    assert "since the pass before 3 written, 3 removed" in out
    assert contents(ours) == contents(redis_client)


def test_copy_to_a_server_with_keys_is_refused_unless_they_may_be_replaced(redis_client, ours):
    redis_client.set("k", "theirs")
    ours.mset({"k": "ours", "only ours": "1"})
    source = ["-p", ours.port, "--from", f"127.0.0.1:{redis_client.port}"]
    assert "has keys; give --replace" in run("ebbtide-import", *source, status=1)
    run("ebbtide-import", *source, "--replace")
    assert (ours.get("k"), ours.get("only ours")) == (b"theirs", b"1")


def test_exported_file_is_loaded_by_redis_and_imported_by_ebbtide(fresh, ours, redis_client, tmp_path):
    import redis

    fill(ours)
    file = tmp_path / "export" / "dump.rdb"
    file.parent.mkdir()
    run("ebbtide-export", "-p", ours.port, file)
    assert "exists; give --force" in run("ebbtide-export", "-p", ours.port, file, status=1)
    run("ebbtide-export", "-p", ours.port, "--force", file)
    assert [path.name for path in file.parent.iterdir()] == ["dump.rdb"]
    assert file.stat().st_mode & 0o777 == 0o600
    (file.parent / "dump.rdb.part").touch()
    assert "another export" in run("ebbtide-export", "-p", ours.port, "--force", file, status=1)
    (file.parent / "dump.rdb.part").unlink()
    assert "none of these databases" in run("ebbtide-export", "-p", ours.port, "--force", "--database", "9", file, status=1)
    with redis_server(file.parent) as port:
        assert contents(redis.Redis(port=port)) == contents(ours)
    before = contents(ours)
    ours.flushall()
    run("ebbtide-import", "-p", ours.port, file)
    assert contents(ours) == before


def test_export_of_hashes_with_expiring_fields_says_which_redis_loads_the_file(ours, tmp_path):
    ours.hset("hash", mapping={"stays": "1", "expires": "2"})
    assert "Redis" not in run("ebbtide-export", "-p", ours.port, tmp_path / "plain.rdb")
    ours.execute_command("HEXPIRE", "hash", 1000, "FIELDS", 1, "expires")
    warning = "1 hash has fields that expire. Redis loads the file from version 7.4 on"
    assert warning in run("ebbtide-export", "-p", ours.port, tmp_path / "dump.rdb")


def fill_with_expiring_fields(client):
    """Writes hashes, some or all of whose fields expire, and returns {(database, key): number of fields}."""
    rng = random.Random(1)
    sizes = {(0, b"one"): 1, (0, b"small"): 20, (0, b"large"): 700, (3, b"\x00key"): 40, (3, b"all"): 300}
    for (database, key), size in sizes.items():
        client.select(database)
        with client.pipeline(transaction=False) as pipe:
            pipe.hset(key, mapping={b"f%d" % i: rng.randbytes(rng.randrange(60)) for i in range(size)})
            for i in range(size):
                if key in (b"one", b"all") or i % 3:
                    pipe.execute_command("HPEXPIRE", key, rng.randrange(10**6, 10**12), "FIELDS", 1, b"f%d" % i)
            pipe.execute()
    client.pexpire(b"\x00key", 10**7)
    client.select(0)
    return sizes


def test_exported_hashes_keep_the_expiries_of_their_fields_when_imported_by_an_empty_server(ours, tmp_path):
    sizes = fill_with_expiring_fields(ours)
    ours.execute_command("HSETEX", "short", "PX", 1000, "FIELDS", 1, "a", 1)
    ours.hset("short", "b", 2)
    soon = time.monotonic() + 1.1

    def expiries(client):
        found = {}
        for (database, key), size in sizes.items():
            client.select(database)
            found[database, key] = client.execute_command("HPEXPIRETIME", key, "FIELDS", size, *(b"f%d" % i for i in range(size)))
        client.select(0)
        return found

    file = tmp_path / "dump.rdb"
    run("ebbtide-export", "-p", ours.port, file)
    wait_until(lambda: time.monotonic() > soon)
    before, times = contents(ours), expiries(ours)
    assert all(max(each) > 0 for each in times.values()) and -1 in times[0, b"large"] and -1 not in times[3, b"all"]
    with Server() as server:
        target = server.client()
        run("ebbtide-import", "-p", server.port, file)
        assert contents(target) == before
        assert expiries(target) == times
        left = [client.execute_command("HPTTL", "one", "FIELDS", 1, "f0")[0] for client in (ours, target)]
        assert abs(left[0] - left[1]) < 10_000 and min(left) > 10**6 - 10**5
        # It expired between the export and the import.
        assert target.hgetall("short") == {b"b": b"2"}


def test_redis_before_7_4_refuses_an_exported_file_that_has_expiring_fields(ours, redis_client, tmp_path):
    if tuple(map(int, redis_client.info("server")["redis_version"].split(".")[:2])) >= (7, 4):
        pytest.skip("this Redis has expiring fields")
    fill_with_expiring_fields(ours)
    (tmp_path / "export").mkdir()
    run("ebbtide-export", "-p", ours.port, tmp_path / "export/dump.rdb")
    line = ["redis-server", "--port", str(free_port()), "--bind", "127.0.0.1", "--dir", str(tmp_path / "export")]
    done = subprocess.run(line, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1 and "Unknown RDB encoding type 24" in done.stdout, done.stdout


def test_export_from_redis_is_refused_and_leaves_no_file(redis_client, tmp_path):
    file = tmp_path / "dump.rdb"
    assert "is no Ebbtide server" in run("ebbtide-export", "-p", redis_client.port, file, status=1)
    assert not file.exists()


def test_import_with_wrong_arguments_or_files_fails_with_the_reason(ours, tmp_path):
    assert "FILE or --from is required" in run("ebbtide-import", status=2)
    assert "--host" in run("ebbtide-import", "--help") and "Examples" in run("ebbtide-export", "--help")
    assert "No such file" in run("ebbtide-import", "-p", ours.port, tmp_path / "absent.rdb", status=1)
    assert "is a directory" in run("ebbtide-import", "-p", ours.port, tmp_path, status=1)
    text = tmp_path / "text"
    text.write_text("hello")
    assert "neither an RDB file nor an append-only file" in run("ebbtide-import", "-p", ours.port, text, status=1)
    empty = tmp_path / "empty.rdb"
    empty.write_bytes(b"REDIS0011\xff" + bytes(8))
    assert "Connection refused" in run("ebbtide-import", "-p", 1, empty, status=1)
    assert "HOST:PORT is expected" in run("ebbtide-import", "--from", "host:many", status=1)


def test_import_reads_the_server_password_from_a_file_or_the_environment(fresh, tmp_path):
    fresh.set("server.password=secret").start()
    empty = tmp_path / "empty.rdb"
    empty.write_bytes(b"REDIS0011\xff" + bytes(8))
    assert "--password-file" in run("ebbtide-import", "-p", fresh.port, empty, status=1)
    password = tmp_path / "password"
    password.write_text("secret\n")
    run("ebbtide-import", "-p", fresh.port, "--password-file", password, empty)
    password.write_text("wrong\n")
    assert "WRONGPASS" in run("ebbtide-import", "-p", fresh.port, "--password-file", password, empty, status=1)


def test_import_into_a_missing_database_fails_and_names_the_key_server_databases(redis_client, fresh, tmp_path):
    fresh.set("server.databases=2").start()
    redis_client.select(3)
    redis_client.set("k", "v")
    redis_client.save()
    copy = tmp_path / "copy.rdb"
    shutil.copy(redis_client.home / "dump.rdb", copy)
    text = run("ebbtide-import", "-p", fresh.port, copy, status=1)
    assert "database 3" in text and "`server.databases`" in text


@pytest.mark.parametrize("transaction", [False, True])
def test_import_of_an_append_only_file_stops_at_the_select_of_a_missing_database(fresh, tmp_path, transaction):
    client = fresh.set("server.databases=2").start().client()
    commands = [b"SET k 0", b"SELECT 3", b"SET k 3"]
    if transaction:
        commands = [b"SET k 0", b"MULTI", b"SELECT 3", b"EXEC", *[b"SET k 3"] * 1000]
    file = tmp_path / "commands.aof"
    file.write_bytes(b"".join(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words) for words in map(bytes.split, commands)))
    text = run("ebbtide-import", "-p", fresh.port, file, status=1)
    assert "DB index is out of range" in text and "`server.databases`" in text
    assert client.exists("k")


def many_keys(redis_client, count):
    """Makes an RDB file of many keys, one of which the server cannot take, and returns its path."""
    redis_client.xadd("stream", {"a": "b"})
    for first in range(0, count, 1000):
        redis_client.mset({f"key{i:06}": f"value{i}" for i in range(first, first + 1000)})
    redis_client.save()
    return redis_client.home / "dump.rdb"


def test_killed_import_with_resume_continues_when_run_again_and_reports_all_keys(redis_client, ours, tmp_path):
    count = 150_000
    file, state, lost = many_keys(redis_client, count), tmp_path / "state", tmp_path / "lost"
    line = ["-p", ours.port, "--resume", state, "--list", lost, file]
    running = subprocess.Popen([str(binary("ebbtide-import")), *map(str, line)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_until(lambda: ours.dbsize() > 40_000, interval=0.001)
    running.kill()
    assert running.wait() == -signal.SIGKILL
    begun = int(state.read_text().split("entries ")[1].split()[0])
    assert 16_384 <= begun < count and ours.dbsize() < count
    text = run("ebbtide-import", *line, status=3)
    assert f"continues after {begun:,} keys" in text
    total = next(row for row in text.splitlines() if row.split()[:1] == ["all"])
    assert total.split() == ["all", f"{count:,}", "0", "1", "0"]
    assert ours.dbsize() == count and ours.get("key149999") == b"value149999"
    assert not state.exists() and lost.read_text().count('stream "stream"') == 1
    # Without the state, the command begins at the first key: every key is refused.
    lost.unlink()
    assert "BUSYKEY" in run("ebbtide-import", *line, status=3)


def test_resumed_import_lists_existing_keys_near_the_interruption_as_in_doubt(redis_client, ours, tmp_path):
    file, state, listed = many_keys(redis_client, 40_000), tmp_path / "state", tmp_path / "list"
    line = ["-p", ours.port, "--resume", state, "--list", listed, file]
    ours.mset({f"key{i:06}": "old" for i in range(40_000)})
    running = subprocess.Popen([str(binary("ebbtide-import")), *map(str, line)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_until(state.exists, interval=0.0005)
    running.kill()
    running.wait()
    begun = int(state.read_text().split("entries ")[1].split()[0])
    text = run("ebbtide-import", *line, status=3)
    doubtful = min(16_384, 40_001 - begun)
    lines = listed.read_text().splitlines()
    assert doubtful - 1 <= sum("may have sent it" in entry for entry in lines) <= doubtful
    assert "of these exist, and the interrupted import may have sent them" in text
    assert sum("BUSYKEY" in entry for entry in lines) >= 40_000 - begun - 16_384
    assert set(ours.mget([f"key{i:06}" for i in range(0, 40_000, 500)])) == {b"old"}


def test_resume_file_that_is_damaged_or_of_another_import_is_refused(redis_client, ours, tmp_path):
    redis_client.set("k", "v")
    redis_client.save()
    file, state = redis_client.home / "dump.rdb", tmp_path / "state"
    state.write_text("ebbtide-import state 1\nimport crc 0 to elsewhere\nentries 5\nlist 0\nend\n")
    assert "belongs to another import (crc 0 to elsewhere)" in run("ebbtide-import", "-p", ours.port, "--resume", state, file, status=1)
    state.write_text("ebbtide-import state 1\nimport x\nentries five\nend\n")
    assert "line 3 is not understood" in run("ebbtide-import", "-p", ours.port, "--resume", state, file, status=1)
    state.write_text("ebbtide-import state 1\nimport x\n")
    assert "is incomplete" in run("ebbtide-import", "-p", ours.port, "--resume", state, file, status=1)
    state.write_text("something else\n")
    assert "is not a file of --resume" in run("ebbtide-import", "-p", ours.port, "--resume", state, file, status=1)
    assert ours.dbsize() == 0
    state.unlink()
    assert "--resume needs a file" in run("ebbtide-import", "-p", ours.port, "--resume", state, "-", status=1, stdin=file.read_bytes())
    assert ours.dbsize() == 0


def commands_file(path, commands):
    """Writes an append-only file without a preamble; `commands` are bytes with spaces between the words."""
    path.write_bytes(b"".join(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words) for words in map(bytes.split, commands)))
    return path


class Interrupted:
    """Runs an import again and again, until it is not interrupted."""

    def __init__(self, *arguments):
        self.line = [str(binary("ebbtide-import")), *map(str, arguments)]

    def kill_when(self, reached, server=None):
        """Kills the import when `reached` is true; or the server, which is then started again."""
        with subprocess.Popen(self.line, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            process.stdin.write(b"\n")
            process.stdin.flush()
            wait_until(reached, seconds=60, interval=0.001)
            if server is None:
                process.kill()
            else:
                server.kill()
        assert process.returncode == (-signal.SIGKILL if server is None else 1)
        if server is not None:
            server.start()

    def finish(self, status=0):
        return run(*self.line, status=status, stdin=b"\n")


@pytest.mark.parametrize("killed", ["import", "server"])
def test_killed_import_of_an_append_only_file_is_resumed_and_runs_each_command_once(redis_client, fresh, tmp_path, killed):
    fill(redis_client)
    redis_client.mset({f"key{i:05}": f"value{i}" for i in range(50_000)})
    manifest = begin_append_only_file(redis_client)
    with redis_client.pipeline(transaction=False) as pipe:
        for i in range(60_000):
            if i % 20_000 == 1_234:
                pipe.select(i // 20_000)
            pipe.rpush(f"log{i % 7}", f"entry{i}").incr("counter")
            if i % 30_000 == 15_000:
                pipe.xadd("stream", {"a": "b"})
            if i % 5_000 == 4_999:
                pipe.execute()
    redis_client.select(0)
    state, lost = tmp_path / "state", tmp_path / "lost"
    importing = Interrupted("-p", fresh.port, "--resume", state, "--list", lost, manifest)
    victim = None if killed == "import" else fresh
    fresh.start()
    client = fresh.client()
    importing.kill_when(lambda: client.dbsize() > 20_000, victim)  # within the RDB file
    key = "ebbtide-import:" + state.read_text().split("crc ")[1].split()[0]
    for least in (1, 30_000, 80_000):
        client = fresh.client()
        importing.kill_when(lambda least=least, client=client: int(client.get(key) or 0) >= least, victim)
    client = fresh.client()
    assert int(client.get(key)) < 120_000, "all commands had run before the last interruption"
    text = importing.finish(status=3)
    assert "continues after 50,502 keys" in text
    expected = {name: value for name, value in contents(redis_client, range(4)).items() if value[0] != b"stream"}
    assert contents(client, range(4)) == expected
    assert not state.exists()
    # The server refuses two commands. If an interruption loses the replies of commands that have run, the report says so.
    refused = lost.read_text().count("ERR unknown command")
    assert refused == 2 or (refused < 2 and "the interruption lost their replies" in text), text


def test_unknown_or_failing_commands_of_an_append_only_file_are_listed_and_the_others_run(ours, tmp_path):
    file = commands_file(tmp_path / "commands.aof", [b"SELECT 1", b"MULTI", b"SET a 1", b"XADD s * a b", b"SADD a x", b"SET b 2", b"EXEC", b"INCR c"])
    for resume in ([], ["--resume", tmp_path / "state"]):
        ours.flushall()
        text = run("ebbtide-import", "-p", ours.port, *resume, file, status=3)
        assert '"XADD": ERR unknown command' in text and '"SADD": WRONGTYPE' in text and "8 commands" in text
        assert {key: value[1] for key, value in contents(ours, [0, 1]).items()} == {(1, b"a"): b"1", (1, b"b"): b"2", (1, b"c"): b"1"}


def test_resumed_import_is_refused_if_the_server_has_lost_the_key_with_its_position(ours, tmp_path):
    file = commands_file(tmp_path / "commands.aof", [b"INCR counter"] * 100_000)
    importing = Interrupted("-p", ours.port, "--resume", tmp_path / "state", file)
    importing.kill_when(lambda: int(ours.get("counter") or 0) > 1_000)
    ours.flushall()
    assert "has lost the key" in importing.finish(status=1)
    assert ours.dbsize() == 0


def test_import_killed_after_its_last_command_is_resumed_without_running_a_command(ours, tmp_path):
    state = tmp_path / "state"
    file = commands_file(tmp_path / "commands.aof", [b"RPUSH k v"] * 60_000)
    importing = Interrupted("-p", ours.port, "--resume", state, file)
    importing.kill_when(lambda: ours.llen("k") > 1_000)
    length = ours.llen("k")
    ours.delete("ebbtide-import:" + state.read_text().split("crc ")[1].split()[0])
    state.write_text(state.read_text().replace("\nreport", "\ncomplete\nreport", 1))
    assert "60,000 commands" in importing.finish()
    assert ours.llen("k") == length and ours.dbsize() == 1 and not state.exists()


def test_killed_copy_of_a_running_redis_is_resumed_with_missing_changed_and_deleted_keys(redis_client, ours, tmp_path):
    fill(redis_client)
    redis_client.mset({f"key{i:06}": f"value{i}" for i in range(100_000)})
    ours.set("only here", "1")
    state = tmp_path / "state"
    arguments = ["-p", ours.port, "--from", f"127.0.0.1:{redis_client.port}", "--replace", "--wait", "--resume", state]
    copying = Interrupted(*arguments)
    copying.kill_when(lambda: ours.dbsize() > 30_000)
    with redis_client.pipeline(transaction=False) as pipe:
        for i in range(0, 100_000, 10):
            pipe.delete(f"key{i:06}")
            pipe.append(f"key{i + 1:06}", "changed")
        pipe.execute()
    copying.kill_when(lambda: ours.dbsize() > 70_000)
    assert "pass 1" in state.read_text()
    # Within the second pass.
    with subprocess.Popen([str(binary("ebbtide-import")), *map(str, arguments)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert "continues pass 1" in process.stderr.readline() and "Stop the writers" in process.stderr.readline()
        redis_client.delete(*(f"key{i:06}" for i in range(2, 100_000, 10)))
        redis_client.mset({f"key{i:06}": "new" for i in range(3, 100_000, 5)})
        process.stdin.write("\n")
        process.stdin.flush()
        changed = lambda: sum(value == b"new" for value in ours.mget([f"key{i:06}" for i in range(3, 100_000, 500)]))  # noqa: E731
        wait_until(lambda: changed() > 20, interval=0.001)
        process.kill()
    assert changed() < 200 and "pass 2" in state.read_text()
    text = copying.finish()
    assert "continues pass 2" in text and "since the pass before" in text
    redis_client.set("only here", "1")
    assert contents(ours) == contents(redis_client)
    assert not state.exists() and not (tmp_path / "state.keys").exists()


def test_resumed_copy_of_a_running_redis_does_not_send_keys_twice(redis_client, ours, tmp_path):
    redis_client.mset({f"key{i:06}": f"value{i}" for i in range(100_000)})
    copying = Interrupted("-p", ours.port, "--from", f"127.0.0.1:{redis_client.port}", "--passes", "1", "--resume", tmp_path / "state")
    copying.kill_when(lambda: ours.dbsize() > 60_000)
    had = ours.dbsize()
    ours.config_resetstat()
    copying.finish()
    sent = ours.info("commandstats")["cmdstat_restore"]["calls"]
    assert ours.dbsize() == 100_000 and sent <= 100_000 - had + 16_384 + 1_024
