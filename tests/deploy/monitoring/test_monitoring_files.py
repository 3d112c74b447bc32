# SPDX-License-Identifier: Apache-2.0
"""Dashboards, alerts and the pages about them are those of the descriptions, and make sense."""

from __future__ import annotations

import ast
import gzip
import json
import math
import re
from collections.abc import Iterator
from pathlib import Path

import jsonschema_rs
import pytest

from tests.deploy.chart_files import ROOT
from tests.deploy.monitoring.alerts import ALERTS
from tests.deploy.monitoring.grafana import document
from tests.deploy.monitoring.metrics_page import PAGE, collected, page
from tests.deploy.monitoring.monitoring_files import DASHBOARDS, contents
from tests.deploy.monitoring.pictures import with_gaps

_SCHEMA = ROOT / "tests" / "data" / "grafana" / "dashboard.jsonschema.json.gz"
# Prometheus' own, and what only the simulator has.
_OTHERS = {"up", "ALERTS", "koord_simulator_evictions"}
_SERIES = re.compile(r"\b((?:koord|scheduler|descheduler|slo_|leader_|controller_runtime)\w*)")
_PART_OF_HISTOGRAM = re.compile(r"_(?:bucket|sum|count)$")


@pytest.mark.parametrize("path", sorted(contents()), ids=str)
def test_files_are_in_step(path: Path) -> None:
    """``python -m tests.deploy.monitoring.monitoring_files`` writes them."""
    assert (ROOT / path).read_text(encoding="utf-8") == contents()[path]


def test_the_page_of_metrics_is_in_step() -> None:
    """``python -m tests.deploy.monitoring.metrics_page`` writes it."""
    found = collected()
    assert PAGE.read_text(encoding="utf-8") == page(found)
    assert [each.metric.name for each in found if len(each.metric.doc) < len("Keys added.")] == []


def test_every_metric_that_the_source_declares_is_on_the_page() -> None:
    """Of those whose name is written out: a registry that nobody constructs would miss them."""
    told = PAGE.read_text(encoding="utf-8")
    missing = {
        name
        for path in (ROOT / "src" / "koord").rglob("*.py")
        for name in _declared(path)
        if f"`{name}`" not in told and f"`{name}_total`" not in told
    }
    assert missing - _OTHERS == set()


def _declared(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not (isinstance(node, ast.Call) and node.args):
            continue
        called = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        called = node.func.id if isinstance(node.func, ast.Name) else called
        name = node.args[0]
        if called in ("counter", "gauge", "histogram", "counted") and isinstance(
            name, ast.Constant
        ):
            yield str(name.value)


def test_every_series_that_is_asked_for_exists() -> None:
    told = set(re.findall(r"^\| `(\w+)`", PAGE.read_text(encoding="utf-8"), re.MULTILINE))
    asked = [query.expression for each in DASHBOARDS for p in each.panels() for query in p.queries]
    asked += [alert.expression for alert in ALERTS]
    # What stands in quotes is a label's value, what follows `by` or `on` are labels.
    for expression in asked:
        bare = re.sub(r'"[^"]*"|(?:by|on|ignoring) \([^)]*\)', "", expression)
        for name in _SERIES.findall(bare):
            assert {name, _PART_OF_HISTOGRAM.sub("", name)} & told, (name, expression)


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda each: each.name)
def test_dashboards_are_what_grafana_publishes_as_their_schema(dashboard: object) -> None:
    schema = json.loads(gzip.decompress(_SCHEMA.read_bytes()))
    validator = jsonschema_rs.validator_for(schema)
    made = document(dashboard)  # type: ignore[arg-type]
    assert [error.message for error in validator.iter_errors(made)] == []
    # Panels may be one of several things there, so that each is held against its own.
    for panel in made["panels"]:
        name = "RowPanel" if panel["type"] == "row" else "Panel"
        one = jsonschema_rs.validator_for({**schema, "$ref": f"#/definitions/{name}"})
        assert [error.message for error in one.iter_errors(panel)] == []


def test_panels_do_not_lie_on_each_other() -> None:
    for dashboard in DASHBOARDS:
        taken: set[tuple[int, int]] = set()
        for panel in document(dashboard)["panels"]:
            grid = panel["gridPos"]
            cells = {
                (x, y)
                for x in range(grid["x"], grid["x"] + grid["w"])
                for y in range(grid["y"], grid["y"] + grid["h"])
            }
            assert not cells & taken, panel["title"]
            assert max(x for x, _ in cells) < 24
            taken |= cells


def test_every_alert_has_its_run_book() -> None:
    text = (ROOT / "docs" / "guide-runbooks.md").read_text(encoding="utf-8")
    anchors = {line[3:].lower() for line in text.splitlines() if line.startswith("## ")}
    assert anchors == {alert.name.lower() for alert in ALERTS}
    assert all(alert.look and alert.do and alert.means for alert in ALERTS)


def test_lines_of_pictures_break_where_there_were_no_points() -> None:
    times, values = with_gaps({1.0: 5.0, 2.0: 6.0, 9.0: 7.0})
    assert times == [1.0, 2.0, 9.0, 9.0]
    assert [value for value in values if not math.isnan(value)] == [5.0, 6.0, 7.0]
    assert math.isnan(values[2])
