"""`./dev package --test`: installs, upgrades, removes and purges the Debian package in a fresh Debian. Needs podman or docker.

The upgrade is to the same package with a higher version: dpkg treats its scripts and its configuration file as those of a new
version. Then the kept data of every released version are opened. The container has no systemd, so the test starts the server itself, as its user and with the command line of the unit.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from container.run import BASE, Engine

SCRIPT = (Path(__file__).parent / "package.sh").read_text()
RELEASES = Path(__file__).parents[1] / "contract/testdata"


def newer(package, directory):
    """Makes the same package with a higher version. Returns its path."""
    subprocess.run(["dpkg-deb", "-R", package, directory], check=True)
    control = directory / "DEBIAN/control"
    lines = [line + "+test" if line.startswith("Version:") else line for line in control.read_text().splitlines()]
    control.write_text("\n".join(lines) + "\n")
    yaml = directory / "etc/ebbtide/ebbtide.yaml"
    yaml.write_text(yaml.read_text() + "# a new version has another file\n")


def main():
    parser = argparse.ArgumentParser(prog="./dev package --test", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", choices=["podman", "docker"], help="by default podman if it is installed, else docker")
    parser.add_argument("package", help="the .deb to test")
    options = parser.parse_args()
    engine = Engine(options.engine or ("podman" if shutil.which("podman") else "docker"))
    with tempfile.TemporaryDirectory(prefix="ebbtide-package-") as home:
        home = Path(home)
        shutil.copy(options.package, home / "old.deb")
        newer(home / "old.deb", home / "tree")
        subprocess.run(["dpkg-deb", "--root-owner-group", "-b", home / "tree", home / "new.deb"], check=True, stdout=subprocess.DEVNULL)
        shutil.rmtree(home / "tree")
        for release in RELEASES.iterdir():
            shutil.copy(release / "data.tar.gz", home / f"release-{release.name}.tar.gz")
        for path in (home, *home.iterdir()):
            path.chmod(0o755)
        done = subprocess.run(
            [engine.name, "run", "--rm", "--network", "host", "-v", f"{home}:/packages:ro", BASE, "bash", "-c", SCRIPT],
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    print("passed" if done.returncode == 0 else "failed")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
