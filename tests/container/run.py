"""`./dev test-container`: builds the image of docker/Dockerfile and checks that it runs as a locked-down container.

The test checks the image's size and user, the read-only file system, capabilities, ports, the health check, redis-cli, the
memory limit, and the image of Prometheus. It also checks a clean SIGTERM under load, the data after a stop and after kill -9, and the messages of a refused
start: with a wrong YAML file, and with a data directory of root. A server with 256 MiB of memory gets 4 GB of data, or 1 GB with
--quick.

The test needs podman or docker, and root for the network of the host, which the server uses on free ports.

--prebuilt takes the programs of build/release instead of compiling them in the first stage: this takes seconds, but does not test
that stage. --image takes an image that was built before. Where podman may not create namespaces for a build, set
BUILDAH_ISOLATION=chroot.
"""

import argparse
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

import redis

from support.server import ROOT, free_port, wait_until

PASSWORD = "a-password-for-this-test"
IMAGE = "localhost/ebbtide-test"
PROMETHEUS_IMAGE = "localhost/ebbtide-prometheus-test"
UID = 10001
BASE = re.search(r"^FROM (\S+) AS run$", (ROOT / "docker/Dockerfile").read_text(), re.M)[1]
MOST_MB_OVER_BASE = 40
MEMORY_MIB, SMALL_MEMORY_MIB = 512, 256
STOP_SECONDS = 10  # Docker waits so long after SIGTERM before it kills
HEALTH = ["/usr/bin/ebbtide-server", "--health", "--config", "/etc/ebbtide/ebbtide.yaml"]
# podman and docker have the same options here.
LOCKED = ["--read-only", "--cap-drop", "all", "--security-opt", "no-new-privileges", "--network", "host"]


class Engine:
    """Runs the commands that podman and docker have in common."""

    def __init__(self, name):
        self.name = name

    def run(self, *arguments, check=True, **options):
        done = subprocess.run([self.name, *arguments], capture_output=True, text=True, check=False, **options)
        if check and done.returncode != 0:
            raise AssertionError(f"{self.name} {' '.join(arguments)}: status {done.returncode}\n{done.stdout}{done.stderr}")
        return done

    def build(self, image, file, *options):
        # Images in podman's own format have no health check.
        line = [self.name, "build", "--network", "host", "-t", image, "-f", str(ROOT / file), *options]
        line += ["--format", "docker"] if self.name == "podman" else []
        subprocess.run([*line, str(ROOT)], check=True)

    def build_server(self, prebuilt, jobs):
        options = ["--build-arg", f"JOBS={jobs}"] if jobs else []
        if prebuilt is not None:
            options += ["--build-context", f"build={prebuilt}", "--target", "run"]
        self.build(IMAGE, "docker/Dockerfile", *options)

    def inspect(self, what, *kind):
        return json.loads(self.run(*kind, "inspect", what).stdout)[0]


steps = []


def step(text):
    """Prints the begin of a step, after the step before it has passed."""
    steps.append(text)
    print(f"  {text}", flush=True)


def install_prebuilt(directory):
    """Puts the programs of build/release into the place to which the first stage copies them."""
    subprocess.run(
        ["cmake", "--install", ROOT / "build/release", "--component", "server", "--prefix", directory / "installed/usr", "--strip"],
        check=True,
        stdout=subprocess.DEVNULL,
    )


