"""Tests of SAVE, BGSAVE and LASTSAVE: a backup made during writes opens as a database, and new backups replace old ones.
ebbtide-inspect restores a backup, makes a backup without a server, and repairs a directory after a crash."""

import json
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest
import redis

from conftest import SETTINGS
from support.meanwhile import meanwhile
from support.server import Server, binary, wait_until
from support.sockets import pairs


def backups(server):
    folder = Path(f"{server.data}-backups")
    return sorted(folder.iterdir()) if folder.exists() else []


def logged(server, text):
    """Returns how often the text occurs in the server's log."""
    return server.log_path.read_text(encoding="utf-8").count(text)


def opened(home):
    """Returns a server over `home`/data."""
    return Server(SETTINGS, home, config=None)


def inspect(*arguments):
    """Returns the JSON output of ebbtide-inspect, and its exit status."""
    done = subprocess.run([binary("ebbtide-inspect"), *map(str, arguments), "--json"], capture_output=True, timeout=120, check=False)
    return json.loads(done.stdout), done.returncode


def refused(why, *arguments):
    said, status = inspect(*arguments)
    assert status == 1 and why in said["errors"][0], said


def saved(client):
    """Runs BGSAVE and waits until it is done."""
    assert client.bgsave() is True
    wait_until(lambda: client.info("persistence")["rdb_bgsave_in_progress"] == 0)
    assert client.info("persistence")["rdb_last_bgsave_status"] == "ok"


def test_backup_by_save_has_the_data_of_the_log_and_of_tables(fresh, tmp_path):
    fresh.start()
    client = fresh.client()
    before = client.lastsave()  # the time of the server's start
    with client.pipeline(transaction=False) as pipe:
        for i in range(20_000):
            pipe.set(f"key:{i}", f"value {i}" * 10)
            if i == 10_000:
                pipe.execute_command("TREE.FLUSH")  # the first half is in tables, the other half in the log
        pipe.execute()
    wait_until(lambda: time.time() >= before.timestamp() + 1, what="the clock is a second past the last LASTSAVE")
    assert client.save() is True
    assert client.lastsave() > before
    client.flushdb()
    client.set("key:1", "after")

    (backup,) = backups(fresh)
    restored_dir = tmp_path / "restored"
    restored_dir.mkdir()
    said, status = inspect("restore", backup, restored_dir / "data")
    assert status == 0 and said["errors"] == [] and said["files"] > 4 and said["links"] == 0
    with opened(restored_dir) as restored:
        other = restored.client()
        assert other.dbsize() == 20_000
        assert other.get("key:1") == b"value 1" * 10
        verified = pairs(other.execute_command("TREE.VERIFY"))
        assert verified[b"files"] > 0 and verified[b"errors"] == []
    assert client.get("key:1") == b"after"


def test_backup_by_bgsave_during_writes_has_the_data_of_one_moment(fresh, tmp_path):
    """Two keys that one MSET writes are equal in the backup, and not older than the last write acknowledged before BGSAVE."""
    fresh.start()
    client, writer, written = fresh.client(), fresh.client(), 0

    def write():
        nonlocal written
        writer.mset({"a": written + 1, "b": written + 1, f"filler:{written % 5000}": "x" * 500})
        written += 1

    with meanwhile(write):
        for _ in range(5):
            acknowledged = written
            saved(client)
            wait_until(lambda: written > acknowledged, what="writes continue")
    wait_until(lambda: len(backups(fresh)) == 3, what="three backups are left, once the last one is verified")
    copy = tmp_path / "copy"
    shutil.copytree(backups(fresh)[-1], copy / "data")
    with opened(copy) as restored:
        a, b = restored.client().mget("a", "b")
        assert a == b and acknowledged <= int(a)


def test_backup_of_200_mb_makes_links_and_copies_only_the_log(fresh):
    """The time of a backup must not depend on the size of the data."""
    fresh.set("storage.memtable_size=16MiB", "tree.file_size=1MiB", "storage.wal_segment_size=4MiB").start()
    client = fresh.client()
    for i in range(500):
        client.mset({f"key:{i}:{j}": os.urandom(20_000) for j in range(20)})
    client.execute_command("TREE.FLUSH")
    client.execute_command("TREE.PAUSE", 600_000)  # otherwise merges might drop files during the backup
    wait_until(lambda: client.info("ebbtide")["compactions_running"] == 0, 60, "running compactions have ended")
    client.set("only in the log", b"x" * 100_000)
    began = time.monotonic()
    saved(client)
    took = time.monotonic() - began
    (backup,) = backups(fresh)
    links, linked_bytes, copied_bytes = 0, 0, 0
    for path in backup.iterdir():
        here, there = path.stat(), fresh.data / path.name
        if there.exists() and there.stat().st_ino == here.st_ino:
            links += 1
            linked_bytes += here.st_size
        else:
            copied_bytes += here.st_size
            assert path.suffix not in (".data", ".meta"), path.name
    print(f"BGSAVE of {linked_bytes / 1e6:.0f} MB in {links} files took {took:.3f} s, and copied {copied_bytes / 1e3:.0f} KB")
    assert links > 300 and linked_bytes > 200_000_000
    assert 100_000 <= copied_bytes < 8_000_000  # an unfinished segment of the log, and the manifest


