#!/usr/bin/env python3
"""Writes the dashboards of this directory: python3 deploy/grafana/generate.py

Grafana reads JSON in which a panel takes eighty lines. Here, a panel is its question, its queries and the cause that moves it. A test
compares the files with what this program makes. Another test provokes each cause, and requires that the panel moves and every query
has data.
"""

import json
from pathlib import Path

SOURCE = {"type": "prometheus", "uid": "ebbtide-prometheus"}
ME = 'instance=~"$instance"'
RATE = "$__rate_interval"
WRITE, HIT, MISS, EXPECTED = 'direction="write"', 'result="hit"', 'result="miss"', 'kind="expected"'
WIDTH, HEIGHT, COLUMNS = 8, 7, 24
STAT_WIDTH, STAT_HEIGHT = 6, 4


def metric(name, *conditions):
    return f"ebbtide_{name}{{{','.join([*conditions, ME])}}}"


def rate(name, *conditions, over=RATE):
    return f"rate({metric(name, *conditions)}[{over}])"


def total(name, *conditions, by="", over=RATE):
    return f"sum{f' by ({by}) ' if by else ''}({rate(name, *conditions, over=over)})"


def now(name, *conditions, by="", how="sum"):
    return f"{how}{f' by ({by}) ' if by else ''}({metric(name, *conditions)})"


def ratio(part, whole):
    return f"{part} / ({whole} > 0)"


PAGES_OF_A_READ = ratio(total("pages_read_total"), f'{total("engine_gets_total")} + {total("engine_iterators_total")}')


def percentile(fraction, name, by="", over=RATE):
    return f"histogram_quantile({fraction}, sum by ({f'{by}, ' if by else ''}le) ({rate(name + '_bucket', over=over)}))"


def mean(name, over=RATE):
    return ratio(total(name + "_sum", over=over), total(name + "_count", over=over))


class Panel:
    """queries: (PromQL, legend). cause: what tests/contract/test_dashboards.py does to move it. red: the value from which a stat is red."""

    def __init__(self, kind, title, description, cause, *queries, unit="short", red=None, most=None, stacked=False):
        self.kind, self.title, self.description, self.cause, self.queries = kind, title, description, cause, queries
        self.unit, self.red, self.most, self.stacked = unit, red, most, stacked

    def json(self, number, x, y, width, height):
        defaults = {"unit": self.unit, "min": 0}
        if self.most is not None:
            defaults["max"] = self.most
        if self.kind == "stat":
            steps = [{"color": "green", "value": None}] + ([] if self.red is None else [{"color": "red", "value": self.red}])
            defaults["thresholds"] = {"mode": "absolute", "steps": steps}
            options = {
                "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
                "colorMode": "value",
                "graphMode": "area",
            }
        else:
            defaults["custom"] = {
                "drawStyle": "line",
                "lineWidth": 1,
                "fillOpacity": 40 if self.stacked else 10,
                "showPoints": "never",
                "spanNulls": False,
                "stacking": {"mode": "normal" if self.stacked else "none", "group": "A"},
            }
            options = {
                "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []},
                "tooltip": {"mode": "multi", "sort": "desc"},
            }
        targets = [
            {"refId": chr(ord("A") + i), "expr": query, "legendFormat": legend, "datasource": SOURCE}
            for i, (query, legend) in enumerate(self.queries)
        ]
        return {
            "id": number,
            "type": self.kind,
            "title": self.title,
            "description": self.description,
            "datasource": SOURCE,
            "gridPos": {"h": height, "w": width, "x": x, "y": y},
            "fieldConfig": {"defaults": defaults, "overrides": []},
            "targets": targets,
            "options": options,
        }


def stat(*arguments, **options):
    return Panel("stat", *arguments, **options)


def graph(*arguments, **options):
    return Panel("timeseries", *arguments, **options)


