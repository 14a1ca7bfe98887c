"""Asks a Prometheus what the boards in boards/ ask: for the tests and draw_boards.py. Needs nothing but Python."""
import json
import pathlib
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
Labels = dict[str, str]


@dataclass(frozen=True)
class Series:
    labels: Labels
    points: list[tuple[float, float]]  # Unix seconds, value


class Prometheus:
    """A client of Prometheus' HTTP API. RuntimeError says what it did not like, OSError that it did not answer."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")

    def ask(self, path: str, **parameters: str) -> Any:
        address = f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(address, timeout=30) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            if error.code == 503:  # it starts
                raise ConnectionError(f"{self.url} is not ready") from error
            raise RuntimeError(f"{path} {parameters}: {error.read().decode(errors='replace')}") from error

    def instant(self, expr: str) -> list[Series]:
        return [Series(one["metric"], [(float(one["value"][0]), float(one["value"][1]))])
                for one in self.ask("query", query=expr)["result"]]

    def range(self, expr: str, start: float, end: float, step: float) -> list[Series]:
        answer = self.ask("query_range", query=expr, start=str(start), end=str(end), step=str(step))
        return [Series(one["metric"], [(float(at), float(value)) for at, value in one["values"]])
                for one in answer["result"]]

    def label_values(self, metric: str, label: str) -> list[str]:
        """As Grafana's label_values(), of all times."""
        return list(self.ask(f"label/{label}/values", **{"match[]": metric}))


@dataclass(frozen=True)
class Panel:
    title: str
    kind: str  # timeseries, stat
    unit: str
    stacked: bool
    lowest: float | None
    width: int  # of 24
    queries: list[tuple[str, str]]  # expression, legend


@dataclass(frozen=True)
class Variable:
    name: str
    metric: str  # label_values(metric, label)
    label: str
    several: bool


@dataclass(frozen=True)
class Board:
    uid: str
    title: str
    variables: list[Variable]
    rows: list[tuple[str, list[Panel]]]

    def panels(self) -> Iterator[Panel]:
        for _, panels in self.rows:
            yield from panels


def read_board(path: pathlib.Path) -> Board:
    board = json.loads(path.read_text())
    rows: list[tuple[str, list[Panel]]] = []
    for part in board["panels"]:
        if part["type"] == "row":
            rows.append((part["title"], []))
            continue
        defaults = part["fieldConfig"]["defaults"]
        stacking = defaults.get("custom", {}).get("stacking", {})
        rows[-1][1].append(Panel(
            part["title"], part["type"], defaults["unit"], stacking.get("mode") == "normal", defaults.get("min"),
            part["gridPos"]["w"], [(one["expr"], one["legendFormat"]) for one in part["targets"]]))
    variables = []
    for one in board["templating"]["list"]:
        if one["type"] != "query":
            continue
        found = re.fullmatch(r"label_values\((.+), (\w+)\)", one["query"]["query"])
        if found is None:
            raise ValueError(f"{path.name}: variable {one['name']} is no label_values(): {one['query']['query']}")
        variables.append(Variable(one["name"], found[1], found[2], one["includeAll"]))
    return Board(board["uid"], board["title"], variables, rows)


def read_boards() -> list[Board]:
    return [read_board(path) for path in sorted((HERE / "boards").glob("*.json"))]


def fill_in(expr: str, values: dict[str, str], rate_interval: str) -> str:
    """The expression as Grafana sends it. ValueError: a variable has no value."""
    filled = expr.replace("$__rate_interval", rate_interval)
    for name in sorted(values, key=len, reverse=True):
        filled = filled.replace(f"${name}", values[name])
    if "$" in filled:
        raise ValueError(f"a variable without a value: {filled}")
    return filled


def legend_of(legend: str, labels: Labels) -> str:
    return re.sub(r"{{\s*(\w+)\s*}}", lambda found: labels.get(found[1], ""), legend).strip()