class Container:
    """A container with a volume of its own. `settings`: configuration keys in the form of environment variables."""

    def __init__(self, engine, image, memory_mib=MEMORY_MIB, settings=(), mounts=(), volume=True):
        self.engine = engine
        self.image = image
        self.name = f"ebbtide-test-{os.getpid()}-{len(steps)}"
        self.limits = ["--memory", f"{memory_mib}m"]
        self.port, self.metrics_port = free_port(), free_port()
        self.settings = {
            "EBBTIDE_SERVER__PORT": self.port,
            "EBBTIDE_METRICS__PORT": self.metrics_port,
            "EBBTIDE_STORAGE__MAX_DISK_BYTES": "1TiB",
            **dict(settings),
        }
        self.mounts = [*(["-v", f"{self.name}:/var/lib/ebbtide"] if volume else []), *mounts]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.engine.run("rm", "-f", self.name, check=False)
        self.engine.run("volume", "rm", "-f", self.name, check=False)

    def run(self, *mode, check=True):
        environment = [word for key, value in self.settings.items() for word in ("-e", f"{key}={value}")]
        return self.engine.run("run", *mode, "--name", self.name, *LOCKED, *self.limits, *self.mounts, *environment, self.image, check=check)

    def start(self):
        self.run("-d")
        self.wait_ready()
        return self

    def refused(self):
        """Runs a server that must end by itself. Returns its status and its output."""
        done = self.run(check=False)
        return done.returncode, done.stdout + done.stderr

    def again(self):
        self.engine.run("start", self.name)
        self.wait_ready()

    def wait_ready(self):
        try:
            wait_until(lambda: self.execute(*HEALTH, check=False).returncode == 0, 60, "the health check passes", 0.2)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.log()}") from None

    def execute(self, *command, check=True):
        return self.engine.run("exec", self.name, *command, check=check)

    def log(self):
        done = self.engine.run("logs", self.name)
        return done.stdout + done.stderr

    def client(self, password=PASSWORD, host="127.0.0.1"):
        return redis.Redis(host=host, port=self.port, password=password)

    def state(self):
        return self.engine.inspect(self.name)["State"]


def with_password(home):
    """Returns the settings and mounts of a server with a password."""
    password = home / "password.txt"
    password.write_text(PASSWORD + "\n")
    password.chmod(0o644)
    place = "/run/secrets/ebbtide_password"
    return {"settings": {"EBBTIDE_SERVER__PASSWORD_FILE": place}, "mounts": ["-v", f"{password}:{place}:ro"]}


