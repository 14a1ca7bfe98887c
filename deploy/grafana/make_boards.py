#!/usr/bin/env python3
"""Writes the boards of board_panels.py as Grafana's JSON into boards/, or with --check says whether they are what it would
write. Needs grafana-foundation-sdk (requirements-boards.txt).

    python3 deploy/grafana/make_boards.py [--check] [--out FOLDER]
"""
import argparse
import json
import pathlib
import sys

from grafana_foundation_sdk.builders import common, dashboard, prometheus, stat, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import common as common_models
from grafana_foundation_sdk.models import dashboard as models

from board_panels import BOARDS, Board, Panel, Variable

HERE = pathlib.Path(__file__).resolve().parent
HEIGHT = {"timeseries": 8, "stat": 4}
SOURCE = "${datasource}"


def datasource() -> models.DataSourceRef:
    return models.DataSourceRef(type_val="prometheus", uid=SOURCE)


def build_variable(variable: Variable) -> dashboard.QueryVariable:
    made = (dashboard.QueryVariable(variable.name).label(variable.label)
            .query({"query": variable.query, "refId": variable.name}).datasource(datasource())
            .refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)
            .sort(models.VariableSort.NATURAL_ASC if variable.several else models.VariableSort.NATURAL_DESC))
    if variable.several:
        # ".*" also takes what has no such label yet, where Grafana's own All lists the values that it found.
        made = (made.multi(True).include_all(True).all_value(".*")
                .current(models.VariableOption(text="All", value="$__all", selected=True)))
    return made


def build_panel(panel: Panel) -> stat.Panel | timeseries.Panel:
    made: stat.Panel | timeseries.Panel
    name_says_it = panel.kind == "stat" and panel.queries[0].legend.startswith("{{")
    if panel.kind == "stat":
        made = (stat.Panel().reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
                .text_mode(common_models.BigValueTextMode.NAME if name_says_it else common_models.BigValueTextMode.VALUE)
                .graph_mode(common_models.BigValueGraphMode.NONE))
    else:
        made = (timeseries.Panel().line_width(1).fill_opacity(40 if panel.stacked else 5)
                .show_points(common_models.VisibilityMode.NEVER)
                .legend(common.VizLegendOptions().show_legend(True)
                        .display_mode(common_models.LegendDisplayMode.LIST)
                        .placement(common_models.LegendPlacement.BOTTOM))
                .tooltip(common.VizTooltipOptions().mode(common_models.TooltipDisplayMode.MULTI)
                         .sort(common_models.SortOrder.DESCENDING)))
        if panel.lowest is not None:
            made = made.min(panel.lowest)
        if panel.stacked:
            made = made.stacking(common.StackingConfig().mode(common_models.StackingMode.NORMAL).group("A"))
    made = (made.title(panel.title).description(panel.description).unit(panel.unit).datasource(datasource())
            .span(panel.width).height(HEIGHT[panel.kind]))
    for number, query in enumerate(panel.queries):
        target = (prometheus.Dataquery().expr(query.expr).legend_format(query.legend)
                  .ref_id(chr(ord("A") + number)).datasource(datasource()))
        # Over a time every state that the job was in would have a series.
        made = made.with_target(target.instant() if name_says_it else target.range())
    return made


def build_board(board: Board) -> str:
    """The board's JSON, the same for the same data."""
    made = (dashboard.Dashboard(board.title).uid(board.uid).description(board.description).tags(["muster"])
            .refresh("10s").time("now-1h", "now").timezone("browser").readonly()
            .tooltip(models.DashboardCursorSync.CROSSHAIR)
            .link(dashboard.DashboardLink("Muster").type(models.DashboardLinkType.DASHBOARDS).tags(["muster"])
                  .as_dropdown(True).keep_time(True))
            .with_variable(dashboard.DatasourceVariable("datasource").label("Prometheus").type("prometheus")))
    for variable in board.variables:
        made = made.with_variable(build_variable(variable))
    for title, panels in board.rows:
        made = made.with_row(dashboard.Row(title))
        for panel in panels:
            made = made.with_panel(build_panel(panel))
    built = made.build()
    for number, part in enumerate(built.panels or [], start=1):
        part.id_val = number
    return json.dumps(json.loads(JSONEncoder(sort_keys=True).encode(built)), indent=1, sort_keys=True) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; 1 when a file is not what would be written")
    parser.add_argument("--out", type=pathlib.Path, default=HERE / "boards", help="default: boards/ beside this program")
    options = parser.parse_args()
    differ = []
    for board in BOARDS:
        path = options.out / f"{board.uid}.json"
        text = build_board(board)
        if not path.exists() or path.read_text() != text:
            differ.append(path.name)
            if not options.check:
                path.write_text(text)
    if options.check and differ:
        print(f"make_boards: not what board_panels.py says: {', '.join(differ)}; run {sys.argv[0]}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
