"""Tests that the dashboards and alerts of deploy/ use existing metrics. A real Prometheus scrapes real servers while each cause
is provoked on one of them. Every panel must change when its own cause is provoked, and each of its queries must have data. Pictures
of the panels are written to build/dashboards, for a person to look at: each panel shows the server on which its cause is provoked.
"""

import concurrent.futures
import contextlib
import importlib.util
import json
import math
import re
import threading
import time

import pytest
import redis

from support.charts import dashboard_svg, legend
from support.prometheus import Prometheus
from support.server import ROOT, Server, wait_until

DEPLOY = ROOT / "deploy"
PICTURES = ROOT / "build" / "dashboards"
RULES = [(DEPLOY / "prometheus" / name).read_text() for name in ("alerts.yml", "recording.yml")]
_spec = importlib.util.spec_from_file_location("generate", DEPLOY / "grafana" / "generate.py")
generate = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(generate)
DASHBOARDS = generate.DASHBOARDS
PASSWORD = "a-password"
DEADLINE = 5  # deadline of database 1 in seconds
AFTER = 4  # the seconds after which a rate shows an event


def panels():
    return [(dashboard, panel) for dashboard in DASHBOARDS for panel in dashboard.panels]


def queries():
    return [(panel.title, query) for _, panel in panels() for query, _ in panel.queries]


def names_in(text):
    return {re.sub(r"_(bucket|sum|count)$", "", name) for name in re.findall(r"\bebbtide_\w+", text)}


def make_load(server):
    client = server.client()
    for batch in range(20):
        with client.pipeline(transaction=False) as pipe:
            for i in range(500):
                pipe.set(f"k{i}", "v" * 300)
                pipe.get(f"k{i}")
                pipe.get(f"k{i}{batch}x")  # within the tables' bounds, so filters are checked
            pipe.delete(*(f"k{i}" for i in range(100)))
            pipe.execute()
        client.execute_command("DELRANGE", "k3", "k4")
        list(client.scan_iter(count=100))
        client.execute_command("TREE.FLUSH")
    client.execute_command("TREE.COMPACT")


def test_every_metric_in_dashboards_and_rules_is_served(server):
    make_load(server)
    there = set(re.findall(r"^# TYPE (\S+)", server.http("/metrics")[1], re.M))
    assert len(queries()) > 100
    for title, query in queries():
        assert names_in(query) <= there, f"panel '{title}' asks for {names_in(query) - there}"
    for rules in RULES:
        names = {name for expression in re.findall(r"^ +expr:(.*(?:\n {10,}.*)*)", rules, re.M) for name in names_in(expression)}
        assert names and names <= there, names - there


def test_dashboard_files_are_those_that_their_generator_makes():
    """If this fails, run deploy/grafana/generate.py."""
    there = {path.name: path.read_text() for path in (DEPLOY / "grafana" / "dashboards").iterdir()}
    assert there == generate.files()


def test_panels_of_a_dashboard_do_not_overlap_and_have_unique_ids():
    for dashboard in DASHBOARDS:
        made, taken = dashboard.json(), set()
        for panel in made["panels"]:
            place = panel["gridPos"]
            cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
            assert not cells & taken and place["x"] + place["w"] <= 24, panel["title"]
            taken |= cells
        assert len({panel["id"] for panel in made["panels"]}) == len(made["panels"])
        assert len({panel["title"] for panel in made["panels"]}) == len(made["panels"])
    assert len({dashboard.json()["uid"] for dashboard in DASHBOARDS}) == len(DASHBOARDS)


