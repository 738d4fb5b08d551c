"""Tests that ebbtide-inspect salvage copies the readable keys of a damaged data directory to a new database."""

import json
import shutil
import subprocess

from conftest import SETTINGS
from support.files import flip
from support.server import Server, binary


def salvage(*arguments):
    """Returns the JSON output of salvage, and its exit status."""
    done = subprocess.run(
        [binary("ebbtide-inspect"), "salvage", *map(str, arguments), "--json"], capture_output=True, timeout=120, check=False
    )
    return json.loads(done.stdout), done.returncode


def keys_of(directory, home):
    """Returns the keys of a server over the directory, which is moved to `home`/data."""
    home.mkdir()
    directory.rename(home / "data")
    with Server(SETTINGS, home, config=None) as server:
        return set(server.client().keys())


def fill(server):
    server.start()
    client = server.client()
    for i in range(2000):
        client.set(f"key:{i}", f"value {i}")
    client.execute_command("TREE.FLUSH")
    for i in range(0, 2000, 2):
        client.delete(f"key:{i}")
    client.execute_command("TREE.FLUSH")
    return client


def test_salvage_saves_all_but_the_damaged_page_of_a_table_and_lists_this_page(fresh, tmp_path):
    client = fill(fresh)
    client.execute_command("TREE.PAUSE", 600_000)
    alive = set(client.keys())
    fresh.stop()
    table = max(fresh.data.glob("*.data"), key=lambda path: path.stat().st_size)
    flip(table, 5000)
    said, status = salvage(fresh.data, tmp_path / "out")
    assert status == 1, said
    assert any(lost["file"] == table.name and lost["offset"] > 0 for lost in said["lost"]), said
    saved = keys_of(tmp_path / "out", tmp_path / "certain")
    assert saved <= alive and len(saved) > len(alive) - 300


def test_salvage_without_a_manifest_writes_all_keys_to_the_possibly_deleted_copy(fresh, tmp_path):
    client = fill(fresh)
    alive = set(client.keys())
    fresh.stop()
    (manifest,) = fresh.data.glob("MANIFEST-*")
    manifest.write_bytes(b"x")
    said, status = salvage(fresh.data, tmp_path / "out")
    assert status == 1 and "MANIFEST" in said["lost"][0]["file"], said
    assert keys_of(tmp_path / "out-possibly-deleted", tmp_path / "apart") == alive
    assert keys_of(tmp_path / "out", tmp_path / "certain") == set()


def test_salvage_of_a_backup_saves_every_key_and_of_a_running_server_is_refused(fresh, tmp_path):
    client = fill(fresh)
    client.save()
    said, status = salvage(fresh.data, tmp_path / "out")
    assert status == 2 and "open" in said["errors"][0], said
    (backup,) = fresh.data.with_name(fresh.data.name + "-backups").iterdir()
    said, status = salvage(backup, tmp_path / "out")
    assert status == 0 and said["lost"] == [], said
    assert keys_of(tmp_path / "out", tmp_path / "whole") == set(client.keys())
    said, status = salvage(backup, backup / "inside")
    assert status == 2, said
    said, status = salvage(tmp_path / "nothing", tmp_path / "out2")
    assert status == 2, said


def test_salvage_ignores_a_copied_log_segment_and_a_directory_named_like_one(fresh, tmp_path):
    client = fill(fresh)
    alive = set(client.keys())
    fresh.stop()
    log = min(fresh.data.glob("*.wal"))
    shutil.copy(log, fresh.data / "900001.wal")
    (fresh.data / "900002.wal").mkdir()
    said, status = salvage(fresh.data, tmp_path / "out")
    assert status == 0 and said["lost"] == [], said
    assert keys_of(tmp_path / "out", tmp_path / "whole") == alive


def test_server_starts_and_skips_log_damage_whose_operations_are_already_in_tables(fresh):
    client = fill(fresh)
    client.set("later", "1")
    fresh.kill()
    log = min(fresh.data.glob("*.wal"))
    flip(log, 60)
    fresh.start()
    client = fresh.client()
    assert client.get("later") == b"1" and client.dbsize() == 1001
    assert "not needed" in fresh.log_path.read_text(encoding="utf-8")