class Dashboard:
    def __init__(self, name, title, description, *panels):
        self.name, self.title, self.description, self.panels = name, title, description, panels

    def json(self):
        placed, x, y, bottom = [], 0, 0, 0
        previous = None
        for number, panel in enumerate(self.panels, 1):
            width, height = (STAT_WIDTH, STAT_HEIGHT) if panel.kind == "stat" else (WIDTH, HEIGHT)
            if x + width > COLUMNS or (previous is not None and previous != panel.kind):
                x, y = 0, bottom
            placed.append(panel.json(number, x, y, width, height))
            x, bottom, previous = x + width, y + height, panel.kind
        return {
            "uid": f"ebbtide-{self.name}",
            "title": f"Ebbtide: {self.title}",
            "description": self.description,
            "tags": ["ebbtide"],
            "schemaVersion": 38,
            "version": 1,
            "editable": True,
            "graphTooltip": 1,
            "refresh": "10s",
            "time": {"from": "now-1h", "to": "now"},
            "timezone": "browser",
            "templating": {
                "list": [
                    {
                        "name": "instance",
                        "type": "query",
                        "label": "Instance",
                        "datasource": SOURCE,
                        "query": "label_values(ebbtide_info, instance)",
                        "includeAll": True,
                        "multi": True,
                        "refresh": 2,
                        "current": {"text": "All", "value": "$__all"},
                    }
                ]
            },
            "annotations": {"list": []},
            "links": [
                {
                    "title": "Ebbtide",
                    "type": "dashboards",
                    "tags": ["ebbtide"],
                    "asDropdown": False,
                    "icon": "dashboard",
                    "includeVars": True,
                    "keepTime": True,
                    "targetBlank": False,
                    "tooltip": "",
                    "url": "",
                }
            ],
            "panels": placed,
        }


# A merge follows its writes late: over a shorter time than minutes, the ratio means nothing.
WRITTEN_PER_BYTE = ratio(
    f"({total('wal_bytes_written_total', over='5m')} + {total('flush_bytes_total', over='5m')}"
    f" + {total('compaction_bytes_total', WRITE, over='5m')})",
    total("user_bytes_written_total", over="5m"),
)

DELETES = Dashboard(
    "deletes",
    "Deletes on time",
    "Shows whether deleted data leaves the files before the deadline, and the cost of that.",
    stat(
        "Oldest delete, of its deadline",
        "The part of its deadline that the oldest delete has used. At 100 % a deadline is missed.",
        "deletes",
        (
            f"max({now('oldest_tombstone_age_seconds', by='db, instance', how='max')} / on (db, instance) ({metric('delete_deadline_seconds')} > 0))",
            "",
        ),
        unit="percentunit",
        red=0.8,
    ),
    stat(
        "Deadlines missed",
        'Deletes that were in a file past their deadline, in the range shown. "load" means that the engine was too slow.',
        "missed",
        (f"sum by (reason) (increase({metric('delete_deadline_missed_total')}[$__range]))", "{{reason}}"),
        red=1,
    ),
    stat(
        "Work left for deadlines",
        "Estimated bytes that merges must still read for the pending deletes.",
        "deletes",
        (now("delete_deadline_work_bytes"), ""),
        unit="bytes",
    ),
    stat(
        "Shortest deadline that can be kept",
        "The shortest delete deadline that merges can keep at their measured rate.",
        "deletes",
        (now("delete_deadline_least_feasible_seconds", how="max"), ""),
        unit="s",
    ),
    graph(
        "Part of the deadline used, by database",
        "The part that the oldest delete has used. Merges that start in time keep each line below 80 %. At 100 % a deadline is missed.",
        "deletes",
        (f"{now('oldest_tombstone_age_seconds', by='db', how='max')} / on (db) min by (db) ({metric('delete_deadline_seconds')} > 0)", "db {{db}}"),
        unit="percentunit",
    ),
    graph(
        "Age of the oldest delete, by level",
        "The age falls when a merge moves the delete to the next level, or removes it.",
        "deletes",
        (now("oldest_tombstone_age_seconds", by="db, level", how="max"), "db {{db}}, level {{level}}"),
        unit="s",
    ),
    graph(
        "From delete to purged",
        "Time until no file had the deleted data. The deadline is the bound.",
        "deletes",
        (percentile(0.5, "delete_persist_seconds"), "50 %"),
        (percentile(0.99, "delete_persist_seconds"), "99 %"),
        unit="s",
    ),
    graph(
        "Tombstones",
        "Deletes that tables still have: of single keys, and of ranges.",
        "deletes",
        (now("tombstones", by="kind"), "{{kind}}"),
    ),
    graph(
        "Garbage",
        "Bytes of files that are no longer needed: hidden by deletes (estimated), dropped pages, files to be removed.",
        "deletes",
        (now("garbage_bytes", by="kind"), "{{kind}}"),
        unit="bytes",
        stacked=True,
    ),
    graph(
        "Bytes merged, by reason",
        'Read and written. "deadline" are merges that only the deadlines need.',
        "deletes",
        (total("compaction_bytes_total", by="reason"), "{{reason}}"),
        unit="Bps",
        stacked=True,
    ),
    graph(
        "I/O limit of merges for deadlines",
        "The setting tree.deletes.io_budget. Empty if there is no limit.",
        "budget",
        (now("delete_io_budget_bytes_per_second", by="db", how="max"), "db {{db}}"),
        unit="Bps",
    ),
    graph(
        "Oldest record of the log, oldest snapshot",
        "The log and open snapshots keep deleted data, too. Both are ended before the deadline.",
        "snapshots",
        (now("wal_oldest_record_age_seconds", how="max"), "log"),
        (now("snapshot_oldest_age_seconds", how="max"), "snapshot"),
        unit="s",
    ),
    graph(
        "Snapshots",
        "Open views, and views that were revoked to meet a deadline.",
        "snapshots",
        (now("snapshots"), "open"),
        (f"sum(increase({metric('snapshots_revoked_total')}[{RATE}]))", "revoked"),
    ),
    graph(
        "Deletes by stamp",
        "Commands a second, and records that may still cover entries.",
        "stamps",
        (total("secondary_range_deletes_total"), "a second"),
        (now("secondary_records"), "records"),
    ),
    graph(
        "Pages dropped",
        "Full: dropped without being read. Partial: replaced by pages with the entries that stay.",
        "stamps",
        (total("pages_dropped_total", by="mode"), "{{mode}}"),
        unit="ops",
    ),
    graph(
        "Files dropped, and space returned",
        "Files that were dropped without being read, and space returned by removing files and by punching holes.",
        "drops",
        (total("files_dropped_total"), "files a second"),
        (total("reclaimed_bytes_total", by="how"), "bytes a second: {{how}}"),
    ),
)

