"""Runs Debian's Prometheus for a test. It scrapes servers every second, and answers queries."""

import json
import subprocess
import time
import urllib.parse
import urllib.request

from support.server import free_port, wait_until


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
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        url = f"http://127.0.0.1:{self.port}/api/v1/{what}?{urllib.parse.urlencode(arguments)}"
        with direct.open(url, timeout=30) as answer:
            return json.loads(answer.read())["data"]["result"]

    def ask(self, query):
        """Returns the result of a query at this moment, or an empty result while Prometheus does not answer."""
        try:
            return self._get("query", query=query)
        except OSError:
            return []

    def over_time(self, query, start, end):
        """Returns each series of a query as (labels, [(time, value)]), with a value for each second."""
        return [
            (series["metric"], [(when, float(value)) for when, value in series["values"] if value not in ("NaN", "+Inf", "-Inf")])
            for series in self._get("query_range", query=query, start=start, end=end, step=1)
        ]

    def wait_scraped(self, scrapes=2):
        """Waits for `scrapes` scrapes that began after this call."""
        began = time.time()
        wait_until(lambda: (self.ask(f"count_over_time(up[{int(time.time() - began) + 1}s])") or [{"value": [0, "0"]}])[0]["value"][1] > str(scrapes), 30, "the scrapes have ended", 0.2)
