#!/usr/bin/env python3
"""Renders the chart in muster/ without Helm: what deploy/kubernetes is made by, and what the tests look at.

    render_chart.py [--release NAME] [--namespace NAME] [-f VALUES.yaml]... [--out FOLDER]

It knows the few words of Helm's language that the chart keeps to, and refuses every other one, so that it cannot quietly mean
something else than Helm does: if, else, range, end; paths from $ and from variables; quote, toYaml, toJson, nindent, not, add,
until, int, print of two texts, include of a file of templates/, sha256sum. Where Helm would print nothing for a value that is
missing, or 1e+06 for a million, it refuses as well. Values are checked by muster/values.schema.json, as Helm does.
"""
import argparse
import hashlib
import json
import pathlib
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any

import jsonschema
import yaml

CHART = pathlib.Path(__file__).resolve().parent / "muster"
# Go prints the numbers of a values file, which are floats to it, with an exponent from here on.
EXPONENT_FROM = 1_000_000
TOKEN = re.compile(r'\s*(?:("(?:[^"\\]|\\.)*")|(-?\d+)|(\$?[A-Za-z_.][\w.]*|\$[\w.]*|\.)|(:=|[|(),]))')


class ChartError(Exception):
    """The chart, or the values, cannot be rendered; the message names the file and the line."""


class Literal:
    def __init__(self, value: Any) -> None:
        self.value = value


def merge(base: Any, over: Any) -> Any:
    """As Helm lays one values file over another: maps key by key, null takes a key away, all else is replaced."""
    if not isinstance(base, dict) or not isinstance(over, dict):
        return over
    merged = {key: merge(base[key], over[key]) if key in over else base[key] for key in base}
    merged.update({key: value for key, value in over.items() if key not in base})
    return {key: value for key, value in merged.items() if value is not None}


def as_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        if abs(value) >= EXPONENT_FROM:
            raise ChartError(f"{value} would be printed with an exponent: write it as text, in quotes")
        return str(value)
    if isinstance(value, str):
        return value
    raise ChartError(f"{json.dumps(value)} cannot be printed as it is: use toYaml, toJson or quote")


def quote(value: Any) -> str:
    text = as_text(value)
    if not text.isprintable():
        raise ChartError(f"{text!r} has characters that are not printable")
    return json.dumps(text, ensure_ascii=False)


def add(*numbers: Any) -> int:
    if any(isinstance(one, bool) or not isinstance(one, int) for one in numbers):
        raise ChartError(f"add: {numbers} are no whole numbers")
    return sum(numbers)


def integer(value: Any) -> int:
    return add(value, 0)