COMPACTION = Dashboard(
    "compaction",
    "Compaction",
    "Flushes and merges, the shape of the tree, and writes that wait for them.",
    stat(
        "Bytes to be merged",
        "Bytes that must be merged until every tree satisfies its policy.",
        "paused",
        (now("compaction_pending_bytes"), ""),
        unit="bytes",
    ),
    stat("Merges under way", "At most storage.background_threads.", "full", (now("compactions_running"), "")),
    stat(
        "Write amplification",
        "Bytes written to disk per byte written by clients, since the start.",
        "writes",
        (f"max({metric('write_amplification_ratio')})", ""),
    ),
    stat(
        "Writes delayed",
        "Seconds of delay a second. The alert fires at 1 s in a minute.",
        "stall",
        (total("write_stall_seconds_total"), ""),
        unit="percentunit",
        red=0.02,
    ),
    graph(
        "Merges, by reason",
        "size and run_count: the policy. deadline: deletes. manual: TREE.COMPACT. dropped: files without live data.",
        "writes",
        (total("compactions_total", by="reason"), "{{reason}}"),
        unit="ops",
    ),
    graph(
        "Bytes of merges",
        "Bytes that merges read and wrote.",
        "writes",
        (total("compaction_bytes_total", by="direction"), "{{direction}}"),
        unit="Bps",
    ),
    graph(
        "Bytes to be merged, by database",
        "A line that rises for long means that merges are slower than writes.",
        "paused",
        (now("compaction_pending_bytes", by="db"), "db {{db}}"),
        unit="bytes",
    ),
    graph(
        "Writes delayed, by reason",
        "memtable: flushes are slow. runs, pending_bytes: merges are slow. deadline: deletes need the drive.",
        "stall",
        (total("write_stall_seconds_total", by="reason"), "{{reason}}"),
        (now("write_stalled", how="max"), "delayed now"),
    ),
    graph(
        "Bytes written to disk",
        "Bytes written by the log, flushes and merges, and the bytes that clients wrote.",
        "writes",
        (total("wal_bytes_written_total"), "log"),
        (total("flush_bytes_total"), "flushes"),
        (total("compaction_bytes_total", WRITE), "merges"),
        (total("user_bytes_written_total"), "clients"),
        unit="Bps",
    ),
    graph(
        "Flushes",
        "Memtables written to tables.",
        "writes",
        (total("flushes_total"), "a second"),
        unit="ops",
    ),
    graph(
        "Bytes, by level",
        "Bytes of tables.",
        "writes",
        (now("level_bytes", by="level"), "level {{level}}"),
        unit="bytes",
        stacked=True,
    ),
    graph(
        "Runs, by level",
        "A look-up reads each run that its filter does not exclude.",
        "paused",
        (now("level_runs", by="level", how="max"), "level {{level}}"),
    ),
    graph(
        "Files, by level",
        "Files of tables.",
        "writes",
        (now("level_files", by="level"), "level {{level}}"),
    ),
    graph(
        "Write amplification of five minutes",
        "Bytes written to disk per byte written by clients.",
        "writes",
        (WRITTEN_PER_BYTE, "ratio"),
    ),
    graph(
        "Space amplification",
        "Bytes of all tables per byte of the last level's.",
        "writes",
        (now("space_amplification_ratio", by="db", how="max"), "db {{db}}"),
    ),
    graph(
        "Moved and divided",
        "Files moved without being read, and parts of merges by key range.",
        "sequential",
        (total("trivial_moves_total"), "files moved"),
        (total("sub_merges_total"), "parts of merges"),
        unit="ops",
    ),
    graph(
        "Disk space, by kind of file",
        "Space used by the data directory.",
        "writes",
        (now("disk_bytes", by="kind"), "{{kind}}"),
        unit="bytes",
        stacked=True,
    ),
    graph(
        "Disk used",
        "The used part of the disk or of storage.max_disk_bytes, whichever is larger. The alert fires at 85 %.",
        "full",
        (now("disk_used_ratio", by="instance", how="max"), "{{instance}}"),
        unit="percentunit",
        most=1,
    ),
)

