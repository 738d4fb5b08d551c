"""Compares two servers under the same load, whose mix changes three times: one with tuning.auto: apply, one with the shipped settings.

The load is paced, so both servers get the same operations: four periods of equal length, each with at least 85 % of one kind.

    reads    half of them of absent keys
    writes   overwrites of random keys
    ranges   SCAN of the ten keys that begin with a random prefix
    writes   again

Target: over the whole hour, the server with tuning.auto uses at most 5 % more pages an operation than the other. Pages are those that
operations read, and the bytes that flushes and merges read or write, divided by 4 KiB. The merges to new settings, and those that the
periods leave behind, are included. The hour matters: the tuner may lose 5 % of the pages of at least an hour
(engine/include/engine/auto_tuner.h).

Both servers run at the same time, since pages do not depend on how fast they are.
"""

import argparse
import random
import signal
import sys
import threading
import time

from common import load, plots, report, servers

KINDS = ("empty read", "read", "range", "write")
PERIODS = (("reads", (0.45, 0.45, 0.05, 0.05)), ("writes", (0.05, 0.05, 0.05, 0.85)),
           ("ranges", (0.05, 0.05, 0.85, 0.05)), ("writes again", (0.05, 0.05, 0.05, 0.85)))  # fmt: skip
KEY_BYTES, VALUE_BYTES = 16, 1008
DATA_MEMTABLES = 160  # 10 GiB / 64 MiB, as shipped
PAGE = 4096
SHOWN = ("policy.name", "policy.size_ratio", "policy.runs", "memtable_size", "filters.bits_per_key")
BATCH = 20  # commands of a pipeline


def parse_arguments():
    parser = argparse.ArgumentParser(prog="./dev bench auto-tuning", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="two minutes, to check that everything works: the figures mean nothing")
    parser.add_argument("--minutes", type=float, help="minutes of the whole load; default 60. A window of tuning.auto is a sixtieth of it")
    parser.add_argument("--keys", type=report.count, help="keys of 1 KiB with their values; default 200k")
    parser.add_argument("--rate", type=float, default=1000, help="operations per second of each server; default 1000")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of both servers, as for ebbtide-server; may be repeated")
    parser.add_argument("--json", default=str(report.ROOT / "build/bench/auto-tuning.json"), help="file for the figures; the plot goes beside it")
    options = parser.parse_args()
    options.minutes = options.minutes or (2 if options.quick else 60)
    options.keys = options.keys or (20_000 if options.quick else 200_000)
    return options


