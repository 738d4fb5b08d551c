"""The axes of growth.py that measure the engine in one process: live deletes by stamp or by key range, tables, and databases."""

import dataclasses
from collections.abc import Callable

from common import programs, report


@dataclasses.dataclass
class Axis:
    """An axis: the program that measures a point, the points, and the figures that are shown of them."""

    program: str  # bench_NAME
    counts: list
    quick_counts: list
    quick: dict  # more arguments of the program for --quick
    columns: dict  # heading: a function of the figure that returns the cell
    # A function from the figures of the smallest and the largest count to name, value, limit and unit of each target.
    targets: Callable
    arguments: dict = dataclasses.field(default_factory=dict)


def number(name, digits=1, inside=None):
    """A cell with the figure's field, or with the field of an object inside it."""
    return lambda figure: report.cell((figure if inside is None else figure[inside]).get(name), f",.{digits}f")


DELETE_COLUMNS = {
    "GET ns": number("get_ns", 0, "after"), "scan ns/entry": number("scan_entry_ns", 0, "after"), "new scan us": number("new_scan_us", 0, "after"),
    "flush ms": number("flush_ms"), "worst ms": number("flush_ms_max"), "idle cores": number("idle_cores", 3), "CPU us/delete": number("delete_us"),
    "bytes/delete": number("bytes_per_delete", 0), "open s": number("open_seconds", 2),
}  # fmt: skip


def deletes(axis):
    def targets(_, most):
        return [("GET by GET before", most["after"]["get_ns"] / most["before"]["get_ns"], 1.5, ""),
                ("flush of one key", most["flush_ms"], 100, "ms"), ("idle", most["idle_cores"], 0.05, "cores")]  # fmt: skip

    return Axis("many_deletes", [0, 1_000, 10_000, 60_000, 1_000_000], [0, 100, 1_000],
                {"entries": 10_000, "reads": 10_000, "flushes": 3, "idle": 1}, DELETE_COLUMNS, targets, {"axis": axis})  # fmt: skip


def tables():
    def targets(least, most):
        return [("CPU of a flush by that beside the fewest", most["flush_cpu_ms"] / least["flush_cpu_ms"], 3, ""),
                ("CPU of a put in order by that beside the fewest", most["put_cpu_us"] / least["put_cpu_us"], 1 / 0.7, "")]  # fmt: skip

    columns = {"puts/s": number("puts_per_second", 0), "CPU us/put": number("put_cpu_us"), "flush ms": number("flush_ms", 2),
               "flush CPU ms": number("flush_cpu_ms", 2), "idle cores": number("idle_cores", 3), "open s": number("open_seconds", 2)}  # fmt: skip
    return Axis("tables", [100, 1_000, 10_000, 100_000], [100, 1_000], {"idle": 1}, columns, targets)


def databases():
    def targets(least, most):
        return [("CPU of a PUT by that of the fewest", most["put_cpu_us"] / least["put_cpu_us"], 1.5, ""),
                ("GET by that of the fewest", most["get_ns"] / least["get_ns"], 1.5, ""), ("flush of one key", most["flush_ms"], 100, "ms"),
                ("idle", most["idle_cores"], 0.05, "cores")]  # fmt: skip

    columns = {"CPU us/put": number("put_cpu_us", 2), "GET ns": number("get_ns", 0), "flush ms": number("flush_ms", 2), "worst ms": number("flush_ms_max", 2),
               "flush CPU ms": number("flush_cpu_ms", 2), "idle cores": number("idle_cores", 3), "KiB/database": number("kib_per_database"),
               "open s": number("open_seconds", 2)}  # fmt: skip
    return Axis("databases", [1, 16, 128, 1024], [1, 16], {"entries": 20_000, "reads": 10_000, "idle": 1}, columns, targets)


AXES = {"records": deletes("records"), "tombstones": deletes("tombstones"), "tables": tables(), "databases": databases()}


def run(name, options, result):
    """Measures one axis, prints its table, and compares the largest count with the targets."""
    axis = AXES[name]
    figures = []
    for count in axis.quick_counts if options.quick else axis.counts:
        (figure,) = programs.figures(axis.program, f"{count:,} {name}", count=count, **axis.arguments, **(axis.quick if options.quick else {}))
        figures.append({**figure, "axis": name, "count": count})
        result.add(**figures[-1])
    rows = [[f"{figure['count']:,}", *(cell(figure) for cell in axis.columns.values())] for figure in figures]
    print(f"\n{name.capitalize()}:\n" + report.table(rows, ["count", *axis.columns]))
    if options.quick:
        return
    for what, value, limit, unit in axis.targets(figures[0], figures[-1]):
        result.target(f"{figures[-1]['count']:,} {name}: {what}", value, limit, unit=unit)