READS = Dashboard(
    "reads",
    "Filters and reads",
    "What a read costs: runs asked, filters that exclude them, pages from the cache and from the disk.",
    stat(
        "Pages per look-up or iterator",
        "Pages read from files because the cache did not have them, by look-ups and by iterators.",
        "reads",
        (PAGES_OF_A_READ, ""),
    ),
    stat(
        "Look-ups in the cache that hit",
        "Share of the uses of pages that the cache had.",
        "reads",
        (ratio(total("cache_lookups_total", HIT), total("cache_lookups_total")), ""),
        unit="percentunit",
    ),
    stat(
        "Runs asked per look-up",
        "Runs whose filters or tables a look-up of a key reads.",
        "reads",
        (mean("runs_probed_per_get"), ""),
    ),
    stat(
        "Filters that were wrong",
        "False positives, of all look-ups that a filter ended or misled.",
        "reads",
        (ratio(total("filter_results_total", 'result="false_positive"'), total("filter_results_total")), ""),
        unit="percentunit",
    ),
    graph(
        "Reads of the engine",
        "Look-ups of keys, and walks over ranges.",
        "reads",
        (total("engine_gets_total"), "look-ups"),
        (total("engine_iterators_total"), "walks"),
        unit="ops",
    ),
    graph(
        "Results of filters",
        "Negative: the run was not read. False positive: a page was read for nothing.",
        "reads",
        (total("filter_results_total", by="result"), "{{result}}"),
        unit="ops",
    ),
    graph(
        "False positives, by level",
        "The rates expected from the filters' size, and the observed rates.",
        "paused",
        (now("filter_false_positive_ratio", by="level, kind", how="avg"), "level {{level}}, {{kind}}"),
        unit="percentunit",
    ),
    graph(
        "Filter memory per key, by level",
        "Bits per key. Monkey gives small levels more.",
        "paused",
        (now("filter_bits_per_key", by="level", how="avg"), "level {{level}}"),
    ),
    graph(
        "Runs asked by a look-up",
        "Percentiles and mean of the runs that a look-up reads.",
        "reads",
        (percentile(0.99, "runs_probed_per_get"), "99 %"),
        (mean("runs_probed_per_get"), "mean"),
    ),
    graph(
        "Pages from disk",
        "Pages, batches in which they were fetched, and commands that waited.",
        "reads",
        (total("pages_read_total"), "pages"),
        (total("fetches_total"), "batches"),
        (total("disk_waits_total"), "commands that waited"),
        unit="ops",
    ),
    graph(
        "Look-ups in the cache",
        "Uses of pages that the cache had (hit), and pages read from files for it (miss).",
        "reads",
        (total("cache_lookups_total", by="result"), "{{result}}"),
        unit="ops",
    ),
    graph(
        "Cache",
        "Bytes of cached pages, and the most that they may take.",
        "reads",
        (now("memory_bytes", 'owner="cache"'), "used"),
        (now("cache_capacity_bytes"), "capacity"),
        unit="bytes",
    ),
    graph(
        "Indexes of tables",
        "Bytes of indexes and filters in memory, and the most that they may take.",
        "writes",
        (now("index_bytes"), "used"),
        (now("index_capacity_bytes"), "capacity"),
        unit="bytes",
    ),
    graph(
        "Tables with their index in memory",
        "Tables whose index is in memory, and indexes that come into memory each second. If many come while few tables are written, the memory is too "
        "small for the indexes.",
        "writes",
        (now("indexed_tables"), "in memory"),
        (total("index_loads_total"), "came a second"),
    ),
    graph(
        "Keys that reads found",
        "The part of the looked-up keys that existed.",
        "reads",
        (ratio(total("keyspace_lookups_total", HIT), total("keyspace_lookups_total")), "found"),
        unit="percentunit",
        most=1,
    ),
    graph(
        "Entries read by a SCAN",
        "Keys, and versions and tombstones between them. A SCAN over many deletes reads many.",
        "scans",
        (percentile(0.99, "scan_steps"), "99 %"),
        (mean("scan_steps"), "mean"),
    ),
    graph(
        "Table files",
        "Tables in use, open tables, and tables opened again a second because storage.max_open_files had closed them.",
        "writes",
        (now("table_files"), "in use"),
        (now("table_files_open"), "open"),
        (total("table_files_reopened_total"), "reopened a second"),
    ),
)

