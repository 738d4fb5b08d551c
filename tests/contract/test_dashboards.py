"""The dashboards and alerts of deploy/ use existing metrics, and a real Prometheus answers every query."""

import json
import re
import subprocess
import urllib.parse
import urllib.request

from support.server import ROOT, free_port, wait_until

DEPLOY = ROOT / "deploy"
DASHBOARD = json.loads((DEPLOY / "grafana" / "dashboards" / "ebbtide.json").read_text())
RULES = [(DEPLOY / "prometheus" / name).read_text() for name in ("alerts.yml", "recording.yml")]


def queries():
    return [(panel["title"], target["expr"]) for panel in DASHBOARD["panels"] for target in panel.get("targets", [])]


def names_in(text):
    return {re.sub(r"_(bucket|sum|count)$", "", name) for name in re.findall(r"\bebbtide_\w+", text)}


def make_load(server):
    client = server.client()
    for batch in range(20):
        with client.pipeline(transaction=False) as pipe:
            for i in range(500):
                pipe.set(f"k{i}", "v" * 300)
                pipe.get(f"k{i}")
                pipe.get(f"k{i}{batch}x")  # within the tables' bounds, so filters are asked
            pipe.delete(*(f"k{i}" for i in range(100)))
            pipe.execute()
        client.execute_command("DELRANGE", "k3", "k4")
        list(client.scan_iter(count=100))
        client.execute_command("TREE.FLUSH")
    client.execute_command("TREE.COMPACT")


def test_every_metric_of_dashboard_and_rules_exists(server):
    make_load(server)
    there = set(re.findall(r"^# TYPE (\S+)", server.http("/metrics")[1], re.M))
    assert len(queries()) > 20
    for title, query in queries():
        assert names_in(query) <= there, f"panel '{title}' asks for {names_in(query) - there}"
    for rules in RULES:
        names = {name for expression in re.findall(r"^ +expr:(.*(?:\n {10,}.*)*)", rules, re.M) for name in names_in(expression)}
        assert names and names <= there, names - there


def test_panels_do_not_overlap_and_have_unique_ids():
    taken = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & taken and place["x"] + place["w"] <= 24, panel["title"]
        taken |= cells
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])


def test_real_prometheus_returns_data_for_every_query(server, tmp_path):
    port = free_port()
    config = (DEPLOY / "prometheus" / "prometheus.yml").read_text()
    config = config.replace("10s", "1s").replace("127.0.0.1:9736", f"127.0.0.1:{server.metrics_port}")
    for name in ("alerts.yml", "recording.yml"):
        config = config.replace(name, str(DEPLOY / "prometheus" / name))
    (tmp_path / "prometheus.yml").write_text(config)
    with open(tmp_path / "log", "wb") as log:
        process = subprocess.Popen(
            ["prometheus", f"--config.file={tmp_path}/prometheus.yml", f"--storage.tsdb.path={tmp_path}/data",
             f"--web.listen-address=127.0.0.1:{port}"], stdout=log, stderr=log,
        )  # fmt: skip
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def ask(query):
        try:
            with direct.open(f"http://127.0.0.1:{port}/api/v1/query?query={urllib.parse.quote(query)}", timeout=10) as answer:
                return json.loads(answer.read())["data"]["result"]
        except OSError:
            return []

    def run(query):
        return ask(query.replace("$__rate_interval", "20s").replace("$__range", "1m").replace("$instance", ".*"))

    try:
        wait_until(lambda: ask("up == 1"), 60, "a first scrape")
        make_load(server)
        wait_until(lambda: run("count_over_time(ebbtide_info[1m]) > 4"), 60, "some scrapes")
        for _ in range(20):  # a rate needs two scrapes with load in between
            empty = [(title, query) for title, query in queries() if not run(query)]
            if not empty:
                break
            make_load(server)
        assert not empty
    finally:
        process.kill()
        process.wait()


def test_readme_lists_exactly_the_metrics_that_exist(server):
    make_load(server)
    there = {name.removeprefix("ebbtide_") for name in re.findall(r"^# TYPE (\S+)", server.http("/metrics")[1], re.M)}
    section = (DEPLOY / "README.md").read_text().split("## Metrics", 1)[1]
    rows = "".join(line for line in section.splitlines() if line.startswith("| "))
    assert set(re.findall(r"`([a-z_]+)(?:\{[a-z,]+\})?`", rows)) == there