def test_backup_keep_of_2_removes_only_older_backups_of_this_database(fresh):
    fresh.start()
    client = fresh.client()
    client.config_set("storage.backup_keep", 2)
    client.save()
    folder = backups(fresh)[0].parent
    (folder / "mine").mkdir()
    identity = (fresh.data / "DATABASE_ID").read_text().strip()
    unfinished = folder / f"2020-01-01T00-00-00.000Z-{identity}"
    unfinished.mkdir()
    (unfinished / "000001.data").write_bytes(b"x")
    # These are a backup of another database, a backup of an earlier version, and a link with a backup's name.
    others = [folder / "2020-01-01T00-00-00.000Z-00000000", folder / "2020-01-01T00-00-00.000Z"]
    for other in others:
        other.mkdir()
        (other / "CURRENT").write_bytes(b"x")
    target = folder.parent / "elsewhere"
    target.mkdir()
    (target / "CURRENT").write_bytes(b"x")
    link = folder / f"2020-01-02T00-00-00.000Z-{identity}"
    link.symlink_to(target)
    for _ in range(3):
        client.save()
    wait_until(lambda: not unfinished.exists() and len(backups(fresh)) == 6, what="the newest is verified")
    names = {path.name for path in backups(fresh)}
    assert unfinished.name not in names and (target / "CURRENT").exists()
    assert names > {"mine", link.name} | {other.name for other in others} and len(names) == 6
    assert all((other / "CURRENT").exists() for other in others)
    fresh.stop()
    fresh.start()
    assert (fresh.data / "DATABASE_ID").read_text().strip() == identity


def test_backup_dir_cannot_be_set_by_default_and_must_not_be_a_link(fresh, tmp_path):
    fresh.start()
    client = fresh.client()
    with pytest.raises(redis.ResponseError, match="can't set protected config"):
        client.config_set("storage.backup_dir", str(tmp_path / "anywhere"))
    fresh.stop()
    fresh.set("server.protected_configs=true").start()
    client = fresh.client()
    client.config_set("storage.backup_dir", str(tmp_path / "no" / "parent"))
    with pytest.raises(redis.ResponseError, match="cannot create storage.backup_dir"):
        client.save()
    assert not (tmp_path / "no").exists()
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    for name in ("link", "link/"):
        client.config_set("storage.backup_dir", f"{tmp_path}/{name}")
        with pytest.raises(redis.ResponseError, match="is a symbolic link"):
            client.save()
    forged = f"{tmp_path}/x\n2026-01-01T00:00:00.000+00:00 E forged\x1b[31m"
    client.config_set("storage.backup_dir", forged)
    client.save()
    assert "/x\\n2026-01-01T00:00:00.000+00:00 E forged\\x1b[31m/" in fresh.log_path.read_text()
    assert not any(line.startswith("2026-01-01T") for line in fresh.log_path.read_text().splitlines())


def test_save_after_flushall_keeps_both_backups(fresh, tmp_path):
    fresh.start()
    client = fresh.client()
    client.set("key", "value")
    client.save()
    client.flushall()
    client.save()
    wait_until(lambda: logged(fresh, "backup verified") == 2)
    first, second = backups(fresh)
    for backup, keys in ((first, 1), (second, 0)):
        home = tmp_path / backup.name
        shutil.copytree(backup, home / "data")
        with opened(home) as restored:
            assert restored.client().dbsize() == keys


def test_damaged_backup_removes_no_older_backup(fresh):
    """Backups link to the table with the damaged byte. Earlier backups must stay although backup_keep is smaller."""
    fresh.start()
    client = fresh.client()
    client.config_set("storage.backup_keep", 1)
    for i in range(2000):
        client.set(f"key:{i}", f"value {i}")
    client.execute_command("TREE.FLUSH")
    client.save()
    wait_until(lambda: logged(fresh, "backup verified") == 1)
    (table,) = fresh.data.glob("*.data")
    with open(table, "r+b") as file:
        file.seek(5000)
        byte = file.read(1)
        file.seek(5000)
        file.write(bytes([byte[0] ^ 1]))
    client.save()
    wait_until(lambda: logged(fresh, "no older backup is removed") == 1)
    assert len(backups(fresh)) == 2