SERVICE = Dashboard(
    "service",
    "Service",
    "What clients get: commands, their times, connections, memory; and the state of the server.",
    stat(
        "Commands a second",
        "Commands of all kinds.",
        "writes",
        (total("commands_total"), ""),
        unit="ops",
    ),
    stat(
        "Slowest commands, 99 %",
        "Time to run a command, without waits for pages, threads and syncs.",
        "writes",
        (percentile(0.99, "command_seconds"), ""),
        unit="s",
    ),
    stat(
        "Errors a second",
        "Error replies.",
        "errors",
        (total("errors_total"), ""),
        unit="ops",
        red=1,
    ),
    stat(
        "Uptime",
        "Since the last start.",
        "missed",
        (now("uptime_seconds", how="min"), ""),
        unit="s",
    ),
    graph(
        "Commands",
        "The ten most frequent ones.",
        "writes",
        (f"topk(10, {total('commands_total', by='cmd')} > 0)", "{{cmd}}"),
        unit="ops",
    ),
    graph(
        "Time in commands, 99 %",
        "Of the ten slowest.",
        "writes",
        (f"topk(10, {percentile(0.99, 'command_seconds', by='cmd')})", "{{cmd}}"),
        unit="s",
    ),
    graph(
        "Where the time goes, 99 %",
        "queue: earlier commands. memory: at work. disk: pages. thread: another thread. stall: delayed writes. wal: the log.",
        "reads",
        (percentile(0.99, "command_stage_seconds", by="stage"), "{{stage}}"),
        unit="s",
    ),
    graph(
        "Commands that failed",
        "Commands that were refused, or that ended with an error.",
        "errors",
        (f"sum by (how) ({rate('commands_failed_total')})", "{{how}}"),
        (total("errors_total"), "error replies"),
        unit="ops",
    ),
    graph(
        "Clients",
        "Connected; of these, blocked by their command, waiting for disk or thread, and not authenticated.",
        "clients",
        (now("connected_clients"), "connected"),
        (now("blocked_clients"), "blocked"),
        (now("waiting_clients"), "waiting"),
        (now("unauthenticated_clients"), "not authenticated"),
    ),
    graph(
        "Connections",
        "Accepted, refused and closed by the server, a second.",
        "clients",
        (total("connections_total"), "accepted"),
        (f"{total('connections_rejected_total', by='reason')} > 0", "refused: {{reason}}"),
        (f"{total('connections_closed_total', by='reason')} > 0", "closed: {{reason}}"),
        unit="ops",
    ),
    graph(
        "Failed authentications",
        "AUTH and HELLO with a wrong name or password, a second.",
        "clients",
        (total("authentication_failures_total"), "failed"),
        unit="ops",
    ),
    graph(
        "Network",
        "Bytes received from clients and sent to clients.",
        "writes",
        (total("net_bytes_total", by="direction"), "{{direction}}"),
        unit="Bps",
    ),
    graph(
        "Memory, by owner",
        "Against storage.memory_budget; the process as a whole takes at most a quarter more.",
        "writes",
        (now("memory_bytes", by="owner"), "{{owner}}"),
        (now("memory_budget_bytes"), "budget"),
        (now("process_resident_bytes"), "process"),
        unit="bytes",
    ),
    graph(
        "Processor",
        "Cores used.",
        "writes",
        (total("process_cpu_seconds_total", by="mode"), "{{mode}}"),
    ),
    graph(
        "The log",
        "Writes, syncs and batches of commands, a second.",
        "writes",
        (total("wal_writes_total"), "writes"),
        (total("wal_syncs_total"), "syncs"),
        (total("engine_batches_total"), "batches"),
        unit="ops",
    ),
    graph(
        "Expired keys",
        "Expirations that clients were notified of, a second.",
        "expiry",
        (total("expired_keys_total"), "expired"),
        unit="ops",
    ),
    graph(
        "Keys",
        "Estimated, by database.",
        "writes",
        (now("estimated_keys", by="db"), "db {{db}}"),
    ),
    graph(
        "Damage",
        "Faults that the scrub or TREE.VERIFY found, and quarantined tables.",
        "damage",
        (now("scrub_errors_total"), "faults"),
        (now("quarantined_files"), "quarantined tables"),
    ),
    graph(
        "State",
        "1 while the server answers; while the database is being opened; while writes are delayed or refused; and while a step of the clock "
        "is refused.",
        "missed",
        (f'min(up{{job="ebbtide",{ME}}})', "answers"),
        (now("loading", how="max"), "opening"),
        (now("write_stalled", how="max"), "writes delayed"),
        (now("read_only", how="max"), "read-only"),
        (now("clock_step_refused", how="max"), "clock refused"),
        most=1,
    ),
    graph(
        "Scrub",
        "Bytes of tables read from the drive and checked, a second.",
        "scrub",
        (total("scrub_bytes_total"), "checked"),
        unit="Bps",
    ),
)