def settings_of(options):
    """Returns the shipped settings, with sizes in the shipped proportion to the data, and hardly any page cache."""
    memtable = max(options.keys * (KEY_BYTES + VALUE_BYTES) // DATA_MEMTABLES, 128 << 10)
    return {
        "storage.memtable_size": f"{memtable}B", "tree.file_size": f"{memtable}B", "storage.block_cache": "1MiB", "storage.memory_budget": "128MiB",
        "tuning.window": f"{max(1000, int(options.minutes * 1000))}ms", **servers.pairs_of(options.set)
    }  # fmt: skip


def key_of(number, exists=True):
    return f"key:{number:012d}" if exists else f"key:{number:011d}a"


class Load(threading.Thread):
    """Sends the load of all periods to one server, and notes its counters once per window. All loads send the same commands."""

    def __init__(self, server, options):
        super().__init__(daemon=True)
        self.server, self.options = server, options
        self.failure = None
        self.rows = []  # one per window: period, operations and pages so far, settings
        self.operations = 0

    def run(self):
        try:
            with self.server.client() as client, self.server.client() as asking:
                self.begin = self.pages(asking)
                for name, mix in PERIODS:
                    self.period(client, asking, name, mix)
                self.server.settle()
                self.note(asking, "rest")
        except Exception as error:  # the main thread reports it
            self.failure = error

    def period(self, client, asking, name, mix):
        seconds = self.options.minutes * 60 / len(PERIODS)
        window = self.options.minutes
        start, sent, noted = time.monotonic(), 0, 0
        source = random.Random(name)
        while sent < seconds * self.options.rate:
            ahead = start + sent / self.options.rate - time.monotonic()
            if ahead > 0:
                time.sleep(ahead)
            kinds = source.choices(KINDS, mix, k=BATCH)
            client.pipeline(self.command(kind, source) for kind in kinds)
            sent += BATCH
            self.operations += BATCH
            if sent / self.options.rate >= (noted + 1) * window:
                noted += 1
                self.note(asking, name)

    def command(self, kind, source):
        number = source.randrange(self.options.keys)
        if kind == "write":
            return "SET", key_of(number), source.randbytes(VALUE_BYTES)
        if kind == "range":
            return "SCAN", 0, "MATCH", key_of(number)[:-1] + "*", "COUNT", 100
        return "GET", key_of(number, exists=kind == "read")

    def pages(self, client):
        info = client.info("ebbtide")
        merged = info["flush_bytes_written"] + info["compaction_bytes_read"] + info["compaction_bytes_written"]
        return info["pages_read"] + merged / PAGE

    def note(self, client, period):
        info = client.info("workload")
        settings = client.pairs("CONFIG", "GET", *(f"databases.0.{name}" for name in SHOWN))
        self.rows.append({
            "period": period, "operations": self.operations, "pages": self.pages(client) - self.begin,
            "tuning": info.get("tuning_db0"), "decision": info.get("tuning_decision_db0"),
            "settings": {name.removeprefix("databases.0."): value for name, value in settings.items()},
        })  # fmt: skip


def run_both(options, result):
    """Runs the load on both servers at once. Returns {name: rows}."""
    settings = settings_of(options)
    running, loads = [], {}
    try:
        for name in ("off", "apply"):
            running.append(servers.Ebbtide({**settings, "tuning.auto": name}, name=f"tuning.auto: {name}"))
            load.fill(running[-1], options.keys, VALUE_BYTES)
            loads[name] = Load(running[-1], options)
        for name, one in loads.items():
            result.add(tuning=name, windows=one.rows)
            one.start()
        ticker = report.Ticker("the load")
        saved = 0
        while any(one.is_alive() for one in loads.values()):
            time.sleep(1)
            for name, one in loads.items():
                if one.failure:
                    raise SystemExit(f"the load with tuning.auto: {name} failed: {one.failure!r}")
            rows = loads["apply"].rows
            if len(rows) > saved:
                saved = len(rows)
                result.save()
            ticker.tick(f"{loads['apply'].operations:,} operations, {rows[-1]['period'] if rows else PERIODS[0][0]}")
        ticker.done()
    finally:
        for server in running:
            server.close()
    return {name: one.rows for name, one in loads.items()}


def pages_by_period(rows):
    """Returns {period: pages an operation}. The merges after the last operation belong to the last period."""
    found, before = {}, (0, 0)
    for name, _ in PERIODS:
        last = rows[-1] if name == PERIODS[-1][0] else [row for row in rows if row["period"] == name][-1]
        now = (last["operations"], last["pages"])
        found[name] = (now[1] - before[1]) / (now[0] - before[0])
        before = now
    return found


def changes_of(rows):
    """Returns (operations, settings) for each change of settings."""
    return [(row["operations"], row["settings"]) for before, row in zip(rows, rows[1:]) if before["settings"] != row["settings"]]


def show(rows, result):
    by_period = {name: pages_by_period(one) for name, one in rows.items()}
    whole = {name: one[-1]["pages"] / one[-1]["operations"] for name, one in rows.items()}
    table = [[period, *(report.cell(by_period[name][period]) for name in ("off", "apply"))] for period, _ in PERIODS]
    table.append(["all", report.cell(whole["off"]), report.cell(whole["apply"])])
    print("\nPages an operation\n")
    print(report.table(table, ["", "shipped settings", "tuning.auto: apply"]))
    changes = changes_of(rows["apply"])
    print(f"\n{report.plural(len(changes), 'change')} of settings")
    for operations, settings in changes:
        print(f"  after {operations:,} operations: " + ", ".join(f"{name} {settings.get(name)}" for name in SHOWN))
    print()
    result.target("pages an operation, tuning.auto: apply / shipped settings", whole["apply"] / whole["off"], 1.05)
    result.target("changes of settings", len(changes), 2 * len(PERIODS))
    panel = plots.Panel("pages an operation")
    for name, one in rows.items():
        points = zip([{"operations": 0, "pages": 0}, *one[:-2]], one[:-1])
        panel.lines[f"tuning.auto: {name}"] = [(now["operations"], (now["pages"] - was["pages"]) / (now["operations"] - was["operations"])) for was, now in points]
    plots.draw(result.path.with_suffix(""), "A workload that changes three times", "operations", [panel])


def main():
    options = parse_arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    result = report.Result("auto-tuning", options.json, vars(options))
    show(run_both(options, result), result)
    result.finish()


if __name__ == "__main__":
    main()
