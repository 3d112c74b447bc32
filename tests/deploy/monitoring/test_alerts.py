# SPDX-License-Identifier: Apache-2.0
"""The alerts by promtool: each fires where it should, and stays quiet where it should."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.ci import missing
from tests.deploy.chart_files import ROOT
from tests.deploy.monitoring.alert_files import promtool_tests, rules
from tests.deploy.monitoring.alerts import ALERTS
from tests.deploy.monitoring.monitoring_files import RULES
from tests.deploy.monitoring.prometheus import MissingPrometheusError, find, promtool

pytestmark = pytest.mark.real


@pytest.fixture(autouse=True)
def has_promtool() -> None:
    try:
        find("promtool")
    except MissingPrometheusError as error:
        missing(error)


def test_rules_are_tried(tmp_path: Path) -> None:
    said = promtool("check", "rules", str(ROOT / RULES), where=tmp_path)
    assert f"{len(ALERTS)} rules found" in said
    tests = promtool_tests(str(ROOT / RULES))
    (tmp_path / "tests.yaml").write_text(yaml.safe_dump(tests), encoding="utf-8")
    assert "SUCCESS" in promtool("test", "rules", "tests.yaml", where=tmp_path)


@pytest.mark.parametrize(("expression", "got"), [("vector(0) > 1", "nil"), ("vector(1)", "{} 1")])
def test_each_alert_has_a_test_that_fails_where_it_says_something_else(
    tmp_path: Path, expression: str, got: str
) -> None:
    """Rules that never fire, and rules that always do."""
    wrong = rules()
    for rule in wrong["groups"][0]["rules"]:
        rule["expr"], rule["for"] = expression, "0m"
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(wrong), encoding="utf-8")
    tests = promtool_tests("rules.yaml", step_minutes=30)
    (tmp_path / "tests.yaml").write_text(yaml.safe_dump(tests), encoding="utf-8")
    with pytest.raises(ValueError, match="FAILED") as failed:
        promtool("test", "rules", "tests.yaml", where=tmp_path)
    said = str(failed.value)
    assert said.count(f"got: {got}") == len(ALERTS)
    assert [alert.name for alert in ALERTS if f'alertname=\\"{alert.name}\\"' not in said] == []
