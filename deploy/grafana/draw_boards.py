#!/usr/bin/env python3
"""Draws the boards as pictures, one PNG each, from a Prometheus and with the boards' own queries: to look at them where no
Grafana runs. Needs matplotlib (requirements-draw.txt).

    python3 deploy/grafana/draw_boards.py --prometheus http://127.0.0.1:9090 --minutes 60 --out /tmp/boards [--set job=7]
"""
import argparse
import math
import pathlib
import sys
import time

import matplotlib

matplotlib.use("Agg")  # no display
from matplotlib import pyplot  # noqa: E402
from matplotlib.axes import Axes  # noqa: E402
from matplotlib.ticker import FuncFormatter, MultipleLocator  # noqa: E402

from board_queries import Board, Panel, Prometheus, Series, fill_in, legend_of, read_boards  # noqa: E402

POINTS = 240  # of a line
MOST_IN_LEGEND = 9


def scaled(value: float, units: str, step: float) -> str:
    size, at = abs(value), 0
    while size >= step and at < len(units) - 1:
        size, value, at = size / step, value / step, at + 1
    return f"{value:.3g} {units[at]}".strip()


def in_unit(value: float, unit: str) -> str:
    """As Grafana writes it, about."""
    if math.isnan(value):
        return "none"
    if unit == "percentunit":
        return f"{100 * value:.3g} %"
    if unit in ("bytes", "Bps"):
        size = scaled(value, " KMGTP", 1024).rstrip() + ("iB" if abs(value) >= 1024 else " B")
        return size + ("/s" if unit == "Bps" else "")
    if unit == "s":
        for seconds, name in ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"), (1e-3, "ms")):
            if abs(value) >= seconds:
                return f"{value / seconds:.3g} {name}"
        return f"{value * 1e6:.3g} µs" if value else "0 s"
    if unit == "sci":
        return f"{value:.2e}"
    suffix = {"cps": "/s", "reqps": "/s", "watt": " W", "celsius": " °C", "joule": " J"}.get(unit, "")
    return scaled(value, " KMG", 1000) + suffix


def with_gaps(points: list[tuple[float, float]], step: float) -> tuple[list[float], list[float]]:
    """Times and values, with a NaN where there was no data."""
    times: list[float] = []
    values: list[float] = []
    for at, value in points:
        if times and at - times[-1] > 1.5 * step:
            times.append(times[-1] + step)
            values.append(math.nan)
        times.append(at)
        values.append(value)
    return times, values


def draw_lines(axes: Axes, panel: Panel, found: list[tuple[str, Series]], step: float) -> None:
    found = sorted(found, key=lambda one: one[0])
    if panel.stacked:
        times: list[float] = sorted({at for _, series in found for at, _ in series.points})
        rows = [[value.get(at, 0.0) for at in times] for value in (dict(series.points) for _, series in found)]
        axes.stackplot(times, rows, labels=[name for name, _ in found], alpha=0.7)
    else:
        for name, series in found:
            at, values = with_gaps(series.points, step)
            axes.plot(at, values, label=name, linewidth=1.2, marker="." if len(at) < 3 else None)
    if panel.lowest is not None:
        highest = max((value for _, series in found for _, value in series.points if math.isfinite(value)), default=0)
        top = 1.08 * axes.get_ylim()[1] if panel.stacked else 1.1 * highest
        axes.set_ylim(panel.lowest, top if highest > panel.lowest else panel.lowest + 1)
    if panel.unit in ("bytes", "Bps"):
        low, high = axes.get_ylim()
        axes.yaxis.set_major_locator(MultipleLocator(2.0 ** math.ceil(math.log2((high - low) / 6))))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: in_unit(value, panel.unit)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda at, _: time.strftime("%H:%M:%S", time.localtime(at))))
    axes.locator_params(axis="x", nbins=4)
    axes.grid(alpha=0.3)
    handles, names = axes.get_legend_handles_labels()
    if len(names) > MOST_IN_LEGEND:
        names[MOST_IN_LEGEND - 1] = f"and {len(names) - MOST_IN_LEGEND + 1} more"
    axes.legend(handles[:MOST_IN_LEGEND], names[:MOST_IN_LEGEND], fontsize=6, ncols=3, frameon=False,
                loc="upper left", bbox_to_anchor=(0, -0.1))


