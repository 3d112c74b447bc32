# SPDX-License-Identifier: Apache-2.0
"""Alerts as Prometheus' rules, as promtool's tests of these, and as a page of run-books."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.deploy.monitoring.alerts import ALERTS, Alert, Series

Document = dict[str, Any]
RUNBOOKS = "guide-runbooks.md"
_GROUP = "koord"
_MINUTES = 120
_STEP_MINUTES = 2
_HEAD = """\
# Run-books

What each of koord's alerts means, and what to do. The rules are `deploy/alerts/koord.yaml`; the
chart brings them as a PrometheusRule with `monitoring.alerts.enabled`. Written from the same
descriptions by `python -m tests.deploy.monitoring.monitoring_files`; every rule is tried
with series that make it fire and series that do not.

| alert | severity | after | says |
|---|---|---|---|
"""


def rules() -> Document:
    """The file that Prometheus loads."""
    return {"groups": [{"name": _GROUP, "rules": [_rule(alert) for alert in ALERTS]}]}


def _rule(alert: Alert) -> Document:
    return {
        "alert": alert.name,
        "expr": alert.expression,
        "for": f"{alert.minutes}m",
        "labels": {"severity": alert.severity},
        "annotations": {
            "summary": alert.summary,
            "description": alert.means,
            "runbook": f"docs/{RUNBOOKS}#{alert.name.lower()}",
        },
    }


def promtool_tests(rule_file: str, step_minutes: int = _STEP_MINUTES) -> Document:
    """Each alert with the series that make it fire, and with those that do not.

    Args:
        rule_file: where the rules are, as seen from the file of tests.
        step_minutes: how often rules are looked at.
    """
    cases = [case for alert in ALERTS for case in _cases(alert, step_minutes)]
    interval = f"{step_minutes}m"
    return {"rule_files": [rule_file], "evaluation_interval": interval, "tests": cases}


def _cases(alert: Alert, step_minutes: int) -> Iterator[Document]:
    fires = {"name": f"{alert.name} fires", "interval": "1m", "input_series": _series(alert.fires)}
    # The number of alerts that fire, whatever their labels: 1 or more at some minute.
    firing = f'count(ALERTS{{alertname="{alert.name}",alertstate="firing"}}) >= bool 1'
    ever = f"max_over_time(({firing})[{_MINUTES}m:{step_minutes}m])"
    yield fires | {"promql_expr_test": [_expression(ever, 1)]}
    yield {
        "name": f"{alert.name} stays quiet",
        "interval": "1m",
        "input_series": _series(alert.quiet),
        "promql_expr_test": [_expression(ever, None)],
    }


def _series(given: Series) -> list[Document]:
    return [{"series": name, "values": values} for name, values in given.items()]


def _expression(expression: str, value: int | None) -> Document:
    samples = [] if value is None else [{"labels": "{}", "value": value}]
    return {"expr": expression, "eval_time": f"{_MINUTES}m", "exp_samples": samples}


def runbooks() -> str:
    """The page, a section for each alert."""
    rows = "".join(
        f"| [{alert.name}](#{alert.name.lower()}) | {alert.severity} | {alert.minutes} min "
        f"| {_plain(alert.summary)} |\n"
        for alert in ALERTS
    )
    return _HEAD + rows + "".join(map(_section, ALERTS))


def _section(alert: Alert) -> str:
    look = "".join(f"- {line}\n" for line in alert.look)
    do = "".join(f"- {line}\n" for line in alert.do)
    expression = f"    {alert.expression}\n"
    return (
        f"\n## {alert.name}\n\n{alert.means}\n\n{expression}\nWhere to look:\n\n{look}"
        f"\nWhat helps:\n\n{do}"
    )


def _plain(text: str) -> str:
    """A summary with its labels as words in capitals."""
    for label in ("job", "instance", "name", "part", "kind", "webhook", "strategy", "code"):
        text = text.replace(f"{{{{ $labels.{label} }}}}", label.upper())
    return text
