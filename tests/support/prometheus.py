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


class Process:
    """A process with its own directory and port, which runs within a `with` block. Its log is in the directory."""

    def __init__(self, home):
        self.home, self.port, self.process = home, free_port(), None

    def begin(self):
        """Returns the command line and the working directory."""
        raise NotImplementedError

    def is_ready(self):
        raise NotImplementedError

    def _log(self):
        return self.home / f"{type(self).__name__.lower()}.log"

    def _is_ready(self):
        if self.process.poll() is not None:
            raise RuntimeError(f"{type(self).__name__} ended:\n{self._log().read_text()[-2000:]}")
        return self.is_ready()

    def __enter__(self):
        line, directory = self.begin()
        with open(self._log(), "wb") as log:
            self.process = subprocess.Popen([*line, f"--web.listen-address=127.0.0.1:{self.port}"], cwd=directory, stdout=log, stderr=log)
        try:
            wait_until(self._is_ready, 60, f"{type(self).__name__} is ready")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


class Prometheus(Process):
    """A Prometheus. `config`: the text of its configuration, with `targets` servers."""

    def __init__(self, config, home, targets=1):
        super().__init__(home)
        self.targets = targets
        (home / "prometheus.yml").write_text(config)

    def begin(self):
        return ["prometheus", f"--config.file={self.home}/prometheus.yml", f"--storage.tsdb.path={self.home}/data"], None

    def is_ready(self):
        """Returns true once every server was scraped."""
        return len(self.ask("up == 1")) == self.targets

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


class Alertmanager(Process):
    """An Alertmanager. `config`: the path of its configuration."""

    def __init__(self, config, home):
        super().__init__(home)
        self.config = config

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

    def begin(self):
        program, directory = self._program()
        return [program, f"--config.file={self.config}", f"--storage.path={self.home}/alerts", "--cluster.listen-address="], directory

    def is_ready(self):
        with contextlib.suppress(OSError):
            return self.alerts() is not None

    def alerts(self):
        """Returns the labels of all alerts that fire."""
        return [alert["labels"] for alert in get_json(f"http://127.0.0.1:{self.port}/api/v2/alerts")]