def own_address():
    """Returns an address of this machine that is not loopback, or None."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
            address = probe.getsockname()[0]
        except OSError:
            return None
    return None if address.startswith("127.") else address


def check_image(engine, image_name):
    step("the image says what a runtime needs to know")
    image = engine.inspect(image_name, "image")
    config = image["Config"]
    assert config["User"] == f"{UID}:{UID}", config["User"]
    assert set(config["ExposedPorts"]) == {"6379/tcp", "9736/tcp"}
    assert set(config["Volumes"]) == {"/var/lib/ebbtide"}
    assert config["Entrypoint"] == ["/usr/bin/ebbtide-server"]
    assert config["StopSignal"] in ("SIGTERM", "15")
    assert (image.get("Healthcheck") or config["Healthcheck"])["Test"] == ["CMD", *HEALTH]

    # Docker builds without keeping the base image under its name.
    if engine.run("image", "inspect", BASE, check=False).returncode != 0:
        engine.run("pull", BASE)
    base = engine.inspect(BASE, "image")["Size"]
    over = (image["Size"] - base) / 1e6
    step(f"its layers add {over:.1f} MB to the {base / 1e6:.0f} MB of {BASE}: at most {MOST_MB_OVER_BASE}")
    assert 0 < over <= MOST_MB_OVER_BASE

    step("it has the programs, and no compiler")
    run = ["run", "--rm", *LOCKED]
    assert "ebbtide-server" in engine.run(*run, image_name, "--version").stdout
    assert "verify" in engine.run(*run, "--entrypoint", "ebbtide-inspect", image_name, "--help").stdout
    assert "user default off" in engine.run(*run, "--entrypoint", "cat", image_name, "/usr/share/ebbtide/users.acl").stdout
    assert engine.run(*run, "--entrypoint", "bash", image_name, "-c", "command -v g++ cc ld", check=False).returncode != 0

    step("the health check fails where no server runs")
    done = engine.run(*run, "-e", f"EBBTIDE_METRICS__PORT={free_port()}", image_name, *HEALTH[1:], check=False)
    assert done.returncode == 1 and "Connection refused" in done.stdout, done


def check_refusals(engine, image, home):
    step("a wrong YAML file is refused with its line and what is meant")
    wrong = home / "wrong.yaml"
    wrong.write_text("server:\n  prot: 7000\n")
    with Container(engine, image, mounts=["-v", f"{wrong}:/etc/ebbtide/ebbtide.yaml:ro"]) as container:
        status, text = container.refused()
    assert status == 2 and "ebbtide.yaml:2: server.prot: no such key; did you mean server.port?" in text, (status, text)

    step("a data directory of root is refused with the remedy")
    roots = home / "roots"
    roots.mkdir(mode=0o755)
    with Container(engine, image, mounts=["-v", f"{roots}:/var/lib/ebbtide"], volume=False) as container:
        status, text = container.refused()
    assert status == 1 and f"chown {UID}:{UID} /var/lib/ebbtide" in text, (status, text)

    step("without a password the start says who is served, and other machines are refused with the remedy")
    with Container(engine, image).start() as container:
        assert f"no password is set: port {container.port} is open to every user of this machine" in container.log(), container.log()
        assert container.client(password=None).ping()
        if address := own_address():
            # The server sends the error at once, which redis-py takes for a broken connection.
            with socket.create_connection((address, container.port), timeout=20) as connection, connection.makefile("rb") as replies:
                error = replies.readline().decode()
            assert error.startswith("-DENIED") and "server.protected_mode" in error, error


def check_locked(container):
    step("clients of the host are served with the password only")
    client = container.client()
    assert client.set("k", "v") and client.get("k") == b"v"
    try:
        container.client(password=None).ping()
        raise AssertionError("a client without password was served")
    except redis.AuthenticationError:
        pass
    command = ["redis-cli", "-p", str(container.port), "-a", PASSWORD, "--no-auth-warning", "GET", "k"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "v\n"

    if address := own_address():
        step("both ports listen on every address")
        assert container.client(host=address).ping()
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with direct.open(f"http://{address}:{container.metrics_port}/metrics", timeout=20) as reply:
            assert b"ebbtide_info" in reply.read()

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


def check_prometheus(engine, container, home):
    step("the image of Prometheus scrapes the server, has its alerts, and shows graphs")
    engine.build(PROMETHEUS_IMAGE, "docker/Dockerfile.prometheus")
    port, name = free_port(), f"{container.name}-prometheus"
    scrape = home / "prometheus.yml"
    scrape.write_text((ROOT / "deploy/prometheus/prometheus.yml").read_text().replace("127.0.0.1:9736", f"127.0.0.1:{container.metrics_port}").replace("10s", "1s"))
    mounts = ["-v", f"{scrape}:/etc/prometheus/prometheus.yml:ro", "-v", f"{name}:/var/lib/ebbtide-prometheus"]
    arguments = ["--config.file=/etc/prometheus/prometheus.yml", "--storage.tsdb.path=/var/lib/ebbtide-prometheus", f"--web.listen-address=127.0.0.1:{port}"]
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def get(path):
        try:
            with direct.open(f"http://127.0.0.1:{port}{path}", timeout=20) as reply:
                return reply.read().decode()
        except OSError:
            return ""

    try:
        engine.run("run", "-d", "--name", name, *LOCKED, *mounts, PROMETHEUS_IMAGE, *arguments)
        wait_until(lambda: '"127.0.0.1' in get("/api/v1/query?query=ebbtide_info"), 60, "Prometheus has scraped the server", 0.2)
        assert "EbbtideDeadlineMissed" in get("/classic/alerts")
        assert "Graph" in get("/classic/graph")
    finally:
        engine.run("rm", "-f", name, check=False)
        engine.run("volume", "rm", "-f", name, check=False)
        engine.run("rmi", "-f", PROMETHEUS_IMAGE, check=False)


def check_memory(container):
    step("the memory limit is the server's")
    assert f"memory budget {MEMORY_MIB // 2}MiB" in container.log(), container.log()


def write_until(client, stop):
    value = os.urandom(4096)
    i = 0
    try:
        while not stop.is_set():
            with client.pipeline(transaction=False) as pipe:
                for _ in range(200):
                    i += 1
                    pipe.set(f"load{i}", value)
                pipe.execute()
    except redis.RedisError:
        pass  # the connection fails once the server has ended


def check_signals(container):
    step(f"SIGTERM ends the server under load cleanly within {STOP_SECONDS} s")
    stop = threading.Event()
    writers = [threading.Thread(target=write_until, args=(container.client(), stop)) for _ in range(2)]
    for writer in writers:
        writer.start()
    time.sleep(3)
    began = time.monotonic()
    container.engine.run("stop", "-t", str(STOP_SECONDS), container.name)
    took = time.monotonic() - began
    stop.set()
    for writer in writers:
        writer.join()
    print(f"    {took:.1f} s", flush=True)
    assert container.state()["ExitCode"] == 0, container.state()
    assert took < STOP_SECONDS
    assert container.log().rstrip().endswith("bye"), container.log()

    step("data survive a stop, and kill -9")
    container.again()
    client = container.client()
    assert client.get("k") == b"v"
    client.set("k2", "v2")
    container.engine.run("kill", "-s", "KILL", container.name)
    wait_until(lambda: not container.state()["Running"], 20, "the container has ended")
    container.again()
    assert container.client().get("k2") == b"v2"


def check_small_memory(engine, image, home, gigabytes):
    step(f"a server with {SMALL_MEMORY_MIB} MiB of memory takes, keeps and reads {gigabytes} GB of data")
    size = 16 << 10
    count = (gigabytes << 30) // size
    block = os.urandom(size + count)  # value i is the window at offset i, so all values differ and none is compressible
    with Container(engine, image, memory_mib=SMALL_MEMORY_MIB, **with_password(home)).start() as container:
        client = container.client()
        began = time.monotonic()
        for first in range(0, count, 256):
            with client.pipeline(transaction=False) as pipe:
                for i in range(first, min(first + 256, count)):
                    pipe.set(f"key{i:08}", block[i : i + size])
                pipe.execute()
        written = time.monotonic() - began
        container.engine.run("kill", "-s", "KILL", container.name)
        wait_until(lambda: not container.state()["Running"], 20, "the container has ended")
        container.again()
        client = container.client()
        for i in range(0, count, max(count // 5000, 1)):
            assert client.get(f"key{i:08}") == block[i : i + size], i
        state = container.state()
        assert state["Running"] and not state["OOMKilled"], state
        disk = int(container.execute("du", "-sk", "/var/lib/ebbtide/data").stdout.split()[0])
        print(f"    written in {written:.0f} s, {disk >> 10} MiB on disk", flush=True)
        assert disk << 10 > gigabytes << 30


def main():
    parser = argparse.ArgumentParser(prog="./dev test-container", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prebuilt", action="store_true", help="take the programs of build/release instead of compiling them")
    parser.add_argument("--image", help="test this image, and build none")
    parser.add_argument("--engine", choices=["podman", "docker"], help="by default podman if it is installed, else docker")
    parser.add_argument("--quick", action="store_true", help="1 GB of data in 256 MiB of memory instead of 4 GB")
    parser.add_argument("--jobs", type=int, help="files to compile at a time")
    parser.add_argument("--keep", action="store_true", help="keep the image")
    options = parser.parse_args()
    engine = Engine(options.engine or ("podman" if shutil.which("podman") else "docker"))
    image = options.image or IMAGE
    with tempfile.TemporaryDirectory(prefix="ebbtide-container-") as home:
        home = Path(home)
        home.chmod(0o755)
        if options.prebuilt:
            install_prebuilt(home)
        if not options.image:
            engine.build_server(home if options.prebuilt else None, options.jobs)
        try:
            check_image(engine, image)
            check_refusals(engine, image, home)
            with Container(engine, image, **with_password(home)).start() as container:
                check_locked(container)
                check_memory(container)
                check_prometheus(engine, container, home)
                check_signals(container)
            check_small_memory(engine, image, home, 1 if options.quick else 4)
        finally:
            if not options.keep and not options.image:
                engine.run("rmi", "-f", image, check=False)
    print(f"\n{len(steps)} passed, 0 failed")


if __name__ == "__main__":
    sys.exit(main())