LEVEL_FILTER_BYTES = f"{metric('level_entries')} * {metric('filter_bits_per_key')} / 8"
OPERATIONS = f"{total('engine_gets_total')} + {total('engine_iterators_total')} + {total('engine_writes_total')}"
TUNING = Dashboard(
    "tuning",
    "Tuning",
    "The mix of operations, the cost of each under the present tuning, and the levers: policy, filters, memory, pages per tile. "
    "ebbtide-tune computes which tuning costs least for a mix.",
    graph(
        "Mix of operations",
        "The shares that ebbtide-tune --workload takes: look-ups without and with a result, walks, writes.",
        "reads",
        (f"{total('keyspace_lookups_total', MISS)} / ({OPERATIONS} > 0)", "look-ups without result"),
        (f"{total('keyspace_lookups_total', HIT)} / ({OPERATIONS} > 0)", "look-ups with result"),
        (f"{total('engine_iterators_total')} / ({OPERATIONS} > 0)", "walks"),
        (f"{total('engine_writes_total')} / ({OPERATIONS} > 0)", "writes"),
        unit="percentunit",
        stacked=True,
    ),
    graph(
        "Divergence of the mix",
        "In nats: of the newest thousand operations from the mean of a week, the largest in the week (rho), and of the newest window of "
        "tuning.auto from what is expected.",
        "tuned",
        (now("workload_divergence_nats", by="db", how="max"), "db {{db}}, newest"),
        (now("workload_rho_nats", by="db", how="max"), "db {{db}}, rho"),
        (now("tuning_divergence_nats", by="db", how="max"), "db {{db}}, window"),
    ),
    graph(
        "Cost of an operation, by the model",
        "Page reads with the settings now, and with the best ones for the newest window; while tuning.auto is on.",
        "tuned",
        (now("tuning_cost_pages", by="db, settings", how="max"), "db {{db}}, {{settings}}"),
    ),
    graph(
        "Advice",
        "1 while tuning.auto advises other settings for a database: TUNE.APPLY takes them.",
        "tuned",
        (now("tuning_advised", by="db", how="max"), "db {{db}}"),
        most=1,
    ),
    graph(
        "Applied changes",
        "Changes of settings by TUNE.APPLY (command) and by tuning.auto (auto) so far. The log says from what to what.",
        "tuned",
        (now("tuning_changes_total", by="db, by"), "db {{db}}, {{by}}"),
    ),
    graph(
        "Size ratio and runs",
        "The policy's parameters that the tuner chooses: T, and runs a level.",
        "tuned",
        (now("tuning_setting", 'setting=~"size_ratio|runs|last_runs|level0_runs"', by="db, setting", how="max"), "db {{db}}, {{setting}}"),
    ),
    graph(
        "Cost of a read",
        "Runs asked by a look-up, and pages read by a look-up or an iterator.",
        "reads",
        (mean("runs_probed_per_get"), "runs asked"),
        (PAGES_OF_A_READ, "pages read"),
    ),
    graph(
        "Cost of a write",
        "Bytes written to disk per byte of clients in five minutes: more with fewer runs to read.",
        "writes",
        (WRITTEN_PER_BYTE, "bytes written"),
    ),
    graph(
        "Cost in space",
        "Bytes of all tables per byte of the last level's.",
        "writes",
        (now("space_amplification_ratio", by="db", how="max"), "db {{db}}"),
    ),
    graph(
        "Entries, by level",
        "The ratio of neighbours is the size ratio of the policy, once a level is full.",
        "writes",
        (now("level_entries", by="level"), "level {{level}}"),
    ),
    graph(
        "Runs, by level",
        "tree.policy decides how many there may be.",
        "policy",
        (now("level_runs", by="level", how="max"), "level {{level}}"),
    ),
    graph(
        "Filter memory, by level",
        "In bytes: entries of the level times its bits per key.",
        "paused",
        (f"sum by (level) ({LEVEL_FILTER_BYTES})", "level {{level}}"),
        unit="bytes",
        stacked=True,
    ),
    graph(
        "Pages expected to be read for nothing",
        "Per look-up of an absent key: the sum of the filters' false-positive ratios over all levels.",
        "writes",
        (
            f"max by (db) (sum by (instance, db) ({metric('filter_false_positive_ratio', EXPECTED)}"
            f" * on (instance, db, level) {metric('level_runs')}))",
            "db {{db}}",
        ),
    ),
    graph(
        "Division of memory",
        "Of storage.memory_budget.",
        "writes",
        (f"{now('memory_bytes', by='owner')} / ignoring (owner) group_left sum({metric('memory_budget_bytes')})", "{{owner}}"),
        unit="percentunit",
        stacked=True,
    ),
    graph(
        "Look-ups in the cache that hit",
        "A larger cache, or smaller filters, change it.",
        "reads",
        (ratio(total("cache_lookups_total", HIT), total("cache_lookups_total")), "hit"),
        unit="percentunit",
        most=1,
    ),
    graph(
        "Pages per tile",
        "Of new files: more of them make deletes by stamp cheaper, and look-ups dearer.",
        "policy",
        (now("pages_per_tile", by="db", how="max"), "db {{db}}"),
    ),
    graph(
        "Bytes written, by source",
        "What a change of the policy moves: the part of the merges.",
        "writes",
        (total("wal_bytes_written_total"), "log"),
        (total("flush_bytes_total"), "flushes"),
        (total("compaction_bytes_total", WRITE), "merges"),
        unit="Bps",
        stacked=True,
    ),
)

DASHBOARDS = (DELETES, COMPACTION, READS, SERVICE, TUNING)


def files():
    """The dashboards: file name and text."""
    return {f"{dashboard.name}.json": json.dumps(dashboard.json(), indent=1) + "\n" for dashboard in DASHBOARDS}


def main():
    directory = Path(__file__).resolve().parent / "dashboards"
    for name, text in files().items():
        (directory / name).write_text(text)


if __name__ == "__main__":
    main()
