"""Tests the cron job of deploy/README.md that sends a backup to another host, and the commands there that send and restore one.
A folder takes the place of the other host: a program `ssh` of the test runs its command there."""

import os
import re
import subprocess
import textwrap
from pathlib import Path

import pytest
from support.server import ROOT, Server, binary

README = (ROOT / "deploy/README.md").read_text()
SCRIPT = textwrap.dedent(re.search(r"^    #!/bin/bash\n    # /usr/local/bin/ebbtide-backup\n(?:    .+\n)+", README, re.M)[0])
INSPECT = binary("ebbtide-inspect")


class Site:
    """A server with a key, and a folder `remote` in place of the other host."""

    def __init__(self, server, home):
        self.server, self.home = server, home
        self.programs, self.remote = home / "bin", home / "remote"
        self.programs.mkdir()
        self.remote.mkdir()
        self.program("redis-cli", f'exec /usr/bin/redis-cli -p {server.port} "$@"')
        self.program("ebbtide-inspect", f'exec {INSPECT} "$@"')
        self.program("ssh", f'[[ $# == 2 && $1 == backup-host ]] || exit 255\ncd {self.remote} && exec bash -c "$2"')
        server.client().set("key", "value")

    def program(self, name, text):
        path = self.programs / name
        path.write_text(f"#!/bin/bash\n{text}\n")
        path.chmod(0o755)

    def run(self, text):
        """Runs a script of the README, with the paths of this server instead of those of the service."""
        text = text.replace("/var/lib/ebbtide/data-backups", f"{self.server.data}-backups")
        text = text.replace("/var/lib/ebbtide/data", str(self.home / "data"))
        (self.home / "script").write_text(text)
        environment = {**os.environ, "PATH": f"{self.programs}:{os.environ['PATH']}"}
        return subprocess.run(["bash", self.home / "script"], env=environment, capture_output=True, text=True, timeout=120, check=False)

    def sent(self):
        return sorted(path.name for path in self.remote.iterdir())

    def backups(self):
        folder = Path(f"{self.server.data}-backups")
        return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


@pytest.fixture
def site(tmp_path):
    with Server() as server:
        yield Site(server, tmp_path)


def command_with(text):
    """Returns the line of the README's examples that has `text`."""
    return re.search(rf"^    (.*{re.escape(text)}.*)$", README, re.M)[1]


def restored(site, name):
    """Restores a backup that was sent, by the command of the README, and returns the value of the key in it."""
    done = site.run(command_with("ebbtide-inspect restore - ").replace("NAME.tar.zst", name))
    assert done.returncode == 0, done.stderr
    with Server(directory=site.home) as server:
        return server.client().get("key")


def test_cron_job_sends_each_new_backup_and_the_readme_restores_it(site):
    assert re.search(r"^    \d+ \d+ \* \* \* ebbtide /usr/local/bin/ebbtide-backup$", README, re.M)
    for i, value in enumerate(("value", "newer")):
        site.server.client().set("key", value)
        done = site.run(SCRIPT)
        assert done.returncode == 0, done.stderr
        assert len(site.backups()) == i + 1
        assert site.sent() == [f"ebbtide-{name}.tar.zst" for name in site.backups()]
    assert restored(site, site.sent()[-1]) == b"newer"


def test_backup_sent_by_the_command_of_the_readme_is_restored_from_the_other_host(site):
    site.server.client().save()
    done = site.run(command_with("ebbtide-inspect backup /var/lib/").replace("data-backups/NAME", f"data-backups/{site.backups()[-1]}"))
    assert done.returncode == 0 and site.sent() == ["NAME.tar.zst"], done.stderr
    assert restored(site, "NAME.tar.zst") == b"value"


def break_server(site):
    site.server.kill()


def break_save(site):
    site.program("redis-cli", "echo 'ERR the disk is full'")


def break_network(site):
    site.program("ssh", "exit 255")


def break_stream(site):
    site.program("ebbtide-inspect", f'{INSPECT} "$@" | head -c 300\nexit 1')


def break_backup(site):
    site.program("ebbtide-inspect", "exit 1")


def break_disk_of_the_other_host(site):
    site.program("ssh", f'cd {site.remote} && PATH={site.programs}:$PATH exec bash -c "$2"')
    site.program("cat", "head -c 100; exit 1")


@pytest.mark.parametrize("breaks", [break_server, break_save, break_network, break_stream, break_backup, break_disk_of_the_other_host])
def test_cron_job_that_cannot_send_the_whole_backup_fails_and_leaves_no_complete_name(site, breaks):
    site.server.client().save()  # an older backup, which must not be sent instead
    breaks(site)
    assert site.run(SCRIPT).returncode != 0
    assert not any(name.endswith(".tar.zst") for name in site.sent()), site.sent()