def to_json(value: Any) -> str:
    """As Go writes it, so that checksums are equal to Helm's: without blanks, and with HTML's characters escaped."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return re.sub("[<>&\u2028\u2029]", lambda found: f"\\u{ord(found[0]):04x}", text)


def include(name: str, root: dict[str, Any]) -> str:
    path = CHART.parent / name
    if path.parent != CHART / "templates":
        raise ChartError(f"include: {name} is no file of {CHART.name}/templates")
    return Template(path.name, path.read_text()).render(root)


FUNCTIONS: dict[str, tuple[int, Callable[..., Any]]] = {
    "quote": (1, quote),
    "toYaml": (1, lambda value: yaml.safe_dump(value, default_flow_style=False, allow_unicode=True).rstrip("\n")),
    "toJson": (1, to_json),
    "print": (2, lambda first, second: as_text(first) + as_text(second)),
    "include": (2, include),
    "sha256sum": (1, lambda text: hashlib.sha256(text.encode()).hexdigest()),
    "nindent": (2, lambda width, text: "\n" + "\n".join(" " * width + line for line in text.split("\n"))),
    "not": (1, lambda value: not value),
    "add": (2, add),
    "int": (1, integer),
    "until": (1, lambda count: list(range(integer(count)))),
}


class Template:
    """One file of templates/. Go's words, of which it knows those above."""

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.parts: list[tuple[str, str, int]] = []  # text or action, what, line
        position = 0
        for found in re.finditer(r"\{\{(-?)\s?(.*?)\s?(-?)\}\}", text, re.DOTALL):
            before = text[position:found.start()]
            if self.parts and self.parts[-1][0] == "trim":
                self.parts.pop()
                before = before.lstrip()
            self.parts.append(("text", before.rstrip() if found[1] else before, 0))
            self.parts.append(("action", found[2].strip(), text.count("\n", 0, found.start()) + 1))
            if found[3]:
                self.parts.append(("trim", "", 0))
            position = found.end()
        rest = text[position:]
        if self.parts and self.parts[-1][0] == "trim":
            self.parts.pop()
            rest = rest.lstrip()
        self.parts.append(("text", rest, 0))

    def render(self, root: dict[str, Any]) -> str:
        out: list[str] = []
        end = self._run(0, {"$": root}, True, False, out)
        if end != len(self.parts):
            raise ChartError(f"{self.name}: an `end` too many")
        return "".join(out)

    def _run(self, at: int, names: dict[str, Any], live: bool, in_range: bool, out: list[str]) -> int:
        """Renders from a part on, to the `else` or `end` that belongs to what is open, or to the end of all; its number."""
        while at < len(self.parts):
            kind, text, line = self.parts[at]
            if kind == "text":
                if live:
                    out.append(text)
                at += 1
                continue
            word = text.split(maxsplit=1)[0] if text else ""
            try:
                if word in ("else", "end"):
                    return at
                if word == "if":
                    at = self._if(at, names, live, in_range, out)
                elif word == "range":
                    at = self._range(at, names, live, out)
                else:
                    if live:
                        out.append(as_text(self._evaluate(text, names, in_range)))
                    at += 1
            except ChartError as error:
                if str(error).startswith(self.name):
                    raise
                raise ChartError(f"{self.name}, line {line}: {{{{ {text} }}}}: {error}") from error
        return at

    def _expect(self, at: int, words: Sequence[str]) -> str:
        if at >= len(self.parts) or self.parts[at][1] not in words:
            raise ChartError(f"has no plain {' or '.join(words)}")
        return self.parts[at][1]

    def _if(self, at: int, names: dict[str, Any], live: bool, in_range: bool, out: list[str]) -> int:
        condition = live and bool(self._evaluate(self.parts[at][1][2:], names, in_range))
        at = self._run(at + 1, names, live and condition, in_range, out)
        if self._expect(at, ["else", "end"]) == "else":
            at = self._run(at + 1, names, live and not condition, in_range, out)
            self._expect(at, ["end"])
        return at + 1

    def _range(self, at: int, names: dict[str, Any], live: bool, out: list[str]) -> int:
        found = re.fullmatch(r"range (?:(\$\w+), )?(\$\w+) := (.+)", self.parts[at][1])
        if not found:
            raise ChartError("is none of `range $item := ...` and `range $key, $value := ...`")
        # Within an outer range a path begins with $, so that it means the same there.
        over = self._evaluate(found[3], names, len(names) > 1) if live else []
        if isinstance(over, dict):
            pairs = [(key, over[key]) for key in sorted(over)]
        elif isinstance(over, list):
            pairs = list(enumerate(over))
        else:
            raise ChartError(f"{json.dumps(over)} is neither a list nor a map")
        after = at + 1
        for key, value in pairs:
            inner = dict(names)
            inner[found[2]] = value
            if found[1]:
                inner[found[1]] = key
            after = self._run(at + 1, inner, True, True, out)
        if not pairs:
            after = self._run(at + 1, {**names, found[2]: None, found[1] or found[2]: None}, False, True, out)
        self._expect(after, ["end"])
        return after + 1

    # ---- expressions ----

    def _evaluate(self, text: str, names: dict[str, Any], in_range: bool) -> Any:
        tokens: list[Any] = []
        position = 0
        text = text.strip()
        while position < len(text):
            found = TOKEN.match(text, position)
            if not found:
                raise ChartError(f"`{text[position:]}` is not of the chart's few words")
            if found[1]:
                tokens.append(Literal(json.loads(found[1])))
            elif found[2]:
                tokens.append(Literal(int(found[2])))
            else:
                tokens.append(found[3] or found[4])
            position = found.end()
        value, rest = self._pipeline(tokens, names, in_range)
        if rest:
            raise ChartError(f"`{rest[0]}` is too much")
        return value

    def _pipeline(self, tokens: list[Any], names: dict[str, Any], in_range: bool) -> tuple[Any, list[Any]]:
        value, tokens = self._command(tokens, names, in_range, [])
        while tokens and tokens[0] == "|":
            value, tokens = self._command(tokens[1:], names, in_range, [value])
        return value, tokens

    def _command(self, tokens: list[Any], names: dict[str, Any], in_range: bool, piped: list[Any]) -> tuple[Any, list[Any]]:
        if not tokens:
            raise ChartError("a value is missing")
        first = tokens[0]
        if isinstance(first, str) and first in FUNCTIONS:
            count, function = FUNCTIONS[first]
            tokens = tokens[1:]
            given = []
            while len(given) + len(piped) < count:
                value, tokens = self._operand(tokens, names, in_range)
                given.append(value)
            return function(*given, *piped), tokens
        if piped:
            raise ChartError(f"`{first}` is no function of the chart")
        return self._operand(tokens, names, in_range)

    def _operand(self, tokens: list[Any], names: dict[str, Any], in_range: bool) -> tuple[Any, list[Any]]:
        if not tokens:
            raise ChartError("a value is missing")
        first, tokens = tokens[0], tokens[1:]
        if isinstance(first, Literal):
            return first.value, tokens
        if first == "(":
            value, tokens = self._pipeline(tokens, names, in_range)
            if not tokens or tokens[0] != ")":
                raise ChartError("a `)` is missing")
            return value, tokens[1:]
        if first.startswith("."):
            if in_range:
                raise ChartError(f"`{first}` within range means the item: write ${first}")
            first = "$" + first
        if not first.startswith("$"):
            raise ChartError(f"`{first}` is no function of the chart")
        name, *keys = first.split(".")
        if name not in names:
            raise ChartError(f"`{name}` is no variable here")
        value = names[name]
        for key in keys:
            if not isinstance(value, dict) or key not in value:
                raise ChartError(f"`{first}`: there is no `{key}`")
            value = value[key]
        return value, tokens


