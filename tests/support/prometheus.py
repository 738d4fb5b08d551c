"""Runs Debian's Prometheus for a test. It scrapes servers every second, and answers queries. Alertmanager runs beside it."""

import contextlib
import json
import shutil
import subprocess
import time
import urllib.parse
import urllib.request
from pathlib import Path

from support.server import free_port, wait_until


def get_json(url):
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # without the environment's proxy
    with direct.open(url, timeout=30) as answer:
        return json.loads(answer.read())


class Prometheus:
    """A Prometheus process with its own directory. `config`: the text of its configuration, with `targets` servers."""

    def __init__(self, config, home, targets=1):
        self.home, self.port, self.targets = home, free_port(), targets
        (home / "prometheus.yml").write_text(config)
        self.process = None

    def __enter__(self):
        with open(self.home / "prometheus.log", "wb") as log:
            self.process = subprocess.Popen(
                ["prometheus", f"--config.file={self.home}/prometheus.yml", f"--storage.tsdb.path={self.home}/data",
                 f"--web.listen-address=127.0.0.1:{self.port}"], stdout=log, stderr=log,
            )  # fmt: skip
        try:
            wait_until(lambda: len(self.ask("up == 1")) == self.targets, 60, "the first scrapes have ended")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def _get(self, what, **arguments):
        return get_json(f"http://127.0.0.1:{self.port}/api/v1/{what}?{urllib.parse.urlencode(arguments)}")["data"]

    def ask(self, query):
        """Returns the result of a query at this moment, or an empty result while Prometheus does not answer."""
        try:
            return self._get("query", query=query)["result"]
        except OSError:
            return []

    def rules(self):
        """Returns the loaded rules, each with its name and its health: "ok" after an evaluation without error."""
        return [rule for group in self._get("rules")["groups"] for rule in group["rules"]]

    def over_time(self, query, start, end):
        """Returns each series of a query as (labels, [(time, value)]), with a value for each second."""
        return [
            (series["metric"], [(when, float(value)) for when, value in series["values"] if value not in ("NaN", "+Inf", "-Inf")])
            for series in self._get("query_range", query=query, start=start, end=end, step=1)["result"]
        ]

    def wait_scraped(self, scrapes=2):
        """Waits for `scrapes` scrapes that began after this call."""
        began = time.time()
        wait_until(lambda: (self.ask(f"count_over_time(up[{int(time.time() - began) + 1}s])") or [{"value": [0, "0"]}])[0]["value"][1] > str(scrapes), 30, "the scrapes have ended", 0.2)


TEMPLATES = b"/usr/share/prometheus/alertmanager"


class Alertmanager:
    """An Alertmanager process with its own directory. `config`: the path of its configuration."""

    def __init__(self, config, home):
        self.config, self.home, self.port = config, home, free_port()
        self.process = None

    def _program(self):
        """Returns the program and its working directory. Debian's program does not start without its templates below /usr/share. ./dev
        only unpacks the package, so a copy of the program reads them from its working directory."""
        program = Path(shutil.which("prometheus-alertmanager"))
        if Path(TEMPLATES.decode()).exists():
            return program, self.home
        copy, here = self.home / "alertmanager", b"/proc/self/cwd"
        copy.write_bytes(program.read_bytes().replace(TEMPLATES, here + b"/." * ((len(TEMPLATES) - len(here)) // 2)))
        copy.chmod(0o755)
        return copy, program.parents[1] / "share" / "prometheus" / "alertmanager"

    def __enter__(self):
        program, directory = self._program()
        with open(self.home / "alertmanager.log", "wb") as log:
            self.process = subprocess.Popen(
                [program, f"--config.file={self.config}", f"--storage.path={self.home}/alerts",
                 f"--web.listen-address=127.0.0.1:{self.port}", "--cluster.listen-address="], cwd=directory, stdout=log, stderr=log,
            )  # fmt: skip
        try:
            wait_until(self._answers, 30, "Alertmanager answers")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def _answers(self):
        if self.process.poll() is not None:
            raise RuntimeError(f"Alertmanager ended:\n{(self.home / 'alertmanager.log').read_text()[-2000:]}")
        with contextlib.suppress(OSError):
            return self.alerts() is not None

    def alerts(self):
        """Returns the labels of all alerts that fire."""
        return [alert["labels"] for alert in get_json(f"http://127.0.0.1:{self.port}/api/v2/alerts")]
