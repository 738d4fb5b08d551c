"""Runs the tuner's settings on the engine while the workload drifts (Huynh et al., Endure, section 9), and compares the cost model
with the engine.

Drift: four configurations run the same sequence of sessions, for the expected workloads w7 and w11.

    rocksdb   RocksDB's default tree and filters
    default   Ebbtide's default tree and filters
    nominal   the settings of `ebbtide-tune advise` for the expected workload
    robust    the same for rho, the mean divergence of the sequence's sessions from the expected workload

All have the memory of RocksDB's defaults for the paper's 10 GB: a memtable of 1/160 of the data (64 MiB), and filters of 10 bits a
key. Level 1 of RocksDB has four memtables, as by default. There is hardly any block cache, reads are direct, nothing is compressed.
The sequence `drift` has a session for each kind of operation, with at least 85 % of it, and the expected session. All sessions of
`steady` are within divergence 0.2 of the expected workload. Writes are new keys. Pages are those that operations read, and the bytes
of flushes and merges divided by 4 KiB; time includes the merges that a session leaves behind.

Model: trees of nine tunings are filled until all levels are full, with merges at rest after each flush. Then each kind of read runs
alone. The pages of a write are those of all flushes and merges. The cost of a session follows from the costs of its operations. These
trees are in /dev/shm if there is one, since pages do not depend on the device, and each flush would wait for several syncs.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys

from common import headlines, plots, programs, report
from common.headlines import judged
from support.server import binary

KINDS = ("empty_read", "read", "range", "write")
EXPECTED = {"w7": (0.49, 0.01, 0.01, 0.49), "w11": (0.33, 0.33, 0.33, 0.01)}
SESSIONS = {
    "reads": (0.45, 0.45, 0.05, 0.05),
    "ranges": (0.05, 0.05, 0.85, 0.05),
    "empty reads": (0.85, 0.05, 0.05, 0.05),
    "existing reads": (0.05, 0.85, 0.05, 0.05),
    "writes": (0.05, 0.05, 0.05, 0.85),
}
CONFIGURATIONS = ("rocksdb", "default", "nominal", "robust")
BITS = 10
VALUE_BYTES, KEY_BYTES = 1008, 16
ENTRY_BYTES = VALUE_BYTES + KEY_BYTES
SCAN_LENGTH = 4
DATA_MEMTABLES = 160  # 10 GiB / 64 MiB

# Layouts of the model with their settings in the engine, and the flushes that make a full tree (buffers_of_full_tree).
TREES = (
    ("leveling", 4, {"size_ratio": 4}, "leveling", (), 4 + 16 + 64),
    ("leveling", 10, {"size_ratio": 10}, "leveling", (), 10 + 100),
    ("one_leveling", 6, {"size_ratio": 6, "level0_runs": 4}, "one_leveling", ("--level0-runs", 4), 3 + 6 + 36 + 216),
    ("klsm", 6, {"size_ratio": 6, "runs": 1}, "klsm", ("--runs", "1"), 6**3 - 1),
    ("klsm", 6, {"size_ratio": 6, "runs": 2}, "klsm", ("--runs", "2"), 6**3 - 1),
    ("tiering", 4, {"size_ratio": 4}, "tiering", (), 4**4 - 1),
    ("tiering", 10, {"size_ratio": 10}, "tiering", (), 10**2 - 1),
    ("lazy_leveling", 4, {"size_ratio": 4}, "lazy_leveling", (), 4**4 - 1),
    ("lazy_leveling", 6, {"size_ratio": 6}, "lazy_leveling", (), 6**3 - 1),
)
MODEL_VALUE_BYTES = 240


def parse_arguments():
    parser = argparse.ArgumentParser(prog="./dev bench tuning", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small sizes, to check that everything works: the figures mean nothing")
    parser.add_argument("--only", choices=("drift", "model"), help="one of the two parts")
    parser.add_argument("--entries", type=report.count, help="entries of 1 KiB before the sessions (default 200k)")
    parser.add_argument("--operations", type=report.count, help="operations of a session (default 20k)")
    parser.add_argument("--resume", action="store_true", help="continue an interrupted run: what its file has is not measured again")
    parser.add_argument("--json", default=str(report.ROOT / "build/bench/tuning.json"), help="file for the figures; plots go beside it")
    options = parser.parse_args()
    options.full = False
    default = report.defaults_by_size(options)
    default("entries", 20_000, 200_000, None)
    default("operations", 2_000, 20_000, None)
    return options


def tune(command, *arguments):
    """Runs ebbtide-tune and returns its JSON."""
    line = [str(binary("ebbtide-tune")), command, "--filter-curve", "engine", *map(str, arguments), "--format", "json"]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(line)}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def shares(mix):
    return ",".join(f"{share:g}" for share in mix)


def divergence(mix, expected):
    return sum(share * math.log(share / other) for share, other in zip(mix, expected) if share > 0)


def sequence(name, expected):
    """Returns the sessions of a sequence, by name."""
    if name == "drift":
        return {**SESSIONS, "expected": expected}
    steady = {"expected": expected}
    for at, kind in enumerate(KINDS):
        mix = tuple(0.95 * share + (0.05 if i == at else 0) for i, share in enumerate(expected))
        assert divergence(mix, expected) < 0.2
        steady[f"more {kind.replace('_', ' ')}s"] = mix
    return steady


def mean_cost(mix, costs):
    return sum(share * costs[kind] for share, kind in zip(mix, KINDS))


# --- drift


def data_flags(options):
    memory = options.entries * BITS // 8 + options.entries * ENTRY_BYTES // DATA_MEMTABLES
    return ("--entries", options.entries, "--entry-size", ENTRY_BYTES, "--memory", memory, "--range-selectivity", f"{SCAN_LENGTH / options.entries:.3g}")


def setup_of(configuration, options, expected, rho):
    """Returns the flags of bench_tuning for a configuration, and the predicted costs by kind; None for RocksDB."""
    memtable = max(options.entries * ENTRY_BYTES // DATA_MEMTABLES, 64 << 10)
    if configuration == "rocksdb":
        return {"engine": "rocksdb", "memtable": memtable, "bits": BITS, "level1_memtables": 4}, None
    if configuration == "default":
        found = tune("explain", *data_flags(options), "--workload", shares(expected), "--layout", "one_leveling", "--size-ratio", 6, "--buffer", memtable)
    else:
        found = tune("advise", *data_flags(options), "--workload", shares(expected), "--rho", rho if configuration == "robust" else 0,
                     "--max-transient-space", 1.5, "--smallest-buffer", "64KiB")  # fmt: skip
    engine = found["engine"]
    report.progress(f"{configuration}: {engine['policy']}, {engine['parameters']}, memtable {report.human(engine['memtable_bytes'])}, {engine['bits_per_key']:.2f} bits")
    settings = [f"{name}={value:g}" for name, value in engine["parameters"].items()]
    return {"policy": engine["policy"], "set": ",".join(settings), "memtable": engine["memtable_bytes"], "bits": round(engine["bits_per_key"], 2), "measured": True}, found["cost"]


def drift(options, result):
    totals = {}
    for workload, expected in EXPECTED.items():
        sessions = {name: sequence(name, expected) for name in ("drift", "steady")}
        rho = round(statistics.mean(divergence(mix, expected) for mix in sessions["drift"].values()), 2)
        for name, mixes in sessions.items():
            for configuration in CONFIGURATIONS:
                setup, costs = setup_of(configuration, options, expected, rho)
                words = [word for session, mix in mixes.items() for word in ("--session", f"{session}:{shares(mix)}")]
                found = programs.figures("tuning", f"{workload}, {name}, {configuration}", entries=options.entries, operations=options.operations,
                                         value_bytes=VALUE_BYTES, scan_length=SCAN_LENGTH, **setup, session=words[1:])  # fmt: skip
                for one in found[1:]:
                    predicted = mean_cost(mixes[one["session"]], costs) if costs else None
                    result.add(part="drift", workload=workload, sequence=name, configuration=configuration, rho=rho, predicted=predicted, **one)
                totals[workload, name, configuration] = found[1:]
            show_sessions(workload, name, rho, mixes, totals, result)
    yield from drift_headlines(totals)


def mean_of(sessions, field):
    return statistics.mean(one[field] for one in sessions)


def rate_of(sessions):
    """Returns the operations a second over all sessions, which have as many operations."""
    return statistics.harmonic_mean([one["per_second"] for one in sessions])


def show_sessions(workload, name, rho, mixes, totals, result):
    rows = []
    for at, session in enumerate([*mixes, "all"]):
        row = [session]
        for field, form in (("pages", ",.2f"), ("mean_us", ",.0f")):
            for configuration in CONFIGURATIONS:
                sessions = totals[workload, name, configuration]
                row.append(report.cell(mean_of(sessions, field) if session == "all" else sessions[at][field], form))
        rows.append(row)
    rates = ", ".join(f"{configuration} {rate_of(totals[workload, name, configuration]):,.0f}" for configuration in CONFIGURATIONS)
    heading = ["", *(f"{configuration}, pages" for configuration in CONFIGURATIONS), *(f"{configuration}, us" for configuration in CONFIGURATIONS)]
    print(f"\n{workload}, {name}, rho = {rho}: pages and time of an operation\n\n{report.table(rows, heading)}\n\noperations a second: {rates}\n")
    panels = [plots.Panel(label, ticks=dict(enumerate(mixes)), lines={
        configuration: [(at, one[field]) for at, one in enumerate(totals[workload, name, configuration])] for configuration in CONFIGURATIONS})
        for field, label in (("pages", "pages an operation"), ("mean_us", "us an operation"))]  # fmt: skip
    plots.draw(result.path.with_name(f"{result.path.stem}-{workload}-{name}"), f"{workload}, {name}: sessions of Endure's section 9", "session", panels)


def drift_headlines(totals):
    for workload in EXPECTED:
        nominal, robust = totals[workload, "drift", "nominal"], totals[workload, "drift", "robust"]
        best = max(1 - ours["mean_us"] / theirs["mean_us"] for ours, theirs in zip(robust, nominal))
        yield judged(f"{workload}, drift: robust / nominal: time less, at most in a session", "9.3, up to 90 %", 0.9, best, best >= 0.85, "")
        best = max(1 - ours["pages"] / theirs["pages"] for ours, theirs in zip(robust, nominal))
        yield judged(f"{workload}, drift: robust / nominal: pages less, at most in a session", "9.3, up to 90 %", 0.9, best, best >= 0.85, "")
        gain = rate_of(robust) / rate_of(nominal)
        yield judged(f"{workload}, drift: robust / nominal: operations a second", "abstract, up to 2.4", 2.4, gain, gain >= 1, "the nominal tuning is the better one here")
        loss = 1 - rate_of(totals[workload, "steady", "robust"]) / rate_of(totals[workload, "steady", "nominal"])
        yield judged(f"{workload}, steady: robust / nominal: operations a second lost", "9.3, 20 %", 0.2, loss, loss <= 0.2, "")
        gain = rate_of(robust) / rate_of(totals[workload, "drift", "default"])
        yield judged(f"{workload}, drift: robust / Ebbtide's default: operations a second", "-", None, gain, gain >= 1, "see the sessions")
        gain = rate_of(robust) / rate_of(totals[workload, "drift", "rocksdb"])
        yield judged(f"{workload}, drift: robust / RocksDB's default: operations a second", "9.3", None, gain, gain >= 1, "see the sessions")


# --- model


def memory_dir():
    """Returns a directory in memory for the trees of the model; None, which stands for the usual one, if there is none."""
    return f"/dev/shm/ebbtide-bench-tuning-{os.getpid()}" if os.access("/dev/shm", os.W_OK) else None


def model(options, result):
    memtable = (64 if options.quick else 256) << 10
    rows, errors, by_session = [], [], {name: [] for name in SESSIONS}
    for layout, ratio, settings, policy, flags, flushes in TREES:
        reads = [word for at, kind in enumerate(KINDS[:3]) for word in ("--session", f"{kind}:{shares([float(at == i) for i in range(4)])}")]
        name = f"{layout}, T = {ratio}" + (f", K = {settings['runs']}" if "runs" in settings else "")
        found = programs.figures("tuning", f"model: {name}", policy=policy, set=",".join(f"{key}={value}" for key, value in settings.items()), memtable=memtable,
                                 bits=5, flushes=flushes, operations=options.operations, value_bytes=MODEL_VALUE_BYTES, scan_length=1, buffered=True, dir=memory_dir(), session=reads[1:])  # fmt: skip
        load, measured = found[0], {one["session"]: one["pages"] for one in found[1:]}
        measured["write"] = load["write_pages"]
        entries, entry = load["entries"], MODEL_VALUE_BYTES + KEY_BYTES
        buffer = math.ceil(entries * entry / flushes * 1.001)  # a little less data than a full tree, not a level more
        explained = tune("explain", "--entries", entries, "--entry-size", entry, "--memory", int(buffer + load["filter_bits"] * entries / 8), "--buffer", buffer,
                         "--workload", "1,0,0,0", "--layout", layout, "--size-ratio", ratio, *flags)  # fmt: skip
        predicted = explained["cost"]
        for kind in KINDS:
            result.add(part="model", tree=name, kind=kind, predicted=predicted[kind], measured=measured[kind], levels=load["levels"])
        for session, mix in SESSIONS.items():
            pair = mean_cost(mix, predicted), mean_cost(mix, measured)
            by_session[session].append(pair)
            errors.append(abs(pair[1] / pair[0] - 1))
            result.add(part="model", tree=name, session=session, predicted=pair[0], measured=pair[1])
        rows.append([name, *(cell for kind in KINDS for cell in (report.cell(predicted[kind], ",.3f"), report.cell(measured[kind], ",.3f")))])
    print("\nPages of an operation, predicted and measured, of full trees\n")
    print(report.table(rows, ["", *(text for kind in KINDS for text in (kind.replace("_", " "), "measured"))]))
    error = statistics.median(errors)
    yield judged(f"model / engine: median error over {len(TREES)} tunings and {len(SESSIONS)} sessions, at most 15 %", "9.3, Figs. 12 to 15", None, error, error <= 0.15, "see the table")
    agreed = [ordered_alike(pairs) for pairs in by_session.values()]
    share = sum(right for right, _ in agreed) / sum(all_of for _, all_of in agreed)
    yield judged("pairs of tunings that differ by a tenth and are ranked alike", "9.3", None, share, share >= 0.95, "see the table")


def ordered_alike(pairs):
    """Returns how many pairs of tunings have the same order in the model and on the engine, and the number of all pairs. Pairs whose
    measured costs differ by less than a tenth do not count."""
    right = all_of = 0
    for at, (predicted, measured) in enumerate(pairs):
        for other_predicted, other_measured in pairs[:at]:
            if abs(measured - other_measured) < 0.1 * max(measured, other_measured):
                continue
            all_of += 1
            right += (predicted < other_predicted) == (measured < other_measured)
    return right, all_of


def main():
    options = parse_arguments()
    result = report.Result("tuning", options.json, {"quick": options.quick, "entries": options.entries, "operations": options.operations}, rocksdb=report.package_version("librocksdb-dev"))
    if options.resume:
        result.resume()
    programs.remember(result)
    parts = {"drift": drift, "model": model}
    found = [one for name, part in parts.items() if options.only in (None, name) for one in part(options, result)]
    print()
    headlines.show(found, result)
    result.finish()


if __name__ == "__main__":
    sys.exit(main())
