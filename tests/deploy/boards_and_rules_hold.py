#!/usr/bin/env python3
"""What is said in several places agrees: the boards in boards/ are what make_boards.py makes, their metrics, and those of the
rules, are Muster's (common/metrics/metric_names.h), each metric of Muster's is on a board, each alert has its page, and Grafana
finds boards and Prometheus where docs/OPERATIONS.md puts them.

Needs scripts/requirements-peer.txt (scripts/setup --tests), which has grafana-foundation-sdk.
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
from typing import Any

import yaml

from monitored_muster import ROOT

GRAFANA = ROOT / "deploy/grafana"
RULES = ROOT / "deploy/prometheus/rules"
sys.path.insert(0, str(GRAFANA))

from board_queries import fill_in, read_boards  # noqa: E402

# Prometheus' own, and node_exporter's (Debian: prometheus-node-exporter).
FOREIGN = {"up", "ALERTS", "node_filesystem_avail_bytes", "node_filesystem_size_bytes"}
# On no board of its own: `worker` and `pool` on every series of an agent say as much.
ON_NO_BOARD = {"muster_worker_info"}
WORDS = {"and", "or", "unless", "by", "on", "offset", "bool", "without"}


def muster_metrics() -> dict[str, list[str]]:
    """Labels by name."""
    text = (ROOT / "common/metrics/metric_names.h").read_text()
    found = re.findall(r'MetricDef k\w+\{"(\w+)", MetricType::\w+, \{([^}]*)\}', text)
    return {name: re.findall(r'"(\w+)"', labels) for name, labels in found}


def rule_texts(kind: str) -> dict[str, str]:
    """Expressions by the rule's name; `kind` is record or alert."""
    rules = {}
    for part in re.split(r"\n *- (?=record:|alert:)", (RULES / ("recording.yml" if kind == "record" else "alerts.yml")).read_text()):
        found = re.match(rf"{kind}: (\S+)\n +expr: ((?:>-\n)?.*?)(?=\n +(?:for|labels):|\n\n|\n *#|\Z)", part, re.DOTALL)
        if found:
            rules[found[1]] = re.sub(r"\s+", " ", found[2].removeprefix(">-")).strip()
    return rules


def without_selectors(expr: str) -> str:
    return re.sub(r"\{[^{}]*\}", "", re.sub(r"\b(by|on) \([^)]*\)", "", re.sub(r'"[^"]*"', '""', expr)))


def names_in(expr: str) -> set[str]:
    words = set(re.findall(r"(?<![\w:$\d.])[a-zA-Z_:][\w:]*(?!\w*\s*\()", re.sub(r"\[[^\]]*\]|offset \w+", "", without_selectors(expr))))
    functions = set(re.findall(r"([a-z_]+) ?\(", without_selectors(expr)))
    return words - WORDS - functions


def labels_in(expr: str) -> set[str]:
    selectors = re.findall(r"(\w+)\s*(?:=~|!=|=|!~)\s*\"", expr)
    groups = [label.strip() for group in re.findall(r"\b(?:by|on) \(([^)]*)\)", expr) for label in group.split(",")]
    return set(selectors) | {group for group in groups if group}