def test_ebbtide_inspect_backs_up_and_repairs_a_stopped_server_and_refuses_a_running_one(fresh, tmp_path):
    fresh.start()
    client = fresh.client()
    for i in range(2000):
        client.set(f"key:{i}", f"value {i}")
        if i == 1000:
            client.execute_command("TREE.FLUSH")
    client.save()
    (backup,) = backups(fresh)
    refused("BGSAVE", "backup", fresh.data, tmp_path / "copy")
    refused("a server has", "repair", fresh.data)
    refused("is not empty", "restore", backup, fresh.data)
    unfinished = tmp_path / "unfinished"
    shutil.copytree(backup, unfinished)
    (unfinished / "CURRENT").unlink()
    refused("an unfinished backup", "restore", unfinished, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()

    fresh.kill()
    log = sorted(fresh.data.glob("*.wal"))[-1]
    size = log.stat().st_size
    with open(log, "ab") as end:
        end.write(b"cut off in the middle of a record")
    said, status = inspect("repair", fresh.data)
    assert status == 0 and "cut_log" in [step["action"] for step in said["steps"]] and log.stat().st_size > size
    said, status = inspect("repair", fresh.data, "--write")
    assert status == 0 and all(step["done"] for step in said["steps"]) and log.stat().st_size == size
    assert (fresh.home / "data-repair" / f"{log.name}.torn").read_bytes() == b"cut off in the middle of a record"
    for what in ("tree", "wal", "manifest", "deletes", "verify"):
        assert inspect(what, fresh.data)[0]["errors"] == []
    for table in fresh.data.glob("*.data"):
        assert inspect("table", table)[0]["properties"]["entries"] > 0
    copy_dir = tmp_path / "from a stopped one"
    copy_dir.mkdir()
    said, status = inspect("backup", fresh.data, copy_dir / "data", "--link")
    assert status == 0 and said["links"] > 0
    for home in (fresh.home, copy_dir):
        with opened(home) as restored:
            assert restored.client().dbsize() == 2000
            assert restored.client().get("key:1999") == b"value 1999"


def test_save_with_wrong_arguments_or_an_unusable_backup_dir_fails_and_the_next_save_works(fresh, tmp_path):
    fresh.set("server.protected_configs=true").start()
    client = fresh.client()
    with pytest.raises(redis.ResponseError, match="syntax error"):
        client.execute_command("BGSAVE", "NOW")
    with pytest.raises(redis.ResponseError, match="wrong number of arguments for 'save'"):
        client.execute_command("SAVE", "x")
    client.config_set("storage.backup_dir", str(fresh.data / "inside"))
    with pytest.raises(redis.ResponseError, match="must be outside it"):
        client.save()
    assert client.info("persistence")["rdb_last_bgsave_status"] == "err"
    occupied = tmp_path / "file"
    occupied.write_text("x")
    client.config_set("storage.backup_dir", str(occupied / "sub"))
    with pytest.raises(redis.ResponseError, match="cannot create"):
        client.save()
    client.config_set("storage.backup_dir", str(tmp_path / "good"))
    saved(client)
    assert len(list((tmp_path / "good").iterdir())) == 1


def test_backup_sent_through_a_pipe_is_restored_and_opens(fresh, tmp_path):
    fresh.start()
    client = fresh.client()
    with client.pipeline(transaction=False) as pipe:
        for i in range(20_000):
            pipe.set(f"key:{i}", f"value {i}" * 10)
        pipe.execute()
    client.execute_command("TREE.FLUSH")
    client.set("in the log", "yes")
    client.save()
    (backup,) = backups(fresh)
    tool = binary("ebbtide-inspect")
    stream = subprocess.run([tool, "backup", backup, "-"], capture_output=True, timeout=120, check=True)
    assert b"files" in stream.stderr and len(stream.stdout) < sum(path.stat().st_size for path in backup.iterdir())
    restored_dir = tmp_path / "restored"
    restored_dir.mkdir()
    restore = [tool, "restore", "-", restored_dir / "data"]
    cut = subprocess.run(restore, input=stream.stdout[:-100], capture_output=True, timeout=120, check=False)
    assert cut.returncode == 1 and b"the stream ends too early" in cut.stderr and not (restored_dir / "data").exists()
    subprocess.run(restore, input=stream.stdout, capture_output=True, timeout=120, check=True)
    with opened(restored_dir) as restored:
        other = restored.client()
        assert other.dbsize() == 20_001 and other.get("key:19999") == b"value 19999" * 10 and other.get("in the log") == b"yes"


def test_inspect_backup_of_a_data_directory_in_use_to_a_pipe_is_refused(fresh):
    fresh.start()
    done = subprocess.run([binary("ebbtide-inspect"), "backup", fresh.data, "-"], capture_output=True, timeout=120, check=False)
    assert done.returncode == 1 and done.stdout == b"" and b"a server has" in done.stderr
