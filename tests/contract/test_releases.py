"""Tests of the files kept from each release: this version opens them and reads every key, and refuses files of a newer version."""

import ctypes
import json
import re
import shutil
import subprocess

import pytest

from support.releases import HOME, SETTINGS, contents, run, unpack
from support.server import ROOT, Server, binary, wait_until
from support.sockets import pairs

RELEASES = sorted(path.name for path in HOME.iterdir())


def expected(release, kind):
    return json.loads((HOME / release / "contents.json").read_text())[kind]


def without_stamps(lines):
    return [line[:-1] for line in lines]


@pytest.fixture
def opened(tmp_path):
    """Gives a function that starts a server on the data directory of a release."""
    servers = []

    def start(release):
        unpack(HOME / release, tmp_path / "data")
        servers.append(Server(SETTINGS, tmp_path, config=None))
        return servers[0].start()

    yield start
    for server in servers:
        server.close()


def test_every_release_has_a_kept_data_directory():
    source = (ROOT / "engine/tools/inspect_versions.cc").read_text()
    table = re.search(r"kReleases\[\] = \{(.*?)\};", source, re.S)[1]
    names = re.findall(r'\{"([\d.]+)"', table)
    unreleased = re.findall(r"^## ([\d.]+), not released yet$", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert RELEASES == sorted(set(names) - set(unreleased))


@pytest.mark.parametrize("release", RELEASES)
def test_kept_data_directory_of_a_release_has_every_kind_of_file_and_names_its_version(release, tmp_path):
    data = unpack(HOME / release, tmp_path / "data")
    names = {re.sub(r"\d+", "N", path.name) for path in data.iterdir()}
    assert {"CURRENT", "DATABASE_ID", "MANIFEST-N", "N.data", "N.meta", "N.wal", "RESERVE", "WORKLOAD"} <= names
    found = run("ebbtide-inspect", "versions", data).decode()
    assert f'Written by "{release}".' in found and f"Opens with {release} and later." in found
    for kind in ("manifest", "log", "table", "workload"):
        assert re.search(rf"^{kind} format \d+: \d+ files$", found, re.M), found
    run("ebbtide-inspect", "verify", data)
    assert json.loads(run("ebbtide-inspect", "versions", "--format", "json", data))["written_by"] == release


@pytest.mark.parametrize("release", RELEASES)
def test_data_directory_of_a_release_opens_and_has_every_key_also_after_it_is_rewritten(release, opened):
    server = opened(release)
    client = server.client()
    assert contents(client) == expected(release, "data")
    assert len(client.execute_command("TUNE.WORKLOAD")) > 0
    for database in range(3):
        client.select(database)
        client.execute_command("TREE.VERIFY")
        client.execute_command("TREE.COMPACT")
    server.restart()
    assert contents(server.client()) == expected(release, "data")
    assert "WORKLOAD" not in server.log()  # a warning would name the file


@pytest.mark.parametrize("release", RELEASES)
def test_backup_of_a_release_is_restored_with_every_key(release, tmp_path):
    run("ebbtide-inspect", "restore", "-", tmp_path / "data", input=(HOME / release / "backup.tar.zst").read_bytes())
    with Server(SETTINGS, tmp_path, config=None) as server:
        assert contents(server.client()) == expected(release, "backup")


@pytest.mark.parametrize("release", RELEASES)
def test_export_of_a_release_is_imported_with_every_key(release, fresh):
    client = fresh.set("databases.1.deletes.stamp=explicit").start().client()
    run("ebbtide-import", "-p", fresh.port, HOME / release / "export.rdb")
    assert without_stamps(contents(client)) == without_stamps(expected(release, "data"))


@pytest.mark.parametrize("release", RELEASES)
def test_export_of_an_upgraded_database_is_imported_by_an_empty_server(release, opened, tmp_path, fresh):
    newer = opened(release)
    newer.client().set("written by the newer version", "v")
    file = tmp_path / "back.rdb"
    run("ebbtide-export", "-p", newer.port, file)
    wanted = without_stamps(contents(newer.client()))
    newer.stop()
    shutil.rmtree(newer.data)
    client = fresh.start().client()
    run("ebbtide-import", "-p", fresh.port, file)
    assert without_stamps(contents(client)) == wanted


def info_of(client, command, name):
    return pairs(client.execute_command(command, name))


def in_indexes(client):
    """Returns the records of the index by a field and of the index of places, when both are complete."""
    for command, name in ("INDEX.INFO", "fields"), ("SPATIAL.INFO", "places"):
        wait_until(lambda command=command, name=name: info_of(client, command, name)[b"state"] == b"complete")
    _, found = client.execute_command("SPATIAL.SEARCH", "places", "BOX", 1, 2, 1, 2)
    return client.execute_command("INDEX.RANGE", "fields", "1", "1"), sorted(found)


@pytest.mark.parametrize("release", RELEASES)
def test_index_created_in_the_data_directory_of_a_release_has_its_hashes_and_loses_deleted_ones(release, opened):
    server = opened(release)
    client = server.client()
    hashes = [key.encode() for number, key, kind, *_ in expected(release, "data") if number == 0 and kind == "hash"]
    others = len([1 for number, *_ in expected(release, "data") if number == 0]) - len(hashes)
    client.execute_command("INDEX.CREATE", "fields", "PREFIX", "", "FIELD", "field1", "NUMBER")
    client.execute_command("SPATIAL.CREATE", "places", "PREFIX", "", "LON", "field1", "LAT", "field2")
    assert len(hashes) > 1
    assert in_indexes(client) == (sorted(hashes), sorted(hashes))
    for command, name in ("INDEX.INFO", "fields"), ("SPATIAL.INFO", "places"):
        assert pairs(info_of(client, command, name)[b"skipped"])[b"other-type"] == others
    server.kill()
    server.start()
    client = server.client()
    assert in_indexes(client) == (sorted(hashes), sorted(hashes))
    assert client.hdel(hashes[0], "field2") == 1
    assert in_indexes(client) == (sorted(hashes), sorted(hashes[1:]))
    client.delete(hashes[0])
    assert in_indexes(client) == (sorted(hashes[1:]), sorted(hashes[1:]))
    client.execute_command("STAMP.DELRANGE", "-", "+")  # all that is left is the older release's
    assert client.dbsize() == 0
    assert in_indexes(client) == ([], [])
    client.hset("hash", mapping={"field1": 1, "field2": 2})
    assert in_indexes(client) == ([b"hash"], [b"hash"])


def checksum(content, file, offset=0):
    """Returns the checksum of a block, as engine/base/checksum.h defines it."""
    xxhash = ctypes.CDLL("libxxhash.so.0").XXH3_64bits_withSeed
    xxhash.restype, xxhash.argtypes = ctypes.c_uint64, [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint64]
    return xxhash(bytes(content), len(content), (file * 0x9E3779B97F4A7C15 & (1 << 64) - 1) ^ offset)


@pytest.mark.parametrize(("kind", "header"), [("MANIFEST-*", 16), ("*.wal", 24), ("*.meta", 24)])
def test_start_on_files_of_a_newer_format_is_refused_with_both_versions_and_changes_no_file(kind, header, tmp_path):
    data = unpack(HOME / RELEASES[-1], tmp_path / "data")
    newest = max(data.glob(kind), key=lambda path: path.stat().st_size)
    content = bytearray(newest.read_bytes())
    own = int.from_bytes(content[4:8], "little")
    content[4:8] = (own + 40).to_bytes(4, "little")
    content[header : header + 8] = checksum(content[:header], int(re.search(r"\d+", newest.name)[0])).to_bytes(8, "little")
    newest.write_bytes(content)
    before = {path.name: path.read_bytes() for path in data.iterdir()}
    server = Server(SETTINGS, tmp_path, config=None)
    with pytest.raises(RuntimeError):
        server.start()
    refusal = [line for line in server.log().splitlines() if newest.name in line]
    limit = rf"version {own + 40}\b.*\b(\d+)$"
    supported = [int(found[1]) for line in refusal if (found := re.search(limit, line))]
    assert supported and own <= supported[0] < own + 40, server.log()
    changed = {path.name for path in data.iterdir() if path.name != "LOCK" and before.get(path.name) != path.read_bytes()}
    assert not changed and before.keys() - {"LOCK"} <= {path.name for path in data.iterdir()}
    done = subprocess.run([str(binary("ebbtide-inspect")), "versions", str(data)], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert f"format {own + 40}, but this program opens formats up to {supported[0]}" in done.stdout + done.stderr
