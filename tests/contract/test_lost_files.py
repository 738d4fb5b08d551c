"""Tests that a running server notices files that an administrator has damaged or removed, and loses no acknowledged write. If a
start fails for a missing right or a limit, the error names the right or limit, and a remedy."""

import os
import shutil
import signal

import pytest
import redis

from conftest import SETTINGS
from support.files import flip
from support.server import Server, wait_until

KEYS = 300
# Starts a process as the superuser without the superuser's right to use any file, and without the right to raise limits.
RIGHTS = "dac_override,-dac_read_search,-sys_resource"
PERMISSIONS_COUNT = ["setpriv", f"--bounding-set=-{RIGHTS}", f"--inh-caps=-{RIGHTS}"]


def value_of(i):
    return b"%06d" % i * 20


def seconds_pass(client, seconds):
    """Waits until the server's engine time has advanced. The server checks its files once a second."""
    end = client.info("ebbtide")["engine_time_ms"] + seconds * 1000
    wait_until(lambda: client.info("ebbtide")["engine_time_ms"] >= end, what="time passes")


@pytest.fixture
def filled(fresh):
    """A running server with a table and a log, which has checked its files once."""
    fresh.start()
    client = fresh.client()
    client.mset({f"k{i}": value_of(i) for i in range(KEYS)})
    client.execute_command("TREE.FLUSH")
    for i in range(KEYS, 2 * KEYS):
        client.set(f"k{i}", value_of(i))
    seconds_pass(client, 3)
    return fresh


def is_whole(server):
    client = server.client()
    return client.mget([f"k{i}" for i in range(2 * KEYS)]) == [value_of(i) for i in range(2 * KEYS)]


def manifest_of(server):
    (path,) = server.data.glob("MANIFEST-*")
    return path


def log_of(server):
    return sorted(server.data.glob("*.wal"))[-1]


def replace_by_copy(path):
    copy = path.with_name("copy")
    shutil.copy(path, copy)
    copy.rename(path)


