# SPDX-License-Identifier: Apache-2.0
"""Every query of every dashboard on a real Prometheus that scrapes ten minutes of virtual load."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.deploy.monitoring.monitoring_files import DASHBOARDS
from tests.deploy.monitoring.panels import WINDOW, Dashboard
from tests.deploy.monitoring.pictures import Answer, draw, key
from tests.deploy.monitoring.prometheus import MissingPrometheusError, Prometheus, find, prometheus
from tests.deploy.monitoring.virtual_load import VirtualLoad, virtual_load

pytestmark = pytest.mark.dashboards
_NODES, _MINUTES = 4, 10
# Simulated seconds a second: with 1 it takes ten real minutes, and rates are those of real time.
_SPEED = int(os.environ.get("KOORD_DASHBOARDS_SPEED", "20"))
# A folder that keeps the pictures.
_PICTURES = os.environ.get("KOORD_DASHBOARDS_PICTURES", "")
# In simulated time that runs fast nobody waits for five seconds.
_SCRAPE_SECONDS, _WINDOW_SECONDS = (5, 20) if _SPEED == 1 else (1, 15)
_LONGEST_SECONDS = 1800.0


def test_every_query_gives_data_or_has_a_reason(tmp_path: Path) -> None:
    try:
        find("prometheus")
    except MissingPrometheusError as error:
        pytest.skip(str(error))
    with virtual_load(tmp_path, _NODES, _SPEED) as load:
        load.create_all()
        with prometheus(tmp_path, load.targets(), f"{_SCRAPE_SECONDS}s") as scraping:
            begin = time.time()
            _wait(load, 1)
            _wait(load, load.minute() + _MINUTES)
            answers = {
                key(dashboard, panel): [
                    Answer(each, _asked(scraping, dashboard, each.expression, begin))
                    for each in panel.queries
                ]
                for dashboard in DASHBOARDS
                for panel in dashboard.panels()
            }
            unreached = _never_up(scraping, set(load.targets()), begin)
    if _PICTURES:
        _draw_all(answers)
    assert unreached == set()
    silent = [
        f"{dashboard.name}: {panel.title}: {each.query.expression}"
        for dashboard in DASHBOARDS
        for panel in dashboard.panels()
        for each in answers[key(dashboard, panel)]
        if not each.finite() and not each.query.empty
    ]
    assert silent == []


def _wait(load: VirtualLoad, minute: int) -> None:
    """Waits for a minute of the simulated day."""
    end = time.monotonic() + _LONGEST_SECONDS
    while load.minute() < minute:
        assert time.monotonic() < end, "koord up stands still"
        time.sleep(1.0)


def _never_up(scraping: Prometheus, jobs: set[str], begin: float) -> set[str]:
    """Jobs that no scrape has reached; a single one may time out where the machine is loaded."""
    found = scraping.over("up == 1", begin, time.time(), 1.0)
    return jobs - {each["metric"]["job"] for each in found}


def _asked(scraping: Prometheus, dashboard: Dashboard, expression: str, begin: float) -> list[dict]:
    """What a query gives with the values that Grafana would put in."""
    filled = expression.replace(WINDOW, f"{_WINDOW_SECONDS}s")
    for name in dashboard.variables:
        filled = filled.replace(f"${name}", ".*")
    return scraping.over(filled, begin, time.time(), 1.0)


def _draw_all(answers: dict[str, list[Answer]]) -> None:
    note = "real time" if _SPEED == 1 else f"{_SPEED} simulated seconds a second"
    for dashboard in DASHBOARDS:
        draw(dashboard, answers, note, Path(_PICTURES) / f"{dashboard.name}.png")
