"""Draws the panels of a dashboard as an SVG picture for people, with a line for each series."""

import re
from html import escape

PANEL_WIDTH, PANEL_HEIGHT, COLUMNS, MARGIN = 420, 230, 3, 12
LEFT, RIGHT, TOP, BOTTOM = 58, 10, 30, 48
COLOURS = ("#3274d9", "#e0752d", "#299c46", "#a352cc", "#d44a3a", "#806eb7", "#c4a000", "#14867d", "#b877d9", "#5c6670")
LEGEND_ENTRIES = 8
STEPS = {"bytes": (1024, ("B", "KiB", "MiB", "GiB", "TiB")), "Bps": (1024, ("B/s", "KiB/s", "MiB/s", "GiB/s")), "short": (1000, ("", "k", "M", "G"))}


def amount(value, unit):
    """Returns a value and its unit as text: 0.25 and "percentunit" give "25 %"."""
    if unit == "percentunit":
        return f"{100 * value:.3g} %"
    if unit == "s":
        return f"{value:.3g} s" if value >= 1 or value == 0 else f"{1000 * value:.3g} ms"
    base, names = STEPS.get(unit, STEPS["short"])
    index = 0
    while abs(value) >= base and index + 1 < len(names):
        value, index = value / base, index + 1
    return f"{value:.3g} {names[index]}".strip() + ("/s" if unit == "ops" else "")


def legend(template, labels):
    return re.sub(r"\{\{(\w+)\}\}", lambda match: labels.get(match[1], ""), template) or "value"


def panel_svg(title, unit, series, start, end):
    """Returns one panel as SVG. series: (name, [(time, value)])."""
    width, height = PANEL_WIDTH - LEFT - RIGHT, PANEL_HEIGHT - TOP - BOTTOM
    most = max((value for _, points in series for _, value in points), default=0) or 1
    out = [f'<rect width="{PANEL_WIDTH}" height="{PANEL_HEIGHT}" rx="4" class="panel"/>', f'<text x="10" y="19" class="title">{escape(title)}</text>']
    for part in range(5):
        y = TOP + height * (1 - part / 4)
        out.append(f'<path d="M{LEFT} {y:.1f}h{width}" class="grid"/>')
        out.append(f'<text x="{LEFT - 5}" y="{y + 3:.1f}" class="axis" text-anchor="end">{amount(most * part / 4, unit)}</text>')
    for i, (_, points) in enumerate(series):
        path, last = [], None
        for when, value in points:
            x, y = LEFT + width * (when - start) / (end - start), TOP + height * (1 - value / most)
            path.append(f"{'M' if last is None or when - last > 3 else 'L'}{x:.1f} {y:.1f}")
            last = when
        out.append(f'<path d="{"".join(path)}" class="line" stroke="{COLOURS[i % len(COLOURS)]}"/>')
    if not any(points for _, points in series):
        out.append(f'<text x="{PANEL_WIDTH / 2}" y="{PANEL_HEIGHT / 2}" class="axis" text-anchor="middle">no data</text>')
    x, y = LEFT, PANEL_HEIGHT - BOTTOM + 18
    for i, (name, _) in enumerate(series[:LEGEND_ENTRIES]):
        needed = 22 + 6 * len(name)
        if x + needed > PANEL_WIDTH and x > LEFT:
            x, y = LEFT, y + 15
        if y > PANEL_HEIGHT - 4:
            break
        out.append(f'<path d="M{x} {y - 3}h10" class="line" stroke="{COLOURS[i % len(COLOURS)]}"/>')
        out.append(f'<text x="{x + 14}" y="{y}" class="axis">{escape(name)}</text>')
        x += needed
    return "".join(out)


def dashboard_svg(title, panels, start, end):
    """Returns the panels as one SVG picture. panels: (title, unit, series) of each panel."""
    rows = -(-len(panels) // COLUMNS)
    width = COLUMNS * (PANEL_WIDTH + MARGIN) + MARGIN
    height = rows * (PANEL_HEIGHT + MARGIN) + MARGIN + 34
    style = (
        "text{font-family:sans-serif;fill:#333}.title{font-size:13px;font-weight:bold}.axis{font-size:10px;fill:#666}"
        ".panel{fill:#fff;stroke:#ccc}.grid{stroke:#e5e5e5}.line{fill:none;stroke-width:1.5}"
    )
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}"><style>{style}</style>',
        f'<rect width="{width}" height="{height}" fill="#f4f5f5"/><text x="{MARGIN}" y="28" font-size="18" font-weight="bold">{escape(title)}</text>',
    ]
    for i, (name, unit, series) in enumerate(panels):
        x = MARGIN + i % COLUMNS * (PANEL_WIDTH + MARGIN)
        y = 34 + MARGIN + i // COLUMNS * (PANEL_HEIGHT + MARGIN)
        out.append(f'<g transform="translate({x} {y})">{panel_svg(name, unit, series, start, end)}</g>')
    return "".join(out) + "</svg>\n"
