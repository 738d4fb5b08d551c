"""Chapter 4 of Mao's thesis: an LSM index of places, by merge policy and order of keys, beside SQLite's R*Tree."""

import random
import sqlite3
import subprocess
import shutil
import time
from pathlib import Path

from common import plots, programs, report, servers
from common.headlines import judged
from support.server import binary

POLICIES = {
    "binomial, k = 4": ("binomial", {"k": 4}), "binomial, k = 10": ("binomial", {"k": 10}), "tiering, T = 4": ("tiering", {"size_ratio": 4}),
    "tiering, T = 10": ("tiering", {"size_ratio": 10}), "concurrent": ("concurrent", {}), "leveled, 2 and 10": ("one_leveling", {"level0_runs": 2, "size_ratio": 10}),
}  # fmt: skip
STACKS = [name for name in POLICIES if not name.startswith("leveled")]
LEVELED = "leveled, 2 and 10"
ORDERS = ("hilbert", "simple")
VARIANTS = [(name, order) for name in POLICIES for order in ORDERS]
VARIANTS.insert(1, ("binomial, k = 4", "zorder"))
DATA = ("uniform", "clustered")
SQLITE_PLACES = 2_000_000
SIZES = {"large": 3, "small": 5}  # boxes of 360 * 10^-sigma degrees by half of that


def run(options, result):
    places = report.sized(options, quick=20_000, default=1_000_000, full=100_000_000)
    searches = report.sized(options, quick=100, default=2_000, full=10_000)
    flushes = report.sized(options, quick=100, default=1_200, full=1_200)
    found = {}
    for data in DATA:
        for name, order in VARIANTS:
            policy, parameters = POLICIES[name]
            settings = ",".join(f"{key}={value}" for key, value in parameters.items()) or None
            (figure,) = programs.figures("places", f"4: {name}, {order}, {data}", policy=policy, set=settings, order=order, data=data, places=places,
                                         flushes=flushes, searches=searches)  # fmt: skip
            result.add(part="4", policy=name, order=order, data=data, **figure)
            found[data, name, order] = figure
        found[data, "sqlite"] = rtree(data, places, flushes, searches)
        result.add(part="4", policy="sqlite", data=data, **found[data, "sqlite"])
        show(data, places, found)
    draw(found, result)
    yield from findings(found)


# --- SQLite


def dump(data, count):
    """Returns the first places of a data set, as the other program makes them."""
    line = [str(binary("bench_places")), "--data", data, "--dump", str(count)]
    printed = subprocess.run(line, stdout=subprocess.PIPE, text=True, check=True).stdout
    return [tuple(map(float, text.split())) for text in printed.splitlines()]


