"""`./dev test-container`: builds the image of docker/Dockerfile and checks that it runs as a locked-down container.

Checked are the user, the read-only file system, capabilities, ports, the health check, the memory limit, a clean SIGTERM, and that data
survive a stop and kill -9. Needs podman or docker, and root for the network of the host, which the server uses on free ports.

--prebuilt takes the programs of build/release instead of compiling them in the first stage: in seconds, but that stage is not tested.
Where podman may not create namespaces for a build, set BUILDAH_ISOLATION=chroot.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import redis

from support.server import ROOT, free_port, wait_until

PASSWORD = "a-password-for-this-test"
IMAGE = "localhost/ebbtide-test"
UID = 10001
MEMORY_MIB = 512
# The same for podman and docker.
LOCKED = ["--read-only", "--cap-drop", "all", "--security-opt", "no-new-privileges", "--network", "host", "--memory", f"{MEMORY_MIB}m"]


class Engine:
    """podman or docker: the commands that both have."""

    def __init__(self, name):
        self.name = name

    def run(self, *arguments, check=True, **options):
        done = subprocess.run([self.name, *arguments], capture_output=True, text=True, check=False, **options)
        if check and done.returncode != 0:
            raise AssertionError(f"{self.name} {' '.join(arguments)}: status {done.returncode}\n{done.stdout}{done.stderr}")
        return done

    def build(self, prebuilt):
        # podman's own format has no health check.
        line = [self.name, "build", "--network", "host", "-t", IMAGE, "-f", str(ROOT / "docker/Dockerfile")]
        line += ["--format", "docker"] if self.name == "podman" else []
        if prebuilt is not None:
            line += ["--build-context", f"build={prebuilt}", "--target", "run"]
        subprocess.run([*line, str(ROOT)], check=True)

    def inspect(self, what, *kind):
        return json.loads(self.run(*kind, "inspect", what).stdout)[0]


steps = []


def step(text):
    """Begins a step; the one before it has passed."""
    steps.append(text)
    print(f"  {text}", flush=True)


def install_prebuilt(directory):
    """Puts the programs of build/release where the first stage would put them."""
    subprocess.run(
        ["cmake", "--install", ROOT / "build/release", "--component", "server", "--prefix", directory / "installed/usr", "--strip"],
        check=True,
        stdout=subprocess.DEVNULL,
    )


class Container:
    def __init__(self, engine, home):
        self.engine = engine
        self.name = f"ebbtide-test-{os.getpid()}"
        self.volume = self.name
        self.port, self.metrics_port = free_port(), free_port()
        password = home / "password.txt"
        password.write_text(PASSWORD + "\n")
        password.chmod(0o644)
        self.settings = {
            "EBBTIDE_SERVER__PORT": self.port,
            "EBBTIDE_METRICS__PORT": self.metrics_port,
            "EBBTIDE_SERVER__PASSWORD_FILE": "/run/secrets/ebbtide_password",
            "EBBTIDE_STORAGE__MAX_DISK_BYTES": "1TiB",
        }
        self.mounts = ["-v", f"{self.volume}:/var/lib/ebbtide", "-v", f"{password}:/run/secrets/ebbtide_password:ro"]

    def start(self):
        environment = [word for key, value in self.settings.items() for word in ("-e", f"{key}={value}")]
        self.engine.run("run", "-d", "--name", self.name, *LOCKED, *self.mounts, *environment, IMAGE)
        self.wait_ready()

    def again(self):
        self.engine.run("start", self.name)
        self.wait_ready()

    def wait_ready(self):
        try:
            wait_until(lambda: self.execute("/usr/lib/ebbtide/health", check=False).returncode == 0, 60, "the health check passes", 0.2)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.log()}") from None

    def execute(self, *command, check=True):
        return self.engine.run("exec", self.name, *command, check=check)

    def log(self):
        done = self.engine.run("logs", self.name)
        return done.stdout + done.stderr

    def client(self, password=PASSWORD):
        return redis.Redis(port=self.port, password=password)

    def status(self):
        return self.engine.inspect(self.name)["State"]["ExitCode"]

    def remove(self):
        self.engine.run("rm", "-f", self.name, check=False)
        self.engine.run("volume", "rm", "-f", self.volume, check=False)


def check_image(engine):
    step("the image says what a runtime needs to know")
    image = engine.inspect(IMAGE, "image")
    config = image["Config"]
    assert config["User"] == f"{UID}:{UID}", config["User"]
    assert set(config["ExposedPorts"]) == {"6379/tcp", "9736/tcp"}
    assert set(config["Volumes"]) == {"/var/lib/ebbtide"}
    assert config["Entrypoint"] == ["/usr/bin/ebbtide-server"]
    assert config["StopSignal"] in ("SIGTERM", "15")
    assert (image.get("Healthcheck") or config["Healthcheck"])["Test"] == ["CMD", "/usr/lib/ebbtide/health"]

    step("it has the programs, and no compiler")
    run = ["run", "--rm", *LOCKED]
    assert "ebbtide-server" in engine.run(*run, IMAGE, "--version").stdout
    assert "verify" in engine.run(*run, "--entrypoint", "ebbtide-inspect", IMAGE, "--help").stdout
    assert engine.run(*run, "--entrypoint", "bash", IMAGE, "-c", "command -v g++ cc ld", check=False).returncode != 0

    step("the health check fails where no server runs")
    health = ["-e", f"EBBTIDE_METRICS__PORT={free_port()}", "--entrypoint", "/usr/lib/ebbtide/health"]
    assert engine.run(*run, *health, IMAGE, check=False).returncode == 1


def check_locked(container):
    step("clients of the host are served with the password only")
    client = container.client()
    assert client.set("k", "v") and client.get("k") == b"v"
    try:
        container.client(password=None).ping()
        raise AssertionError("a client without password was served")
    except redis.AuthenticationError:
        pass

    step(f"the server is process 1, of user {UID}, without capabilities")
    status = dict(line.split(":\t", 1) for line in container.execute("cat", "/proc/1/status").stdout.splitlines() if ":\t" in line)
    assert status["Name"].startswith("ebbtide-server"), status["Name"]
    assert set(status["Uid"].split()) == set(status["Gid"].split()) == {str(UID)}
    assert {status[name] for name in ("CapEff", "CapPrm", "CapBnd", "CapInh")} == {"0" * 16}
    assert status["NoNewPrivs"] == "1"

    step("nothing but the volume can be written")
    roots = [line.split() for line in container.execute("cat", "/proc/mounts").stdout.splitlines() if line.split()[1] == "/"]
    assert roots and all("ro" in mount[3].split(",") for mount in roots), roots
    for path, writable in (("/x", False), ("/etc/x", False), ("/usr/bin/x", False), ("/var/lib/ebbtide/x", True)):
        assert (container.execute("bash", "-c", f": > {path} && rm {path}", check=False).returncode == 0) == writable, path

    step("data are private to the user")
    listing = container.execute("find", "/var/lib/ebbtide", "-printf", "%y %m %U %G\n").stdout.splitlines()
    assert set(listing) == {f"d 700 {UID} {UID}", f"f 600 {UID} {UID}"}, set(listing)

    step("a backup goes into the volume")
    client.save()
    assert container.execute("ls", "/var/lib/ebbtide/data-backups").stdout.strip()


def check_memory(container):
    step("the memory limit is the server's")
    assert f"memory budget {MEMORY_MIB // 2}MiB" in container.log(), container.log()


def check_signals(container):
    step("SIGTERM ends the server cleanly")
    began = time.monotonic()
    container.engine.run("stop", "-t", "60", container.name)
    assert time.monotonic() - began < 20
    assert container.status() == 0, container.status()
    assert container.log().rstrip().endswith("bye"), container.log()

    step("data survive a stop, and kill -9")
    container.again()
    client = container.client()
    assert client.get("k") == b"v"
    client.set("k2", "v2")
    container.engine.run("kill", "-s", "KILL", container.name)
    wait_until(lambda: not container.engine.inspect(container.name)["State"]["Running"], 20, "the container has ended")
    container.again()
    assert container.client().get("k2") == b"v2"


def main():
    parser = argparse.ArgumentParser(prog="./dev test-container", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prebuilt", action="store_true", help="take the programs of build/release instead of compiling them")
    parser.add_argument("--engine", choices=["podman", "docker"], help="by default podman if it is installed, else docker")
    parser.add_argument("--keep", action="store_true", help="keep the image")
    options = parser.parse_args()
    engine = Engine(options.engine or ("podman" if shutil.which("podman") else "docker"))
    with tempfile.TemporaryDirectory(prefix="ebbtide-container-") as home:
        home = Path(home)
        home.chmod(0o755)
        if options.prebuilt:
            install_prebuilt(home)
        engine.build(home if options.prebuilt else None)
        container = Container(engine, home)
        try:
            check_image(engine)
            container.start()
            check_locked(container)
            check_memory(container)
            check_signals(container)
        finally:
            container.remove()
            if not options.keep:
                engine.run("rmi", "-f", IMAGE, check=False)
    print(f"\n{len(steps)} passed, 0 failed")


if __name__ == "__main__":
    sys.exit(main())