class Causes:
    """Provokes causes: each method provokes one cause, for some seconds at most."""

    def __init__(self, server):
        self.server = server
        self.numbers = 0

    def client(self, database=0):
        return self.server.client(password=PASSWORD, db=database)

    def write(self, client, prefix, count, size=1000, order=lambda i: i * 7919):
        for first in range(0, count, 500):
            with client.pipeline(transaction=False) as pipe:
                for i in range(first, min(first + 500, count)):
                    self.numbers += 1
                    pipe.set(f"{prefix}{order(i) % 100_000:06}", f"{self.numbers:08}" * (size // 8))
                pipe.execute()

    def idle(self):
        time.sleep(2 * AFTER)

    def writes(self):
        self.write(self.client(), "w", 20_000)

    def sequential(self):
        self.write(self.client(), f"z{self.numbers:08}", 12_000, order=lambda i: i)

    def reads(self):
        client = self.client()
        end = time.monotonic() + AFTER
        while time.monotonic() < end:
            with client.pipeline(transaction=False) as pipe:
                for i in range(0, 100_000, 211):
                    pipe.get(f"w{i:06}")
                    pipe.get(f"w{i:06}x")
                pipe.execute()
            client.execute_command("COUNTRANGE", "w0", "w1")

    def scans(self):
        client = self.client()
        end = time.monotonic() + 2
        while time.monotonic() < end:
            cursor = 0
            for _ in range(20):
                cursor, _ = client.scan(cursor, count=500)

    def deletes(self):
        client = self.client(1)
        self.write(client, "d", 6000)
        client.execute_command("TREE.FLUSH")
        # A merge of level 0 may purge the deletes before Prometheus sees them. A pause leaves them to the merges for the deadline.
        client.execute_command("TREE.PAUSE", 1000 * (DEADLINE - 1))
        for i in range(0, 100_000, 10_000):
            client.execute_command("DELRANGE", f"d{i:06}", f"d{i + 2000:06}")
        client.delete(*(f"d{i * 7919 % 100_000:06}" for i in range(1000)))
        client.execute_command("TREE.FLUSH")
        time.sleep(DEADLINE + 1)

    def budget(self):
        self.client().config_set("databases.1.deletes.io_budget", "64MiB")
        time.sleep(2)
        self.client().config_set("databases.1.deletes.io_budget", "auto")

    def stamps(self):
        client = self.client(3)
        self.write(client, "s", 6000)
        client.execute_command("TREE.COMPACT")
        middle = int(time.time() * 1000)
        time.sleep(0.1)
        self.write(client, "t", 1000)
        client.execute_command("TREE.COMPACT")
        client.execute_command("STAMP.DELRANGE", "-", str(middle))
        time.sleep(2.5)  # until Prometheus has seen the record
        client.execute_command("PURGE.NOW")
        time.sleep(1)

    def drops(self):
        client = self.client(4)
        self.write(client, "x", 6000, order=lambda i: i)
        client.execute_command("TREE.COMPACT")
        client.execute_command("DELPREFIX", "x")
        client.execute_command("PURGE.NOW")
        time.sleep(1)

    def snapshots(self):
        stop = threading.Event()

        def walk():
            client = self.client()
            while not stop.is_set():
                client.execute_command("TREE.VERIFY")

        walkers = [threading.Thread(target=walk) for _ in range(3)]
        for walker in walkers:
            walker.start()
        time.sleep(AFTER)
        stop.set()
        for walker in walkers:
            walker.join()

    def paused(self):
        client = self.client()
        client.execute_command("TREE.PAUSE", 20_000)
        writer = threading.Thread(target=self.write, args=(self.client(), "w", 30_000))
        writer.start()
        time.sleep(2 * AFTER)
        client.execute_command("TREE.RESUME")
        writer.join()

    def errors(self):
        client = self.client()
        end = time.monotonic() + 2
        while time.monotonic() < end:
            for wrong in (("NOSUCHCOMMAND",), ("GET",), ("INCR", "w000000")):
                try:
                    client.execute_command(*wrong)
                except redis.ResponseError:
                    pass

    def clients(self):
        client, idle = self.client(), [self.server.connect() for _ in range(20)]
        blocked = threading.Thread(target=lambda: self.client().blpop("nothing", 3))
        blocked.start()
        wait_until(lambda: client.info("clients")["blocked_clients"] == 1, what="a client is blocked")
        for _ in range(3):
            try:
                self.server.client(password="wrong").ping()
            except redis.ResponseError:  # WRONGPASS
                pass
        for _ in range(3):
            with self.server.connect() as link:
                link.sendall(b"*1\r\n!")
                assert link.recv(100).startswith(b"-ERR Protocol error") and link.recv(100) == b""  # the server has closed it
        most = client.config_get("maxclients")["maxclients"]
        client.config_set("maxclients", "10")
        with self.server.connect() as link:
            assert link.recv(100).startswith(b"-ERR max number of clients")
        client.config_set("maxclients", most)
        time.sleep(2.5)
        blocked.join()
        for connection in idle:
            connection.close()

    def expiry(self):
        client = self.client()
        client.config_set("notify-keyspace-events", "Ex")
        listener = client.pubsub()
        listener.psubscribe("__keyevent@0__:expired")
        with client.pipeline(transaction=False) as pipe:
            for i in range(200):
                pipe.set(f"e{i}", "v", px=200)
            pipe.execute()
        time.sleep(2)
        listener.close()
        client.config_set("notify-keyspace-events", "")

    def policy(self):
        client = self.client()
        client.config_set("tree.pages_per_tile", "4")
        client.execute_command("TREE.POLICY", "tiering", "size_ratio", "6")
        self.write(client, "w", 8000)
        time.sleep(2)
        client.execute_command("TREE.POLICY", "one_leveling", "size_ratio", "6", "level0_runs", "4")
        client.config_set("tree.pages_per_tile", "1")

    def tuned(self):
        """Runs with settings that are poor for writes until tuning.auto advises others. Then TUNE.APPLY applies an advice."""
        client = self.client(7)
        client.execute_command("TREE.POLICY", "leveling", "size_ratio", "20")
        self.write(client, "u", 8000)
        client.execute_command("TREE.FLUSH")
        client.mget([f"u{i:06}" for i in range(5000)])  # another mix
        time.sleep(2)

        def advised():
            self.write(client, "u", 1500)  # at least a thousand operations in each window of a second
            return client.info("workload").get("tuning_db7", {}).get("advised") == 1

        wait_until(advised, 30, "a change is advised", interval=0.3)
        end = time.monotonic() + 2.5  # until Prometheus has seen it
        while time.monotonic() < end:
            self.write(client, "u", 1500)
            time.sleep(0.3)
        for _ in range(4):  # windows of reads alone, so that the mix differs whatever window the reads above were in
            client.mget([f"u{i:06}" for i in range(5000)])
            time.sleep(0.7)
        client.execute_command("TUNE.ADVISE", "RHO", "0", "WORKLOAD", "0.01", "0.01", "0", "0.98")
        client.execute_command("TUNE.APPLY")
        time.sleep(2)
        client.flushdb()

    def damage(self):
        client = self.client(5)
        before = set(self.server.data.glob("*.data"))
        self.write(client, "q", 1000)
        client.execute_command("TREE.COMPACT")
        for table in set(self.server.data.glob("*.data")) - before:
            with open(table, "r+b") as file:
                file.seek(1000)
                file.write(b"damage")
        client.execute_command("TREE.VERIFY")
        time.sleep(2)
        client.flushdb()

    def scrub(self):
        """Waits for a scrub. Its first read is a minute after the start."""
        wait_until(lambda: "ebbtide_scrub_bytes_total 0" not in self.server.http("/metrics")[1], 60, "the scrub has read some bytes")
        time.sleep(AFTER)

    def full(self):
        client = self.client(6)
        with pytest.raises(redis.ResponseError):
            for i in range(10_000):
                client.set(f"f{i}", json.dumps(list(range(i, i + 30_000))))
        time.sleep(2)
        client.flushdb()
        wait_until(lambda: self.server.http("/ready")[0] == 200, 30, "the server is ready again")

    def missed(self):
        client = self.client(1)
        client.set("m", "v")
        client.execute_command("TREE.FLUSH")
        client.delete("m")
        client.execute_command("TREE.FLUSH")
        self.server.kill()
        time.sleep(DEADLINE + 1)
        self.server.start()
        time.sleep(1)


# Each row has a server of its own, so the causes of one do not wait for those of another; most of them wait for Prometheus. The first
# scrub is a minute after the start of its server.
ROWS = (
    ("idle", "writes", "reads", "scans", "snapshots", "paused", "sequential", "errors", "policy", "scrub"),
    ("idle", "deletes", "budget", "stamps", "drops", "expiry", "clients"),
    ("idle", "tuned", "damage", "full", "missed"),
)
SAME = {"stall": "paused"}  # causes that another one provokes
# Queries that may keep one value, by panel and legend, and why. Every other query changes.
STILL = {
    ("Snapshots", "revoked"): "no snapshot is open until the deadline",
    ("Pages from disk", "commands that waited"): "the system's cache has the files, so no command waits",
    ("Cache", "capacity"): "a setting",
    ("Memory, by owner", "budget"): "a setting",
    ("Table files", "reopened a second"): "there are fewer tables than storage.max_open_files",
    ("Clients", "waiting"): "a command waits for less than a second, so a scrape may miss it",
    ("Writes delayed, by reason", "delayed now"): "a delay is shorter than a second, so a scrape may miss it",
    ("State", "opening"): "a small database is open before the first scrape",
    ("State", "writes delayed"): "the writes of the panel's server are delayed only if it is slow",
    ("State", "read-only"): "a limit of the disk space refuses writes without it",
    ("State", "clock refused"): "the clock does not jump",
    ("Divergence of the mix", "db {{db}}, newest"): "a window of the history is a minute, which is longer than the cause",
    ("Divergence of the mix", "db {{db}}, rho"): "a window of the history is a minute, which is longer than the cause",
}
SETTINGS = {
    "server.password": PASSWORD,
    "server.bind": "127.0.0.1",
    "storage.memory_budget": "64MiB",
    "storage.memtable_size": "512KiB",
    "storage.block_cache": "1MiB",
    "storage.max_disk_bytes": "200MiB",
    "storage.scrub_interval": "10s",
    "tree.file_size": "512KiB",
    "databases.1.deletes.deadline": f"{DEADLINE}s",
    "databases.3.pages_per_tile": "8",
    "tuning.auto": "advise",
    "tuning.window": "1s",
}


def provoke(server, row):
    """Provokes the causes of a row on a server, one after another, and returns each one's time."""
    causes, times = Causes(server), {}
    for name in row:
        began = time.time()
        getattr(causes, name)()
        time.sleep(1.5)
        times[name] = (began, time.time())
    return times


def configuration(servers):
    """Returns the shipped configuration of Prometheus for these servers, with a scrape each second."""
    config = (DEPLOY / "prometheus" / "prometheus.yml").read_text()
    for name in ("alerts.yml", "recording.yml"):
        config = config.replace(name, str(DEPLOY / "prometheus" / name))
    targets = json.dumps([f"127.0.0.1:{server.metrics_port}" for server in servers])
    return config.replace("10s", "1s").replace('["127.0.0.1:9736"]', targets)


@pytest.fixture(scope="module")
def history(tmp_path_factory):
    """Provokes every cause under a Prometheus. Gives for each row the time of its causes, and for each panel the series of each of its
    queries, of the server on which the panel's cause is provoked."""
    row_of = {name: i for i, row in enumerate(ROWS) for name in row}
    with contextlib.ExitStack() as running:
        servers = [running.enter_context(Server(SETTINGS)) for _ in ROWS]
        prometheus = running.enter_context(Prometheus(configuration(servers), tmp_path_factory.mktemp("prometheus"), len(servers)))
        time.sleep(AFTER)
        start = time.time()
        with concurrent.futures.ThreadPoolExecutor(len(ROWS)) as pool:
            times = list(pool.map(provoke, servers, ROWS))
        time.sleep(AFTER)
        end = time.time()

        def series(panel, query, name):
            instance = f"127.0.0.1:{servers[row_of[SAME.get(panel.cause, panel.cause)]].metrics_port}"
            query = query.replace("$__rate_interval", f"{AFTER}s").replace("$__range", "5m").replace("$instance", instance)
            return [(legend(name, labels), points) for labels, points in prometheus.over_time(query, start, end)]

        data = {(dashboard.name, panel.title): [series(panel, *query) for query in panel.queries] for dashboard, panel in panels()}
    PICTURES.mkdir(parents=True, exist_ok=True)
    for dashboard in DASHBOARDS:
        drawn = [(panel.title, panel.unit, sum(data[dashboard.name, panel.title], [])) for panel in dashboard.panels]
        (PICTURES / f"{dashboard.name}.svg").write_text(dashboard_svg(dashboard.json()["title"], drawn, start, end))
    return times, data


def span(points, start, end):
    """Returns the difference between the largest and the smallest value in a period, including the last value before it. A value
    that appears counts as a move."""
    values = [value for when, value in points if start <= when <= end]
    if not values:
        return 0.0
    before = [value for when, value in points if when < start][-1:] or [0.0]
    return max(before + values) - min(before + values)


@pytest.mark.parametrize(("name", "title"), [(dashboard.name, panel.title) for dashboard, panel in panels()])
def test_panel_of_a_dashboard_changes_when_its_cause_is_provoked_and_not_before(history, name, title):
    rows, data = history
    (panel,) = [panel for dashboard, panel in panels() if (dashboard.name, panel.title) == (name, title)]
    cause = SAME.get(panel.cause, panel.cause)
    (times,) = [row for row in rows if cause in row]
    start, end = times[cause]
    idle_start, idle_end = times["idle"]

    def moves(points):
        idle = span([(when, value) for when, value in points if idle_start + AFTER <= when <= idle_end], idle_start + AFTER + 1, idle_end)
        return span(points, start, end + AFTER) > 2 * idle + 1e-9

    assert any(moves(points) for series in data[name, title] for _, points in series), f"'{panel.cause}' does not move it"


@pytest.mark.parametrize(("name", "title"), [(dashboard.name, panel.title) for dashboard, panel in panels()])
def test_every_query_of_a_panel_returns_data_and_changes(history, name, title):
    rows, data = history
    (panel,) = [panel for dashboard, panel in panels() if (dashboard.name, panel.title) == (name, title)]
    (idle_end,) = [row["idle"][1] for row in rows if SAME.get(panel.cause, panel.cause) in row]
    for (query, text), series in zip(panel.queries, data[name, title], strict=True):
        assert any(points for _, points in series), f"no data: {query}"
        changes = any(span(points, idle_end, math.inf) > 1e-9 for _, points in series)
        assert changes or (title, text) in STILL, f"keeps its value: {query}"


def test_queries_that_may_keep_one_value_are_those_of_panels():
    assert set(STILL) <= {(panel.title, text) for _, panel in panels() for _, text in panel.queries}


def test_readme_of_deploy_lists_exactly_the_metrics_that_are_served(server):
    make_load(server)
    there = {name.removeprefix("ebbtide_") for name in re.findall(r"^# TYPE (\S+)", server.http("/metrics")[1], re.M)}
    section = (DEPLOY / "README.md").read_text().split("## Metrics", 1)[1]
    rows = "".join(line for line in section.splitlines() if line.startswith("| "))
    assert set(re.findall(r"`([a-z_]+)(?:\{[a-z,]+\})?`", rows)) == there