def rtree(data, places, flushes, searches):
    """Measures SQLite's R*Tree with the same places, but at most SQLITE_PLACES: one transaction per flush of the others, without
    syncs. All searches come after all inserts."""
    ticker = report.Ticker(f"4: SQLite, {data}")
    batch = max(places // flushes, 1)
    places = min(places, SQLITE_PLACES)
    points = dump(data, places)
    pick = random.Random(7)
    folder = servers.data_folder("ebbtide-bench-places-")
    try:
        base = sqlite3.connect(Path(folder) / "places.db", isolation_level=None)
        base.execute("PRAGMA synchronous = OFF")
        base.execute("CREATE VIRTUAL TABLE places USING rtree(id, west, east, south, north)")
        start = time.monotonic()
        for at in range(0, places, batch):
            base.execute("BEGIN")
            base.executemany("INSERT INTO places VALUES (?, ?, ?, ?, ?)", ((at + i, lon, lon, lat, lat) for i, (lon, lat) in enumerate(points[at : at + batch])))
            base.execute("COMMIT")
            ticker.tick(f"{at:,} places")
        figure = {"total": places, "inserts_per_second": places / (time.monotonic() - start)}
        for size, sigma in SIZES.items():
            width = 360 / 10**sigma
            start, seen = time.monotonic(), 0
            for _ in range(searches):
                lon, lat = points[pick.randrange(places)]
                west, south = lon - width / 2, lat - width / 4
                (count,) = base.execute("SELECT count(*) FROM places WHERE west >= ? AND east <= ? AND south >= ? AND north <= ?",
                                        (west, west + width, south, south + width / 2)).fetchone()  # fmt: skip
                seen += count
            figure[size] = {"places": seen / searches, "us": (time.monotonic() - start) / searches * 1e6}
        base.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    ticker.done()
    return figure


# --- results


def show(data, places, found):
    rows = []
    for name, order in VARIANTS:
        one = found[data, name, order]
        rows.append([name, order, f"{one['write_amplification']:.2f}", f"{one['bytes_an_entry']:.0f}", f"{one['inserts_per_second']:,.0f}", one["runs"],
                     *(cell for size in SIZES for cell in (f"{one[size]['pages']:.1f}", f"{one[size]['us']:,.0f}"))])  # fmt: skip
    sqlite = found[data, "sqlite"]
    rows.append([f"SQLite's R*Tree, {sqlite['total']:,} places", "", "", "", f"{sqlite['inserts_per_second']:,.0f}", "", *(cell for size in SIZES for cell in ("", f"{sqlite[size]['us']:,.0f}"))])
    one = found[data, STACKS[0], "hilbert"]
    print(f"\nSection 4.4: {places:,} places, {data}; a search finds {one['large']['places']:,.0f} and {one['small']['places']:,.1f} places\n")
    print(report.table(rows, ["", "order", "write amp.", "bytes", "inserts/s", "runs", "1e-3: pages", "us", "1e-5: pages", "us"]))


def draw(found, result):
    panels = []
    for data in DATA:
        for size, sigma in SIZES.items():
            lines = {order: [(at, found[data, name, order][size]["pages"]) for at, name in enumerate(POLICIES)] for order in ORDERS}
            panels.append(plots.Panel(f"{data}, 1e-{sigma}: pages", lines=lines, joined=False, ticks=dict(enumerate(POLICIES))))
    plots.draw(result.path.with_name(f"{result.path.stem}-4"), "Mao, Figures 4.8 and 4.9: pages of a search for places", "", panels)


def findings(found):
    """Yields the thesis' findings of section 4.4 and 4.5, and the targets beside SQLite."""
    spread = 0
    for name in STACKS:
        amplifications = [found[data, name, order]["write_amplification"] for data in DATA for order in ORDERS]
        spread = max(spread, max(amplifications) / min(amplifications) - 1)
    yield judged("stacks: write amplification by data and order, largest difference", "4.4.4: none", None, spread, spread <= 0.05, "")
    for data in DATA:
        stacks = max(found[data, name, "hilbert"]["write_amplification"] for name in STACKS)
        ours = found[data, LEVELED, "hilbert"]["write_amplification"] / stacks
        yield judged(f"{data}: write amplification, leveled / the worst stack", "4.4.4: much higher", None, ours, ours > 1.5, "higher, but not much")
    for data in DATA:
        best = min(POLICIES, key=lambda name: found[data, name, "hilbert"]["large"]["us"])
        yield judged(f"{data}, 1e-3: time of binomial, k = 4 / of the fastest ({best})", "4.5: the best reads", 1,
                     found[data, "binomial, k = 4", "hilbert"]["large"]["us"] / found[data, best, "hilbert"]["large"]["us"],
                     best.startswith("binomial"), f"{best} is faster")  # fmt: skip
        ours = found[data, LEVELED, "hilbert"]["small"]["pages"] / min(found[data, name, "hilbert"]["small"]["pages"] for name in STACKS)
        yield judged(f"{data}, 1e-5: pages, leveled / the best stack", "4.4.5: very competitive", None, ours, ours <= 1.5, "")
    for data in DATA:
        for size, sigma in SIZES.items():
            ratios = [found[data, name, "hilbert"][size]["us"] / found[data, name, "simple"][size]["us"] for name in POLICIES]
            if size == "large":
                yield judged(f"{data}, 1e-{sigma}: time of hilbert / simple, largest of all policies", "4.4.5: Hilbert faster", None, max(ratios), max(ratios) < 1, "")
            else:
                yield judged(f"{data}, 1e-{sigma}: time of hilbert / simple, smallest of all policies", "4.4.5: Simple faster", None, min(ratios), min(ratios) > 1, "")
    for data in DATA:
        ours, sqlite = found[data, "binomial, k = 4", "hilbert"], found[data, "sqlite"]
        gain = ours["inserts_per_second"] / sqlite["inserts_per_second"]
        yield judged(f"{data}: inserts a second / SQLite's R*Tree", "-", 5, gain, gain >= 5, "")
        for size, sigma in SIZES.items():
            gain = sqlite[size]["us"] / ours[size]["us"]
            yield judged(f"{data}, 1e-{sigma}: searches a second / SQLite's R*Tree", "-", 2, gain, gain >= 2, "")