def draw_stat(axes: Axes, panel: Panel, found: list[tuple[str, Series]]) -> None:
    axes.set_axis_off()
    name, series = max(found, key=lambda one: one[1].points[-1][0])
    value = series.points[-1][1]
    axes.text(0.5, 0.5, name if panel.queries[0][1].startswith("{{") else in_unit(value, panel.unit), fontsize=18,
              ha="center", va="center", color="tab:green")


def draw(board: Board, prometheus: Prometheus, values: dict[str, str], start: float, end: float, path: pathlib.Path) -> None:
    step = max(1.0, (end - start) / POINTS)
    lines: list[tuple[str, list[Panel]]] = []  # what stands beside each other, under the row's title
    for title, panels in board.rows:
        width = 24
        for panel in panels:
            if width + panel.width > 24:
                lines.append((title, []))
                width, title = 0, ""
            lines[-1][1].append(panel)
            width += panel.width
    heights = [1.0 if all(panel.kind == "stat" for panel in panels) else 2.7 for _, panels in lines]
    figure = pyplot.figure(figsize=(16, sum(heights) + 0.8), layout="constrained")
    figure.suptitle(board.title + "   " + ", ".join(f"{name}={value}" for name, value in values.items()), fontsize=13)
    parts = figure.subfigures(len(lines), 1, height_ratios=heights, squeeze=False)
    for part, (title, panels) in zip(parts[:, 0], lines, strict=True):
        if title:
            part.suptitle(title, x=0.01, ha="left", fontsize=11, fontweight="bold")
        taken = sum(panel.width for panel in panels)
        grid = part.add_gridspec(1, 24)
        at = 0
        for panel in panels:
            axes = part.add_subplot(grid[0, at:at + panel.width])
            at += panel.width
            axes.set_title(panel.title, fontsize=9)
            axes.tick_params(labelsize=6)
            found = [(legend_of(legend, series.labels) or expr, series) for expr, legend in panel.queries
                     for series in prometheus.range(fill_in(expr, values, "20s"), start, end, step)]
            if not found:
                axes.set_axis_off()
                axes.text(0.5, 0.5, "No data", ha="center", va="center", color="grey")
            else:
                if panel.kind == "stat":
                    draw_stat(axes, panel, found)
                else:
                    draw_lines(axes, panel, found, step)
                    axes.set_xlim(start, end)
        assert taken <= 24, panels
    figure.savefig(path, dpi=80)
    pyplot.close(figure)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prometheus", default="http://127.0.0.1:9090", help="default: %(default)s")
    parser.add_argument("--minutes", type=float, default=60, help="so much of the past; default: %(default)s")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("."), help="a folder; default: this one")
    parser.add_argument("--board", help="that one alone, by its uid")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE",
                        help="a variable; default: all, or the newest")
    options = parser.parse_args()
    prometheus = Prometheus(options.prometheus)
    given = dict(one.split("=", 1) for one in options.set)
    end = time.time()
    options.out.mkdir(parents=True, exist_ok=True)
    for board in read_boards():
        if options.board not in (None, board.uid):
            continue
        values: dict[str, str] = {}
        for variable in board.variables:
            known = prometheus.label_values(fill_in(variable.metric, values, "20s"), variable.label)
            newest = max(known, key=lambda one: (len(one), one), default="")
            values[variable.name] = given.get(variable.name, ".*" if variable.several else newest)
        path = options.out / f"{board.uid}.png"
        draw(board, prometheus, values, end - 60 * options.minutes, end, path)
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