def load_values(files: Sequence[pathlib.Path]) -> dict[str, Any]:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    for path in files:
        values = merge(values, yaml.safe_load(path.read_text()) or {})
    schema = json.loads((CHART / "values.schema.json").read_text())
    faults = sorted(jsonschema.Draft7Validator(schema).iter_errors(values), key=lambda one: list(map(str, one.path)))
    if faults:
        raise ChartError("values: " + "; ".join(f"{'.'.join(map(str, one.path))}: {one.message}" for one in faults))
    return values


def render(release: str, namespace: str, files: Sequence[pathlib.Path] = ()) -> dict[str, str]:
    """Text by the template's name; what renders to nothing is left out."""
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    root = {"Values": load_values(files), "Release": {"Name": release, "Namespace": namespace},
            "Template": {"BasePath": f"{chart['name']}/templates"},
            "Chart": {"Name": chart["name"], "Version": chart["version"], "AppVersion": chart["appVersion"]}}
    made = {}
    for path in sorted((CHART / "templates").glob("*.yaml")):
        text = Template(path.name, path.read_text()).render(root)
        if any(document for document in yaml.safe_load_all(text)):
            made[path.name] = text.strip("\n") + "\n"
    return made


def main() -> int:
    parser = argparse.ArgumentParser(description="Renders the chart without Helm.")
    parser.add_argument("--release", default="muster")
    parser.add_argument("--namespace", default="muster")
    parser.add_argument("-f", "--values", action="append", type=pathlib.Path, default=[], help="laid over values.yaml; may be repeated")
    parser.add_argument("--out", type=pathlib.Path, help="writes a file for each template there, and removes others; else all to stdout")
    args = parser.parse_args()
    try:
        made = render(args.release, args.namespace, args.values)
    except (ChartError, yaml.YAMLError, OSError) as error:
        print(f"render_chart: {error}", file=sys.stderr)
        return 1
    if args.out is None:
        print("\n".join(f"---\n# {name}\n{text}" for name, text in made.items()))
        return 0
    head = "# Made from deploy/helm/muster by deploy/helm/render_chart.py: change it there.\n"
    for name, text in made.items():
        (args.out / name).write_text(head + text)
    for path in args.out.glob("*.yaml"):
        if path.name not in made and path.read_text().startswith(head):
            path.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
