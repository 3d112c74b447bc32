# SPDX-License-Identifier: Apache-2.0
"""docs/reference/metrics.md from the registries of all components.

``python -m tests.deploy.monitoring.metrics_page`` writes it; a test keeps it in step.
"""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.deploy.chart_files import ROOT
from tests.deploy.monitoring.component_registries import ComponentMetric, component_metrics

PAGE = ROOT / "docs" / "reference" / "metrics.md"
_HEAD = """\
# Metrics

Every series that a component of koord serves, from its registries themselves: written by
`python -m tests.deploy.monitoring.metrics_page`. Who may ask is
[one rule](scheduling.md#who-may-ask) for all; the chart's `monitorEnabled` adds ServiceMonitors,
and [dashboards and alerts](../guide-monitoring.md) read what is below.

A histogram has the series `NAME_bucket`, `NAME_sum` and `NAME_count`. Names without `koord` are
those of Koordinator, Kubernetes or controller-runtime for the same figure; some of these are gauges
that only grow, so that they keep their names.
"""
_SHARED = "All components"
_SHARED_TEXT = "What several components have in common, under one name in each."


def page(found: list[ComponentMetric]) -> str:
    """The page: what several components have first, then the rest by component and path."""
    owners: dict[str, dict[str, None]] = {}
    for each in found:
        owners.setdefault(each.metric.name, {})[each.component] = None
    shared = {name for name, components in owners.items() if len(components) > 1}
    parts = [_HEAD, f"\n## {_SHARED}\n\n{_SHARED_TEXT}\n\n", _table_head("components")]
    told: set[str] = set()
    for each in found:
        name = each.metric.name
        if name in shared and name not in told:
            told.add(name)
            parts.append(_row(each, ", ".join(owners[name])))
    own = [each for each in found if each.metric.name not in shared]
    for component, of_it in groupby(own, lambda each: each.component):
        parts.append(f"\n## {component}\n\n{_table_head('served at')}")
        parts.extend(_row(each, f"`{each.path}`") for each in of_it)
    return "".join(parts)


def _table_head(last: str) -> str:
    return f"| series | kind | labels | {last} | what it is |\n|---|---|---|---|---|\n"


def _row(each: ComponentMetric, last: str) -> str:
    name, kind, doc, labels = each.metric
    told = ", ".join(f"`{label}`" for label in labels)
    escaped = doc.replace("|", "\\|")
    return f"| `{name}` | {kind} | {told} | {last} | {escaped} |\n"


def collected() -> list[ComponentMetric]:
    """What all components declare."""
    with TemporaryDirectory() as folder:
        return list(component_metrics(Path(folder)))


if __name__ == "__main__":
    PAGE.write_text(page(collected()), encoding="utf-8")
