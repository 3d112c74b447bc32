# SPDX-License-Identifier: Apache-2.0
"""A described dashboard as Grafana's JSON."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

from tests.deploy.monitoring.panels import Dashboard, Panel

Document = dict[str, Any]
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_WIDTH, _HEIGHT = 24, 8
_SCHEMA_VERSION = 39
_GREATEST_SHARE = 1


def document(dashboard: Dashboard) -> Document:
    """What Grafana imports."""
    return {
        "uid": dashboard.name,
        "title": dashboard.title,
        "description": dashboard.text,
        "tags": ["koord"],
        "schemaVersion": _SCHEMA_VERSION,
        "editable": True,
        "graphTooltip": 1,
        "time": {"from": "now-6h", "to": "now"},
        "refresh": "1m",
        "timezone": "browser",
        "templating": {"list": list(_variables(dashboard))},
        "annotations": {"list": []},
        "links": [_others()],
        "panels": list(_panels(dashboard)),
    }


def _others() -> Document:
    return {
        "title": "koord", "type": "dashboards", "icon": "external link", "tooltip": "", "url": "",
        "tags": ["koord"], "asDropdown": True, "targetBlank": False, "includeVars": False,
        "keepTime": True,
    }  # fmt: skip


def _variables(dashboard: Dashboard) -> Iterator[Document]:
    yield {
        "name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus",
        "hide": 0, "refresh": 1, "multi": False, "includeAll": False,
    }  # fmt: skip
    for name, series in dashboard.variables.items():
        label = "name" if name == "quota" else name
        values = f"label_values({series}, {label})"
        yield {
            "name": name, "label": name.capitalize(), "type": "query", "datasource": _SOURCE,
            "query": values, "definition": values, "hide": 0, "refresh": 2,
            "sort": 1, "multi": True, "includeAll": True, "allValue": ".*",
            "current": {"text": ["All"], "value": ["$__all"]},
        }  # fmt: skip


def _panels(dashboard: Dashboard) -> Iterator[Document]:
    numbers, y = count(1), 0
    for row in dashboard.rows:
        yield {
            "id": next(numbers), "type": "row", "title": row.title, "collapsed": False,
            "panels": [], "gridPos": {"x": 0, "y": y, "w": _WIDTH, "h": 1},
        }  # fmt: skip
        width = _WIDTH // len(row.panels)
        for place, each in enumerate(row.panels):
            grid = {"x": place * width, "y": y + 1, "w": width, "h": _HEIGHT}
            yield _panel(next(numbers), each, grid)
        y += 1 + _HEIGHT


def _panel(number: int, panel: Panel, grid: Document) -> Document:
    return {
        "id": number,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.text,
        "datasource": _SOURCE,
        "gridPos": grid,
        "targets": [
            {
                "refId": chr(ord("A") + place),
                "datasource": _SOURCE,
                "editorMode": "code",
                "expr": query.expression,
                "legendFormat": query.legend,
                "range": True,
            }
            for place, query in enumerate(panel.queries)
        ],
        "fieldConfig": {"defaults": _field(panel), "overrides": []},
        "options": {
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
            "tooltip": {"mode": "multi", "sort": "desc"},
        },
    }


def _field(panel: Panel) -> Document:
    field: Document = {
        # Grafana's word for a bare number; cores have no unit of their own there.
        "unit": "short" if panel.unit == "cores" else panel.unit,
        "min": 0,
        "custom": {
            "drawStyle": "line", "lineWidth": 1, "fillOpacity": 30 if panel.stacked else 0,
            "showPoints": "never", "spanNulls": False,
            "stacking": {"mode": "normal" if panel.stacked else "none", "group": "A"},
        },
    }  # fmt: skip
    if panel.unit == "cores":
        field["custom"]["axisLabel"] = "cores"
    if panel.unit == "percentunit":
        field["max"] = _GREATEST_SHARE
    return field