HARMS = {
    "flipped": lambda path: flip(path, path.stat().st_size // 2),
    "replaced by a copy": replace_by_copy,
    "truncated": lambda path: os.truncate(path, 100),
    "flipped in its first byte": lambda path: flip(path, 0),
}


@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("of", [manifest_of, log_of])
def test_idle_server_notices_a_damaged_log_or_manifest_and_writes_it_again(filled, of, harm):
    victim = of(filled)
    HARMS[harm](victim)
    wait_until(lambda: f"{victim.name}" in filled.log(), what="the file is named in the log")
    wait_until(lambda: "writes are accepted again" in filled.log(), what="the server heals")
    assert "was overwritten" not in filled.log()
    filled.kill()
    filled.start()
    assert is_whole(filled)


@pytest.mark.parametrize("harm", ["flipped", "truncated"])
@pytest.mark.parametrize("of", [manifest_of, log_of])
def test_log_or_manifest_damaged_just_before_a_stop_is_written_again_by_the_stop(filled, of, harm):
    filled.process.send_signal(signal.SIGSTOP)  # so that no check runs between the damage and the stop
    victim = of(filled)
    HARMS[harm](victim)
    filled.process.send_signal(signal.SIGTERM)
    filled.process.send_signal(signal.SIGCONT)
    assert filled.wait() == 0
    assert victim.name in filled.log()
    filled.start()
    assert is_whole(filled)


def test_removed_lock_file_is_created_and_locked_again(filled):
    lock = filled.data / "LOCK"
    lock.unlink()
    wait_until(lambda: "LOCK was removed while the database used it; a new file was created and locked" in filled.log())
    assert lock.exists()
    second = Server(SETTINGS, filled.home, config=None)
    try:
        with pytest.raises(RuntimeError, match="LOCK: held by another process"):
            second.start()
    finally:
        second.close()
    assert filled.client().set("k", "v")


def test_removed_or_changed_database_id_file_is_written_again(filled):
    """Otherwise the next start would write a new id, and the server would not remove backups made under the old id."""
    file = filled.data / "DATABASE_ID"
    before = file.read_bytes()
    file.unlink()
    wait_until(file.exists, what="DATABASE_ID is written again")
    wait_until(lambda: file.read_bytes() == before)
    file.write_bytes(b"00000000\n")
    assert filled.stop() == 0
    assert file.read_bytes() == before
    assert filled.log().count("DATABASE_ID was removed or changed while the database used it; it was written again") == 2


def test_log_segment_with_a_hole_of_a_terabyte_at_its_end_is_replayed_at_once(filled):
    """A hole of a terabyte would take hours to read."""
    filled.kill()
    segment = log_of(filled)
    os.truncate(segment, segment.stat().st_size + (1 << 40))
    filled.start(timeout=30)
    assert is_whole(filled)


def contents(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.name != "RESERVE"}


def test_start_refused_for_missing_log_segments_changes_no_file(fresh):
    """The manifest has lost its last edits, and names log segments that are missing. A salvage needs the unchanged manifest."""
    fresh.set("storage.wal_segment_size=1MiB").start()
    client = fresh.client()
    manifest = manifest_of(fresh)

    def write():
        client.mset({f"k{i}": os.urandom(4000) for i in range(400)})
        client.execute_command("TREE.FLUSH")

    def segments():
        return sorted(path.name for path in fresh.data.glob("*.wal"))

    write()
    named = segments()
    inside_the_next_record = manifest.stat().st_size + 5
    wait_until(lambda: (write(), segments()[0] > named[-1])[1], what="the server removed the segments that the manifest named")
    fresh.kill()
    os.truncate(manifest, inside_the_next_record)
    before = contents(fresh.data)
    line = refusal(fresh)
    assert f"{manifest.name} ends in an incomplete record, after a crash or a truncation" in line
    assert contents(fresh.data) == before


def refusal(server):
    before = len(server.log())
    with pytest.raises(RuntimeError):
        server.start()
    return [line for line in server.log()[before:].splitlines() if " E " in line][-1]


def test_error_of_a_start_with_an_unreadable_file_has_its_owner_and_the_command_to_repair_it(fresh):
    if os.geteuid() == 0:
        fresh.prefix = PERMISSIONS_COUNT
    fresh.start()
    fresh.kill()
    current = fresh.data / "CURRENT"
    current.chmod(0)
    line = refusal(fresh)
    assert f"{current}: Permission denied" in line
    assert f"but its mode 0000 lacks rights: chmod u+rw {current}" in line
    current.chmod(0o600)
    if os.geteuid() == 0:
        os.chown(current, 12345, -1)
        assert f"{current} belongs to user 12345, its mode is 0600, and this process is user 0 (root): chown 0:" in refusal(fresh)
        os.chown(current, 0, -1)
    fresh.start()


def test_server_whose_directory_becomes_unwritable_is_read_only_and_logs_the_remedy(fresh):
    if os.geteuid() == 0:
        fresh.prefix = PERMISSIONS_COUNT
    fresh.start()
    client = fresh.client()
    client.set("k", "v")
    fresh.data.chmod(0o500)
    with pytest.raises(redis.ResponseError, match="Permission denied"):
        client.execute_command("TREE.FLUSH")
    wait_until(lambda: "read-only: " in fresh.log())
    (line,) = [line for line in fresh.log().splitlines() if " E read-only: " in line]
    assert line.endswith(f"but its mode lacks rights: chmod u+rwx {fresh.data}")
    fresh.data.chmod(0o700)
    wait_until(lambda: "writes are accepted again" in fresh.log())
    assert client.get("k") == b"v" and client.set("k", "w")


def test_start_refused_for_too_few_open_files_names_the_limit(fresh):
    fresh.prefix = [*(PERMISSIONS_COUNT if os.geteuid() == 0 else ()), "prlimit", "--nofile=12:12"]
    assert "Too many open files; this process may open 12 files: raise the limit (LimitNOFILE" in refusal(fresh)


def test_directory_that_every_user_may_write_to_gets_a_warning(fresh):
    fresh.start()
    assert "has the mode" not in fresh.log()
    fresh.kill()
    fresh.data.chmod(0o777)
    fresh.start()
    assert f"W {fresh.data} has the mode 0777: every user of this machine may remove and replace" in fresh.log()


def test_file_name_with_characters_that_change_the_text_direction_is_escaped_in_the_log(fresh):
    fresh.start()
    fresh.kill()
    (fresh.data / "a\u202efdp\u2028x").touch()
    fresh.start()
    assert r"a\xe2\x80\xaefdp\xe2\x80\xa8x" in fresh.log()
    assert "\u202e" not in fresh.log()
