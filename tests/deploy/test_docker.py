"""Tests docker/: the Dockerfile names every package, compose.yaml gives each service files that it accepts, and the server,
Prometheus and Alertmanager work together with these files. ./dev test-container runs the image."""

import base64
import json
import re
import shlex
import subprocess
from pathlib import Path

import jsonschema
import pytest
import redis
import yaml
from support.prometheus import Alertmanager, Prometheus
from support.server import ROOT, Server, binary, wait_until

DOCKER = ROOT / "docker"
DOCKERFILE = (DOCKER / "Dockerfile").read_text()
COMPOSE = yaml.safe_load((DOCKER / "compose.yaml").read_text())
SERVICES = COMPOSE["services"]


def run(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def stages():
    """Returns {name: text} of the stages of the Dockerfile."""
    parts = re.split(r"^FROM \S+ AS (\w+)\n", DOCKERFILE.replace("\\\n", " "), flags=re.M)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def packages(stage):
    return set(re.search(r"--no-install-recommends ([^&]*)", stages()[stage])[1].split())


def test_build_stage_of_the_dockerfile_has_all_packages_that_a_build_needs():
    dev = re.search(r"server_packages=\((.*?)\)", (ROOT / "dev").read_text(), re.S)[1].split()
    assert packages("build") == set(dev) - {"ccache", "redis-tools"}


def test_run_stage_of_the_dockerfile_has_the_packages_of_the_libraries_of_all_programs():
    programs = [binary(), binary("ebbtide-inspect"), binary("ebbtide-import"), binary("ebbtide-export")]
    libraries = set(re.findall(r"=> (/\S+)", "".join(run("ldd", program) for program in programs)))
    owners = set()
    for library in libraries:
        # dpkg lists files under the path that they had before /lib became a link to /usr/lib. Other architectures have files of
        # the same name.
        place = Path(library).resolve()
        found = subprocess.run(["dpkg-query", "-S", f"*/{place.parent.name}/{place.name}"], capture_output=True, text=True).stdout
        owners.add(found.split(":")[0])
    assert owners - {"libc6", "libgcc-s1"} == packages("run")


def test_dockerignore_admits_every_file_that_the_image_needs():
    patterns = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    for pattern in patterns:
        assert (ROOT / pattern).exists(), pattern
    copied = [words[1] for words in map(shlex.split, stages()["run"].splitlines()) if words[:1] == ["COPY"] and "--from" not in words[1]]
    assert copied and set(copied) <= set(patterns)
    for named in re.findall(r"(?:FILES|add_subdirectory\() ?(\w[\w./-]*)", (ROOT / "CMakeLists.txt").read_text()):
        if named not in ("tests", "tests/bench"):
            assert any(named == pattern or named.startswith(pattern + "/") for pattern in patterns), named


def test_prometheus_image_has_the_shipped_scrape_configuration_rules_and_alerts():
    text = (DOCKER / "Dockerfile.prometheus").read_text()
    source, place = re.search(r"^COPY (\S+)/ (\S+)/$", text, re.M).groups()
    assert f"!{source}" in (ROOT / ".dockerignore").read_text().splitlines()
    arguments = json.loads(re.search(r"^CMD (.*)$", text, re.M)[1])
    scrape = next(word.removeprefix(f"--config.file={place}/") for word in arguments if "config.file" in word)
    files = yaml.safe_load((ROOT / source / scrape).read_text())["rule_files"]
    assert set(files) == {"recording.yml", "alerts.yml"} and all((ROOT / source / name).exists() for name in files)
    user, volume = re.search(r"^USER ([1-9]\d+):\1$", text, re.M)[1], re.search(r"^VOLUME (\S+)$", text, re.M)[1]
    assert f"install -d -m 0700 -o {user} -g {user} {volume}" in text and f"--storage.tsdb.path={volume}" in arguments


def test_image_runs_as_a_numeric_user_with_a_volume():
    stage = stages()["run"]
    assert re.search(r"^USER ([1-9]\d+):\1$", stage, re.M)
    user = re.search(r"^USER (\d+)", stage, re.M)[1]
    volume = re.search(r"^VOLUME (\S+)$", stage, re.M)[1]
    assert f"install -d -m 0700 -o {user} -g {user} {volume}" in stage
    assert yaml.safe_load((DOCKER / "ebbtide.yaml").read_text())["storage"]["dir"].startswith(volume + "/")


def test_server_accepts_the_configuration_file_of_the_image():
    assert "valid" in run(binary(), "--config", DOCKER / "ebbtide.yaml", "--check")


def test_image_and_compose_file_run_the_server_with_health_as_their_health_check():
    stage = stages()["run"]
    command = json.loads(re.search(r"^HEALTHCHECK .*CMD (\[.*\])$", stage, re.M)[1])
    assert command[:2] == json.loads(re.search(r"^ENTRYPOINT (.*)$", stage, re.M)[1]) + ["--health"]
    assert command[2:] == json.loads(re.search(r"^CMD (.*)$", stage, re.M)[1])
    assert [SERVICES["ebbtide"]["entrypoint"][-1], *SERVICES["ebbtide"]["command"]] == [command[0], *command[2:]]
    health = SERVICES["ebbtide"]["healthcheck"]
    assert health["test"] == ["CMD", *command]
    options = dict(re.findall(r"--([a-z-]+)=(\S+)", re.search(r"^HEALTHCHECK (.*)CMD", stage, re.M)[1]))
    assert options == {name.replace("_", "-"): str(value) for name, value in health.items() if name != "test"}


def test_compose_file_conforms_to_the_schema_of_docker_compose():
    schema = Path(next(line for line in run("dpkg-query", "-L", "docker-compose").splitlines() if line.endswith("/compose_spec.json")))
    schema = json.loads(schema.read_text())
    schema["properties"]["name"] = {"type": "string"}  # Debian's schema is older than this field
    jsonschema.Draft7Validator(schema).validate(COMPOSE)


def compose_config(tmp_path, text):
    """Returns docker-compose's reading of a file beside docker/compose.yaml."""
    # Debian's version is older than the top-level name, from which newer versions take the project's name.
    (tmp_path / "compose.yaml").write_text(text.replace("name: ebbtide\n", "", 1))
    command = ["docker-compose", "--project-directory", str(DOCKER), "-p", "ebbtide", "-f", str(tmp_path / "compose.yaml"), "config"]
    return subprocess.run(command, capture_output=True, text=True)


def test_docker_compose_accepts_the_compose_file_and_keeps_every_setting(tmp_path):
    done = compose_config(tmp_path, (DOCKER / "compose.yaml").read_text())
    assert done.returncode == 0, done.stderr
    resolved = yaml.safe_load(done.stdout)
    assert set(resolved["services"]) == set(SERVICES)
    for name, service in SERVICES.items():
        assert set(service) <= set(resolved["services"][name]), name
    server = resolved["services"]["ebbtide"]
    assert server["healthcheck"]["test"] == SERVICES["ebbtide"]["healthcheck"]["test"]
    assert server["build"] == {"context": str(ROOT), "dockerfile": "docker/Dockerfile"}
    mounted = [volume.split(":")[0] for service in resolved["services"].values() for volume in service["volumes"] if volume.startswith("/")]
    assert mounted and all(Path(path).exists() for path in mounted), mounted


def test_docker_compose_refuses_an_unknown_setting_in_the_compose_file(tmp_path):
    done = compose_config(tmp_path, (DOCKER / "compose.yaml").read_text().replace("read_only: true", "read_onlyy: true", 1))
    assert done.returncode != 0 and "read_onlyy" in done.stderr


@pytest.mark.parametrize("name", SERVICES)
def test_compose_service_has_no_privileges_and_publishes_its_ports_on_loopback(name):
    service = SERVICES[name]
    assert service["cap_drop"] == ["ALL"] and service["security_opt"] == ["no-new-privileges:true"]
    assert all(port.startswith("127.0.0.1:") for port in service["ports"])
    assert service.get("read_only") or name == "grafana"


def mounts(name):
    """Returns {path in the container: file of the project} of a service's mounted files. Volumes are left out."""
    for mount in SERVICES[name]["volumes"]:
        source, place, *mode = mount.split(":")
        if source.startswith("."):
            assert mode == ["ro"], mount
            yield place, (DOCKER / source).resolve()
        else:
            assert source in COMPOSE["volumes"], mount


def groups(name):
    return yaml.safe_load((ROOT / "deploy" / "prometheus" / name).read_text())["groups"]


def test_every_file_that_the_compose_file_mounts_exists():
    for name in SERVICES:
        for _, source in mounts(name):
            assert source.exists(), source


def test_prometheus_accepts_the_mounted_configuration_and_rules(tmp_path):
    for place, source in mounts("prometheus"):
        (tmp_path / Path(place).name).write_text(source.read_text())
    run("promtool", "check", "config", tmp_path / "prometheus.yml")
    config = yaml.safe_load((tmp_path / "prometheus.yml").read_text())
    targets = [target for scrape in config["scrape_configs"] for group in scrape["static_configs"] for target in group["targets"]]
    targets += [target for manager in config["alerting"]["alertmanagers"] for group in manager["static_configs"] for target in group["targets"]]
    assert {target.split(":")[0] for target in targets} <= set(SERVICES)
    original = yaml.safe_load((ROOT / "deploy/prometheus/prometheus.yml").read_text())
    assert config["rule_files"] == original["rule_files"]
    assert config["scrape_configs"][0]["job_name"] == original["scrape_configs"][0]["job_name"]


def test_alertmanager_accepts_the_mounted_configuration():
    ((_, source),) = mounts("alertmanager")
    run("amtool", "check-config", source)


def default_metrics_port():
    files = (DOCKER / "ebbtide.yaml", ROOT / "config" / "ebbtide.yaml")
    return next(port for file in files if (port := yaml.safe_load(file.read_text())["metrics"].get("port")))


@pytest.fixture(scope="module")
def services(tmp_path_factory):
    """Runs the server, Prometheus and Alertmanager with the files that compose.yaml mounts. Copies differ only in
    addresses and times: a scrape each second, and EbbtideDown fires after a second instead of a minute."""
    home, (manager_config,) = tmp_path_factory.mktemp("services"), dict(mounts("alertmanager")).values()
    ((setting, path),) = SERVICES["ebbtide"]["environment"].items()
    assert str(Path(path).parent) in [volume.split(":")[1] for volume in SERVICES["ebbtide"]["volumes"]]
    entry = [word.replace("$$", "$") for word in SERVICES["ebbtide"]["entrypoint"][:-1]]
    local = {"server.bind": "127.0.0.1", "metrics.bind": "127.0.0.1"}
    with (
        Server(local, config=DOCKER / "ebbtide.yaml", prefix=["env", f"{setting}={home}/password", *entry]) as server,
        Alertmanager(manager_config, home) as manager,
    ):
        addresses = {f"ebbtide:{default_metrics_port()}": server.metrics_port, "alertmanager:9093": manager.port}
        for place, source in mounts("prometheus"):
            text = re.sub(r"(alert: EbbtideDown\n.*\n *for:) 1m\n", r"\1 1s\n", source.read_text()).replace("10s", "1s")
            for name, port in addresses.items():
                text = text.replace(name, f"127.0.0.1:{port}")
            (home / Path(place).name).write_text(text)
        with Prometheus((home / "prometheus.yml").read_text(), home) as prometheus:
            yield server, prometheus, manager, home / "password"


def test_first_start_of_the_compose_file_makes_a_private_password_that_later_starts_keep(services):
    server, _, _, password = services
    text = password.read_text()
    assert len(base64.b64decode(text)) == 24 and password.stat().st_mode & 0o777 == 0o600
    with pytest.raises(redis.AuthenticationError):
        server.client().ping()
    assert server.client(password=text.strip()).ping()
    server.restart()
    assert password.read_text() == text and server.client(password=text.strip()).ping()
    assert [path.name for path in password.parent.glob("password*")] == ["password"]


def test_prometheus_of_the_compose_file_scrapes_the_server_and_evaluates_every_rule(services):
    server, prometheus, *_ = services
    (up,) = wait_until(lambda: prometheus.ask("up == 1"), 10, "Prometheus reaches the server")
    assert up["metric"]["job"] == "ebbtide" and up["metric"]["instance"] == f"127.0.0.1:{server.metrics_port}"
    wanted = [rule for name in ("alerts.yml", "recording.yml") for group in groups(name) for rule in group["rules"]]
    wait_until(lambda: all(rule["health"] != "unknown" for rule in prometheus.rules()), 10, "every rule has been evaluated")
    found = {rule["name"]: rule["health"] for rule in prometheus.rules()}
    assert found == {rule.get("alert") or rule["record"]: "ok" for rule in wanted}


def test_alert_of_a_server_that_is_down_reaches_alertmanager_and_ends_when_the_server_is_back(services):
    server, _, manager, _ = services

    def fires():
        return [alert for alert in manager.alerts() if alert["alertname"] == "EbbtideDown"]

    wait_until(lambda: not fires(), 10, "no alert fires")
    server.kill()
    (alert,) = wait_until(fires, 10, "the alert reaches Alertmanager")
    assert alert["instance"] == f"127.0.0.1:{server.metrics_port}" and alert["severity"] == "critical"
    server.start()
    wait_until(lambda: not fires(), 10, "the alert has ended")


def test_grafana_provisioning_finds_the_mounted_dashboards_and_data_source():
    places = dict(mounts("grafana"))
    provider = yaml.safe_load((places["/etc/grafana/provisioning/dashboards"] / "ebbtide.yaml").read_text())["providers"][0]
    assert len(list(places[provider["options"]["path"]].glob("*.json"))) == 5
    here = yaml.safe_load(places["/etc/grafana/provisioning/datasources/ebbtide.yaml"].read_text())["datasources"]
    original = yaml.safe_load((ROOT / "deploy/grafana/provisioning/datasources/ebbtide.yaml").read_text())["datasources"]
    assert here == [{**original[0], "url": "http://prometheus:9090"}] and "prometheus" in SERVICES
