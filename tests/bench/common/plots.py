"""Draws plots: as PNG and SVG by matplotlib where Debian's python3-matplotlib is installed, else as text."""

import math
from dataclasses import dataclass, field
from pathlib import Path

BARS = " ▁▂▃▄▅▆▇█"
TEXT_WIDTH = 72


@dataclass
class Panel:
    """One of several plots in a column: lines by name, each a list of (x, y). y = None is a gap.

    limit is the y of a dashed line. ticks, {x: text}, replaces the numbers below the axis. joined=False draws separate points,
    for discrete x.
    """

    label: str
    lines: dict = field(default_factory=dict)
    log_x: bool = False
    log_y: bool = False
    limit: float = None
    ticks: dict = None
    joined: bool = True


def draw(path, title, x_label, panels):
    """Writes PATH.png and PATH.svg, or PATH.txt, and prints their names; PATH has no suffix. Returns the written paths."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        import matplotlib
    except ImportError:
        text = f"{title}\n" + "\n".join(text_panel(panel, x_label) for panel in panels)
        written = path.with_suffix(".txt")
        written.write_text(text + "\n")
        print(f"\n{text}\nplot written to {written} (a picture needs python3-matplotlib)")
        return [str(written)]
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    height = 1 + 2.8 * len(panels)
    figure, axes = plt.subplots(len(panels), 1, figsize=(10, height), sharex=True, squeeze=False)
    x = only_x(panels)
    for panel, axis in zip(panels, axes[:, 0]):
        if x is None:
            draw_panel(panel, axis)
        else:
            draw_bars(panel, axis)
    axes[-1, 0].set_xlabel(x_label if x is None else f"{x_label}: {x:g}")
    figure.suptitle(title)
    figure.tight_layout(rect=(0, 0, 1, 1 - 0.15 / height))
    written = [path.with_suffix(suffix) for suffix in (".png", ".svg")]
    for name in written:
        figure.savefig(name, dpi=110)
    plt.close(figure)
    print(f"plot written to {written[0]} and {written[1].name}")
    return [str(name) for name in written]


def only_x(panels):
    """Returns the x that all points have; None if there are several, or no points."""
    found = {x for panel in panels for points in panel.lines.values() for x, _ in points}
    return found.pop() if len(found) == 1 else None


def draw_bars(panel, axis):
    """Draws the only point of each line as a bar with the line's name below."""
    names = [name.replace(", ", ",\n") for name in panel.lines]
    axis.bar(names, [points[0][1] if points and points[0][1] is not None else 0 for points in panel.lines.values()], width=0.6)
    if panel.log_y:
        axis.set_yscale("log")
    if panel.limit is not None:
        axis.axhline(panel.limit, linestyle="--", color="grey", linewidth=1)
    axis.set_ylabel(panel.label)
    axis.grid(True, axis="y", alpha=0.3)


def draw_panel(panel, axis):
    for name, points in panel.lines.items():
        style = {"marker": "o" if len(points) <= 40 else None, "markersize": 3, "linewidth": 1.2}
        if not panel.joined:
            style = {"marker": "o", "markersize": 7, "linestyle": "none"}
        axis.plot([x for x, _ in points], [math.nan if y is None else y for _, y in points], label=name, **style)
    if panel.log_x:
        axis.set_xscale("log")
    if panel.log_y:
        axis.set_yscale("log")
    else:
        axis.set_ylim(bottom=min([0, *(y for points in panel.lines.values() for _, y in points if y is not None)]))
    if panel.limit is not None:
        axis.axhline(panel.limit, linestyle="--", color="grey", linewidth=1)
    if panel.ticks:
        axis.set_xticks(list(panel.ticks), labels=list(panel.ticks.values()))
        axis.minorticks_off()
    axis.set_ylabel(panel.label)
    axis.grid(True, alpha=0.3)
    if panel.lines:
        axis.legend(fontsize="small")


def text_panel(panel, x_label):
    """Returns the panel as text: a row of bars per line, with its lowest and highest value."""
    width = max((len(name) for name in panel.lines), default=0)
    rows = [f"  {panel.label}, by {x_label}" + (f" (limit {panel.limit:g})" if panel.limit is not None else "")]
    known = [y for points in panel.lines.values() for _, y in points if y is not None]
    for name, points in panel.lines.items():
        ys = [y for _, y in points]
        own = [y for y in ys if y is not None]
        span = f"{min(own):,.4g} .. {max(own):,.4g}" if own else "nothing"
        rows.append(f"    {name.ljust(width)}  {bars(ys, max(known, default=0))}  {span}")
    return "\n".join(rows)


def bars(values, top):
    """Returns the values as bars of eight heights. If there are too many values, a bar shows the highest of the values that share
    it."""
    per_bar = max(1, math.ceil(len(values) / TEXT_WIDTH))
    text = ""
    for start in range(0, len(values), per_bar):
        group = [value for value in values[start : start + per_bar] if value is not None]
        if not group or top <= 0:
            text += BARS[0]
        else:
            text += BARS[max(1, min(8, math.ceil(max(group) / top * 8)))]
    return text
