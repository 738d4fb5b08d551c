"""Tests that bytes which change on the drive under a running server are reported by file and offset, and never returned.
EBBTIDE_SEED repeats the tree's layout.
"""

import json
import os
import re
import stat
import subprocess
from pathlib import Path

import pytest
import redis

from conftest import SETTINGS
from support.files import flip
from support.layouts import change, chosen
from support.server import Server, binary, wait_until
from support.sockets import pairs

KEYS = 3000


def value_of(i):
    return b"%06d" % i * 50


def test_flipped_byte_under_a_running_server_is_reported_and_never_returned(fresh):
    """TREE.VERIFY names file and offset. A read returns the right value, or an error that also names file and offset."""
    layout = chosen("damage", but=("storage.compression", "storage.compression_last_level"))
    change(fresh, layout)
    fresh.set("storage.compression=none", "storage.compression_last_level=none", "storage.block_cache=8MiB").start()
    client = fresh.client()
    client.mset({f"k{i}": value_of(i) for i in range(KEYS)})
    client.execute_command("TREE.FLUSH")
    client.execute_command("TREE.COMPACT")  # no merge follows
    (table,) = fresh.data.glob("*.data")

    def verify():
        return pairs(client.execute_command("TREE.VERIFY"))

    whole = verify()
    assert whole[b"errors"] == [] and whole[b"entries"] == KEYS

    offset = table.read_bytes().index(value_of(KEYS // 2)) + 100  # only a checksum can find this change
    flip(table, offset)
    found = verify()
    (error,) = found[b"errors"]
    match = re.search(rf"{re.escape(table.name)}\b.* at (\d+)", error.decode())
    assert match, error
    assert 0 <= offset - int(match[1]) < 64 << 10  # the offset of the page that has the byte
    assert whole[b"entries"] > found[b"entries"] > KEYS // 2
    refused = 0
    for i in range(KEYS):
        try:
            assert client.get(f"k{i}") == value_of(i)
        except redis.ResponseError as wrong:
            refused += 1
            assert table.name in str(wrong), wrong
    # Verification skips the whole tile; reads fail only for the keys of the damaged page.
    unchecked = whole[b"entries"] - found[b"entries"]
    assert refused == unchecked if layout["tree.pages_per_tile"] == 1 else 0 < refused <= unchecked

    # Once the byte is mended, nothing is wrong any more.
    flip(table, offset)
    assert verify() == whole
    assert [client.get(f"k{i}") for i in range(KEYS)] == [value_of(i) for i in range(KEYS)]


def metric(server, name):
    found = re.search(rf"^{re.escape(name)} (\S+)$", server.http("/metrics")[1], re.MULTILINE)
    return float(found[1])


def quarantined(client):
    return pairs(client.execute_command("TREE.INFO"))[b"quarantined"]


def test_damaged_table_of_one_database_does_not_affect_other_databases(fresh):
    """A merge finds the flipped byte. Log, metric and TREE.INFO name the file; writes, other databases and a restart work."""
    fresh.set("storage.compression=none", "storage.compression_last_level=none", "storage.block_cache=8MiB").start()
    hurt, whole = fresh.client(db=3), fresh.client(db=0)
    hurt.mset({f"k{i}": value_of(i) for i in range(KEYS)})
    whole.mset({f"k{i}": b"other" for i in range(KEYS)})
    for client in (hurt, whole):
        client.execute_command("TREE.FLUSH")
        client.execute_command("TREE.COMPACT")
    fresh.restart()  # the cache is empty now
    hurt, whole = fresh.client(db=3), fresh.client(db=0)
    marker = value_of(KEYS // 2)
    (table,) = [path for path in fresh.data.glob("*.data") if marker in path.read_bytes()]
    good = table.read_bytes()
    flip(table, good.index(marker) + 100)
    hurt.set("k1", "new")
    hurt.execute_command("TREE.FLUSH")
    try:
        hurt.execute_command("TREE.COMPACT")
    except redis.ResponseError as wrong:
        assert table.name in str(wrong)
    wait_until(lambda: quarantined(hurt))

    def look():
        (file,) = quarantined(hurt)
        assert table.name in pairs(file)[b"damage"].decode()
        assert quarantined(whole) == []
        assert metric(fresh, 'ebbtide_quarantined_files{db="3"}') == 1
        assert metric(fresh, 'ebbtide_quarantined_files{db="0"}') == 0
        assert metric(fresh, "ebbtide_read_only") == 0
        for client in (hurt, whole):
            client.mset({f"k{i}": b"new" for i in range(0, KEYS, 3)})
            client.execute_command("TREE.FLUSH")
        whole.execute_command("TREE.COMPACT")
        assert pairs(whole.execute_command("TREE.VERIFY"))[b"errors"] == []
        assert hurt.get("k3") == whole.get("k3") == b"new"
        refused = 0
        for i in range(1, KEYS, 3):
            assert whole.get(f"k{i}") == b"other"
            try:
                assert hurt.get(f"k{i}") in (value_of(i), b"new")
            except redis.ResponseError as wrong:
                assert table.name in str(wrong)
                refused += 1
        assert refused < KEYS // 3

    look()
    assert table.name in fresh.log()
    fresh.restart()
    hurt, whole = fresh.client(db=3), fresh.client(db=0)
    look()
    table.write_bytes(good)
    assert pairs(hurt.execute_command("TREE.VERIFY"))[b"errors"] == []
    assert quarantined(hurt) == []
    for i in range(1, KEYS, 3):
        assert hurt.get(f"k{i}") == (b"new" if i == 1 else value_of(i))
    assert metric(fresh, 'ebbtide_quarantined_files{db="3"}') == 0


def put(what, path):
    """Puts an object that is not a file at `path`."""
    if what == "a pipe":
        os.mkfifo(path)
    elif what == "a socket":
        os.mknod(path, 0o600 | stat.S_IFSOCK)
    elif what == "a loop of links":
        path.symlink_to(path.name)
    else:
        path.mkdir()
        (path / "file").write_bytes(b"x")


@pytest.mark.parametrize("what", ["a directory", "a pipe", "a socket", "a loop of links"])
@pytest.mark.parametrize("suffix", [".data", ".meta"])
def test_directory_in_place_of_a_table_does_not_affect_other_databases(fresh, what, suffix):
    fresh.set("storage.compression=none", "storage.compression_last_level=none").start()
    hurt, whole = fresh.client(db=3), fresh.client(db=0)
    hurt.mset({f"k{i}": value_of(i) for i in range(KEYS)})
    whole.mset({f"k{i}": b"other" for i in range(KEYS)})
    for client in (hurt, whole):
        client.execute_command("TREE.FLUSH")
    (data,) = [path for path in fresh.data.glob("*.data") if value_of(KEYS // 2) in path.read_bytes()]
    table = data if suffix == ".data" else next(fresh.data.glob("*.meta"))
    fresh.kill()
    table.unlink()
    put(what, table)
    fresh.start()
    clients = {db: fresh.client(db=db) for db in (0, 3)}
    damaged = [db for db, client in clients.items() if quarantined(client)]
    assert len(damaged) == 1
    other = ({0, 3} - set(damaged)).pop()
    assert clients[other].get("k5") == (b"other" if other == 0 else value_of(5))
    with pytest.raises(redis.ResponseError, match=table.name):
        clients[damaged[0]].get("k5")

    # FLUSHDB ends the quarantine. A directory cannot be removed, but it does not keep the database from opening later.
    clients[damaged[0]].flushdb()
    clients[damaged[0]].set("k6", "v")
    fresh.restart()
    again = fresh.client(db=damaged[0])
    assert again.mget("k5", "k6") == [None, b"v"] and quarantined(again) == []


# Starts a process as the superuser without the superuser's right to read any file.
PERMISSIONS_COUNT = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-dac_override,-dac_read_search"]


def test_unreadable_table_affects_no_other_database_and_works_again_once_readable(fresh):
    if os.geteuid() == 0:
        fresh.prefix = PERMISSIONS_COUNT
    fresh.start()
    hurt, whole = fresh.client(db=3), fresh.client(db=0)
    hurt.mset({f"k{i}": value_of(i) for i in range(KEYS)})
    hurt.execute_command("TREE.FLUSH")
    (table,) = fresh.data.glob("*.data")
    whole.mset({f"k{i}": b"other" for i in range(KEYS)})
    whole.execute_command("TREE.FLUSH")
    fresh.kill()
    table.chmod(0)
    fresh.start()
    hurt, whole = fresh.client(db=3), fresh.client(db=0)
    assert whole.get("k5") == b"other" and quarantined(whole) == []
    with pytest.raises(redis.ResponseError, match=f"{table.name}: Permission denied"):
        hurt.get("k5")
    table.chmod(0o600)
    assert pairs(hurt.execute_command("TREE.VERIFY"))[b"errors"] == []
    assert quarantined(hurt) == []
    assert hurt.get("k5") == value_of(5)


def test_start_with_a_manifest_older_than_the_tables_keeps_them_for_salvage(fresh):
    """The manifest has lost the edits of the last merge, so it names the inputs of the merge, which are missing. The start must
    not remove the output of the merge."""
    fresh.start()
    client = fresh.client()
    for _ in range(2):
        client.mset({f"k{i}": value_of(i) for i in range(KEYS)})
        client.execute_command("TREE.FLUSH")
    (manifest,) = fresh.data.glob("MANIFEST-*")
    older = manifest.read_bytes()
    inputs = {path.name for path in fresh.data.glob("*.data")}
    client.execute_command("TREE.COMPACT")
    wait_until(lambda: not inputs & {path.name for path in fresh.data.glob("*.data")}, what="inputs are removed")
    (output,) = fresh.data.glob("*.data")
    fresh.kill()
    manifest.write_bytes(older)
    fresh.start()
    client = fresh.client()
    with pytest.raises(redis.ResponseError, match="missing"):
        client.get("k5")
    assert output.exists() and f"such as {output.name}" in fresh.log()
    client.flushdb()
    client.execute_command("PURGE.NOW")  # until the manifest names the tables no more
    assert quarantined(client) == []
    fresh.restart()
    assert not output.exists()


def test_flushdb_ends_the_quarantine_of_a_missing_table(fresh):
    """A table that is missing at the start does not keep other databases from opening. FLUSHDB removes it."""
    fresh.start()
    client, other = fresh.client(db=3), fresh.client(db=0)
    other.set("k", "v")
    client.mset({f"k{i}": value_of(i) for i in range(KEYS)})
    client.execute_command("TREE.FLUSH")
    victim = sorted(fresh.data.glob("*.meta"))[0]
    fresh.stop()
    victim.unlink()
    fresh.start()
    client, other = fresh.client(db=3), fresh.client(db=0)
    assert other.get("k") == b"v"
    assert len(quarantined(client)) == 1
    for command in (("GET", "k1"), ("KEYS", "*")):
        try:
            client.execute_command(*command)
            raise AssertionError(f"{command} is served")
        except redis.ResponseError as wrong:
            assert victim.name in str(wrong)
    client.set("k1", "new")
    assert client.get("k1") == b"new"
    assert client.flushdb()
    assert client.get("k2") is None
    wait_until(lambda: quarantined(client) == [])


def inspect(*arguments):
    """Returns the JSON output of ebbtide-inspect, and its exit status."""
    done = subprocess.run([binary("ebbtide-inspect"), *map(str, arguments), "--json"], capture_output=True, timeout=120, check=False)
    return json.loads(done.stdout), done.returncode


def test_backup_with_a_damaged_table_is_reported_and_cannot_be_restored_until_repaired(fresh, tmp_path):
    """The manifest of the backup marks the table as quarantined. Once the table is repaired, the backup can be restored, and the
    restored server ends the quarantine."""
    fresh.set("storage.compression=none", "storage.compression_last_level=none").start()
    client = fresh.client()
    client.mset({f"k{i}": value_of(i) for i in range(KEYS)})
    client.execute_command("TREE.FLUSH")
    client.execute_command("TREE.COMPACT")
    marker = value_of(KEYS // 2)
    (table,) = [path for path in fresh.data.glob("*.data") if marker in path.read_bytes()]
    offset = table.read_bytes().index(marker) + 100
    flip(table, offset)
    client.execute_command("TREE.VERIFY")
    wait_until(lambda: quarantined(client))
    assert client.save() is True
    assert client.info("persistence")["backup_damaged_tables"] == 1
    assert "damaged tables in the new backup: 1" in fresh.log()

    (backup,) = Path(f"{fresh.data}-backups").iterdir()
    shown = json.dumps(inspect("tree", backup)[0])
    assert " quarantined]" in shown and '"damage": ' in shown
    home = tmp_path / "restored"
    home.mkdir()
    said, status = inspect("restore", backup, home / "data")
    assert status == 1 and table.name in said["errors"][0]
    assert not (home / "data").exists()

    flip(table, offset)  # this changes the backup's file, too, which is a link
    said, status = inspect("restore", backup, home / "data")
    assert status == 0 and said["errors"] == []
    assert " quarantined]" in json.dumps(inspect("tree", home / "data")[0])
    with Server(SETTINGS, home, config=None) as restored:
        client = restored.client()
        assert pairs(client.execute_command("TREE.VERIFY"))[b"errors"] == []
        assert quarantined(client) == []
        assert [client.get(f"k{i}") for i in range(KEYS)] == [value_of(i) for i in range(KEYS)]
        assert client.save() is True
        assert client.info("persistence")["backup_damaged_tables"] == 0


def test_second_server_is_refused_although_the_lock_file_was_removed(fresh):
    fresh.start()
    client = fresh.client()
    client.set("k", "v")
    (fresh.data / "LOCK").unlink()
    second = Server(SETTINGS, fresh.home, config=None)
    try:
        with pytest.raises(RuntimeError, match="LOCK was removed while it was locked|LOCK: held by another process"):
            second.start()
    finally:
        second.close()
    client.set("k", "w")
    fresh.kill()
    fresh.start()
    assert fresh.client().get("k") == b"w"
