"""Makes the kept files of a release, and reads them: every later version must open them.

    PYTHONPATH=tests python3 tests/support/releases.py

writes tests/contract/testdata/VERSION with the server of build/release:

    data.tar.gz      a data directory after kill -9: manifest, log segments, tables with each compression, tiles, dropped pages,
                     large values and range deletes, WORKLOAD, DATABASE_ID, RESERVE
    backup.tar.zst   a backup, as `ebbtide-inspect backup` sends it; it was made before the last writes
    export.rdb       what `ebbtide-export` wrote
    contents.json    every key of the data directory and of the backup, as digests

Run it once for each release, with that release's programs. Never make the files of an older release again.
"""

import gzip
import hashlib
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from support.server import ROOT, Server, binary

HOME = ROOT / "tests/contract/testdata"
FAR = 4_102_444_800_000  # an expiry: the year 2100, in ms

# Three databases: strings and collections; delete tiles of eight pages with explicit stamps; uncompressed runs.
SETTINGS = {
    "server.bind": "127.0.0.1",
    "storage.memory_budget": "128MiB",
    "storage.wal_segment_size": "64KiB",
    "storage.accept_clock": "true",  # the files may be years old
    "tree.memtable_size": "256KiB",
    "tree.file_size": "64KiB",
    "tree.deletes.deadline": "3650d",  # so that pending deletes stay in the files
    "databases.1.deletes.stamp": "explicit",
    "databases.1.pages_per_tile": "8",
    "databases.2.deletes.stamp": "expire_time",
    "databases.2.policy.name": "tiering",
    "databases.2.policy.size_ratio": "4",
}


def text(name, size):
    """Returns bytes that depend on the name only, and do not compress well."""
    out = b""
    while len(out) < size:
        out += hashlib.sha256(f"{name} {len(out)}".encode()).digest()
    return out[:size]


def write_tables(client):
    """Writes what goes into tables."""
    for database in range(3):
        client.select(database)
        with client.pipeline(transaction=False) as pipe:
            for i in range(300):
                if database == 1:
                    pipe.execute_command("STAMP.SET", f"key{i:04}", 1000 + i, text(f"{database} {i}", 150))
                else:
                    pipe.set(f"key{i:04}", text(f"{database} {i}", i), pxat=FAR + i if i % 3 == 0 else None)
            pipe.execute()
        client.set("large", text(f"large {database}", 100_000))
        client.execute_command("TREE.FLUSH")
    client.select(0)
    for size in (3, 600):
        client.rpush(f"list{size}", *range(size))
        client.sadd(f"set{size}", *(f"member{i}" for i in range(size)))
        client.hset(f"hash{size}", mapping={f"field{i}": i for i in range(size)})
        client.zadd(f"zset{size}", {f"member{i}": i / 4 for i in range(size)})
    client.pfadd("hyperloglog", *range(1000))
    client.setbit("bits", 1000, 1)
    client.set("zero\x00byte", "v")
    client.execute_command("TREE.FLUSH")
    for database in range(3):
        client.select(database)
        client.execute_command("TREE.COMPACT")
    # Deletes over the tables on the last level.
    client.select(0)
    client.delete("key0001")
    client.execute_command("DELRANGE", "key0100", "key0120")
    client.srem("set600", "member7")
    client.execute_command("TREE.FLUSH")
    client.select(1)
    client.execute_command("STAMP.DELRANGE", 1100, 1200)
    client.execute_command("TREE.FLUSH")
    client.select(0)


def write_log(client):
    """Writes what stays in the log."""
    client.select(0)
    client.execute_command("DELPREFIX", "key02")
    client.hset("hash3", "new", "field")
    client.lpop("list600")
    client.set("last", text("last", 70_000))
    client.select(1)
    client.execute_command("STAMP.SET", "stamped", 7, "v")
    client.execute_command("STAMP.DELRANGE", 1000, 1010)
    client.select(2)
    client.set("expires", "v", pxat=FAR)
    client.delete("key0005")
    with client.pipeline(transaction=True) as pipe:
        pipe.set("a", "1")
        pipe.set("b", "2")
        pipe.execute()
    client.select(0)


READERS = {
    "string": lambda client, key: [client.get(key)],
    "list": lambda client, key: client.lrange(key, 0, -1),
    "set": lambda client, key: sorted(client.smembers(key)),
    "hash": lambda client, key: sorted(client.hgetall(key).items()),
    "zset": lambda client, key: client.zrange(key, 0, -1, withscores=True),
}


def contents(client):
    """Returns a line for each key: database, key, type, digest of the value, expiry, and the stamp if stamps are explicit."""
    lines = []
    for database in range(3):
        client.select(database)
        for key in sorted(client.scan_iter(count=1000)):
            kind = client.type(key).decode()
            digest = hashlib.sha256(repr(READERS[kind](client, key)).encode()).hexdigest()[:16]
            stamp = client.execute_command("STAMP.GET", key) if database == 1 else None
            lines.append([database, key.decode("latin-1"), kind, digest, client.pexpiretime(key), stamp])
    client.select(0)
    return lines


def run(tool, *arguments, **options):
    return subprocess.run([str(binary(tool)), *map(str, arguments)], check=True, capture_output=True, **options).stdout


def pack(directory, archive):
    """Writes the files of a directory into an archive. The same files always make the same archive."""

    def plain(entry):
        entry.uid = entry.gid = entry.mtime = 0
        entry.uname = entry.gname = ""
        return entry

    with open(archive, "wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as packed, tarfile.open(fileobj=packed, mode="w") as tar:
        for path in sorted(directory.iterdir()):
            tar.add(path, path.name, filter=plain)


def unpack(release, directory):
    """Makes the data directory of a release."""
    directory.mkdir(mode=0o700)
    with tarfile.open(release / "data.tar.gz") as tar:
        tar.extractall(directory)
    return directory


def make():
    version = run("ebbtide-server", "--version").decode().split()[-1]
    release = HOME / version
    with tempfile.TemporaryDirectory(prefix="ebbtide-release-") as home, Server(SETTINGS, home, config=None) as server:
        home = Path(home)
        write_tables(server.client())
        assert server.stop() == 0  # saves the history of the workload
        client = server.start().client()
        client.save()
        expected = {"backup": contents(client)}
        (backup,) = (home / "data-backups").iterdir()
        stream = run("ebbtide-inspect", "backup", backup, "-")
        write_log(client)
        expected["data"] = contents(client)
        run("ebbtide-export", "-p", server.port, home / "export.rdb")
        server.kill()
        release.mkdir(parents=True, exist_ok=True)
        pack(server.data, release / "data.tar.gz")
        (release / "backup.tar.zst").write_bytes(stream)
        shutil.copy(home / "export.rdb", release / "export.rdb")
        lines = ",\n".join(f'"{kind}": [\n' + ",\n".join(map(json.dumps, keys)) + "\n]" for kind, keys in expected.items())
        (release / "contents.json").write_text("{\n" + lines + "\n}\n")
        print("\n".join(f"{path.stat().st_size:8} {path.relative_to(ROOT)}" for path in sorted(release.iterdir())))
        print(sorted(path.name for path in server.data.iterdir()))


if __name__ == "__main__":
    sys.exit(make())