class BoardsAndRulesHold(unittest.TestCase):
    def setUp(self) -> None:
        self.metrics = muster_metrics()
        self.assertGreater(len(self.metrics), 80)
        self.recorded = rule_texts("record")
        self.alerts = rule_texts("alert")
        self.assertEqual(len(self.recorded), (RULES / "recording.yml").read_text().count("- record:"))
        self.assertEqual(len(self.alerts), (RULES / "alerts.yml").read_text().count("- alert:"))

    def board_queries(self) -> list[tuple[str, str]]:
        queries = []
        for board in read_boards():
            values = {one.name: ".*" for one in board.variables}
            queries += [(f"{board.uid}: {panel.title}", fill_in(expr, values, "20s"))
                        for panel in board.panels() for expr, _ in panel.queries]
            queries += [(f"{board.uid}: variable {one.name}", fill_in(one.metric, values, "20s")) for one in board.variables]
        return queries

    def test_boards_are_what_the_code_makes(self) -> None:
        made = subprocess.run([sys.executable, str(GRAFANA / "make_boards.py"), "--check"], capture_output=True, text=True,
                              check=False)
        self.assertEqual(made.returncode, 0, made.stderr)

    def test_names_and_labels_are_known(self) -> None:
        known = set(self.metrics) | set(self.recorded) | FOREIGN
        from_discovery = {"job", "instance", "worker", "pool"}
        of_foreign = {"alertstate", "alertname", "severity", "fstype", "mountpoint"}
        labels = {label for names in self.metrics.values() for label in names} | from_discovery | of_foreign
        queries = self.board_queries() + list(self.recorded.items()) + list(self.alerts.items())
        self.assertGreater(len(queries), 120)
        for where, expr in queries:
            names = names_in(expr)
            self.assertNotEqual(names, set(), where)
            self.assertEqual(names - known, set(), f"{where}: {expr}")
            self.assertEqual(labels_in(expr) - labels, set(), f"{where}: {expr}")

    def test_a_wrong_name_is_found(self) -> None:
        for expr in ("rate(muster_jbos[5m])", "sum by (worker) (muster_jbos{a=\"b\"}) / muster_jobs", "muster_jobs - muster_jbos",
                     "muster_jobs unless muster_jbos offset 5m", "max(muster_jbos) > 3"):
            self.assertIn("muster_jbos", names_in(expr), expr)
            self.assertLessEqual(names_in(expr), {"muster_jbos", "muster_jobs"}, expr)
        self.assertEqual(labels_in('sum by (a, b) (x{c="1",d=~"2"}) and on () y'), set("abcd"))

    def test_every_metric_is_on_a_board(self) -> None:
        shown = set().union(*(names_in(expr) for _, expr in self.board_queries()))
        behind = set().union(*(names_in(self.recorded[name]) for name in shown & set(self.recorded)))
        self.assertEqual(set(self.metrics) - shown - behind, ON_NO_BOARD)
        self.assertEqual(set(self.recorded) - shown - set().union(*map(names_in, self.alerts.values())), set())

    def test_variables(self) -> None:
        variables = {one.name for board in read_boards() for one in board.variables}
        self.assertLessEqual({"pool", "project", "job", "worker"}, variables)

    def test_each_alert_has_its_page_and_no_page_is_left_over(self) -> None:
        pages = re.findall(r"^### (Muster\w+)$", (ROOT / "docs/OPERATIONS.md").read_text(), re.MULTILINE)
        self.assertEqual(sorted(pages), sorted(self.alerts))
        links = re.findall(r"- alert: (\w+)\n(?:(?!- alert:).)*?runbook_url: (\S+)", (RULES / "alerts.yml").read_text(), re.DOTALL)
        self.assertEqual(dict(links), {name: f"docs/OPERATIONS.md#{name.lower()}" for name in self.alerts})

    def test_panels_say_what_they_show(self) -> None:
        for path in sorted((GRAFANA / "boards").glob("*.json")):
            board = json.loads(path.read_text())
            self.assertEqual(board["uid"], path.stem)
            titles = [panel["title"] for panel in board["panels"] if panel["type"] != "row"]
            self.assertEqual(len(titles), len(set(titles)), f"{path.name}: two panels of one title")
            for panel in board["panels"]:
                self.assertLessEqual(panel["gridPos"]["x"] + panel["gridPos"]["w"], 24, panel["title"])

    def provisioned(self, kind: str) -> dict[str, Any]:
        """The one entry of the one file of provisioning/`kind`."""
        path, = (GRAFANA / "provisioning" / kind).iterdir()
        self.assertEqual(path.suffix, ".yaml", "Grafana reads no other")
        content = yaml.safe_load(path.read_text())
        self.assertEqual(content["apiVersion"], 1)
        one, = content["providers" if kind == "dashboards" else kind]
        assert isinstance(one, dict)
        return one

    def test_the_provisioned_source_is_what_every_panel_asks(self) -> None:
        source = self.provisioned("datasources")
        self.assertEqual({key: source[key] for key in ("uid", "type", "access", "isDefault")},
                         {"uid": "muster-prometheus", "type": "prometheus", "access": "proxy", "isDefault": True})
        scrape = yaml.safe_load((ROOT / "deploy/prometheus/prometheus.yml").read_text())["global"]["scrape_interval"]
        self.assertEqual(source["jsonData"]["timeInterval"], scrape)
        for path in sorted((GRAFANA / "boards").glob("*.json")):
            board = json.loads(path.read_text())
            # The default one of its type is what the variable stands at.
            chosen, = (one for one in board["templating"]["list"] if one["type"] == "datasource")
            self.assertEqual((chosen["name"], chosen["query"]), ("datasource", source["type"]))
            asked = [one["datasource"] for panel in board["panels"] if panel["type"] != "row"
                     for one in (panel, *panel["targets"])]
            asked += [one["datasource"] for one in board["templating"]["list"] if one["type"] == "query"]
            self.assertGreater(len(asked), 20, path.name)
            for reference in asked:
                self.assertIn(reference["uid"], ("${datasource}", source["uid"]), path.name)
                self.assertEqual(reference["type"], source["type"])

    def test_the_page_puts_the_boards_where_the_provider_looks(self) -> None:
        provider = self.provisioned("dashboards")
        self.assertEqual(provider["type"], "file")
        page = (ROOT / "docs/OPERATIONS.md").read_text()
        block = re.search(r"^## Setting it up\n.*?^```\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
        assert block
        commands = "".join(line for line in block[1].splitlines(keepends=True) if not line.startswith("apt-get"))
        with tempfile.TemporaryDirectory() as root:
            # As the packages of Debian and Grafana leave them.
            for folder in ("prometheus", "grafana/provisioning/datasources", "grafana/provisioning/dashboards"):
                (pathlib.Path(root) / "etc" / folder).mkdir(parents=True)
            moved = commands.replace("/usr/share/muster", str(ROOT / "deploy")).replace(" /etc/", f" {root}/etc/")
            subprocess.run(["bash", "-euc", moved], check=True)
            boards = pathlib.Path(root + provider["options"]["path"])
            self.assertEqual({path.name for path in boards.iterdir()}, {path.name for path in (GRAFANA / "boards").iterdir()})
            for kind in ("datasources", "dashboards"):
                self.assertEqual({path.name for path in (pathlib.Path(root) / "etc/grafana/provisioning" / kind).iterdir()},
                                 {path.name for path in (GRAFANA / "provisioning" / kind).iterdir()})
            checked = subprocess.run(["promtool", "check", "config", f"{root}/etc/prometheus/prometheus.yml"], check=True,
                                     capture_output=True, text=True)
            self.assertIn("2 rule files found", checked.stdout)

    def test_pins_agree(self) -> None:
        pin = re.compile(r"^grafana-foundation-sdk==\S+$", re.MULTILINE)
        self.assertEqual(pin.findall((GRAFANA / "requirements-boards.txt").read_text()),
                         pin.findall((ROOT / "scripts/requirements-peer.txt").read_text()))


if __name__ == "__main__":
    unittest.main()
