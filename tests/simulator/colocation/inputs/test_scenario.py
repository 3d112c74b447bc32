# SPDX-License-Identifier: Apache-2.0
"""Scenarios as files say them: what they mean, and what is refused in one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.base.errors import KoordError
from koord.simulator.colocation.inputs import scenario_file, slo_config
from koord.simulator.colocation.workload.batch_arrivals import load_factor, offered_cores
from tests.simulator.colocation.days import day, document

SHIPPED = Path(scenario_file.__file__).parent / "mixed-day.yaml"


def test_the_reference_scenario_is_read(reference_data: Path) -> None:
    found = scenario_file.load(reference_data / "examples/scenarios/mixed-day.yaml")
    assert (found.steps, found.machines, found.cluster_cores) == (8640, 1000, 96_000)
    web, search, cache = found.services
    assert (web.request.cpu_milli, web.limit.memory_bytes) == (4000, 16 << 30)
    assert (search.qos, search.cpu_demand.bursts.per_hour) == ("LSR", 2.0)
    assert cache.memory_demand.noise.correlation_seconds == 6 * 3600
    assert found.contention.scheduling_delay.loss_at_zero == 0.2
    assert found.report.short.window_seconds == 60
    # Its batch jobs ask for a sixteenth of the cluster, less than what services leave unrequested.
    share = sum(offered_cores(kind) for kind in found.batch) / found.cluster_cores
    assert 0.05 < share < 1 - found.services_request_share


def test_the_shipped_day_differs_only_in_how_many_jobs_come(reference_data: Path) -> None:
    theirs = scenario_file.load(reference_data / "examples/scenarios/mixed-day.yaml")
    ours = scenario_file.load(SHIPPED)
    assert ours.batch_request_share == 1.0
    for name in ("nodes", "services", "batch", "contention", "hours", "step", "report"):
        assert getattr(ours, name) == getattr(theirs, name), name
    wanted = sum(offered_cores(kind) for kind in ours.batch) * load_factor(ours)
    assert wanted == pytest.approx(ours.cluster_cores)


_BAD: list[tuple[list[str | int], Any, str]] = [
    (["step"], "7s", "step: got '7s', expected a divisor of a minute"),
    (["step"], "2.5s", "step: got '2.5s', expected whole seconds"),
    (["step"], "soon", "step: got 'soon', expected a duration"),
    (["hours"], 0, "hours: got 0"),
    (["nodes", 0, "cpu"], 31, "nodes[0].cpu: got 31, expected a multiple of"),
    (["nodes", 0, "memory"], "much", "nodes[0].memory: quantity: got 'much', expected"),
    (["nodes", 0, "cpus"], 1, "nodes[0]: got 'cpus', expected a known field, such as cpu"),
    (["services", 0, "qos"], "BE", "services[0].qos: got 'BE', expected LS or LSR"),
    (["services", 0, "shareOfRequestedCPU"], 0.7, "services: got 1.1, expected"),
    (["services", 0, "limit", "cpu"], "1", "services[0].limit.cpu: got '1', expected at least"),
    (["services", 1, "limit", "cpu"], "8", "services[1].limit.cpu: got '8', expected the request"),
    (["services", 1, "name"], "web", "services[1].name: got 'web', expected each name once"),
    (["services", 0, "cpuDemand", "noise", "sigma"], -1, "services[0].cpuDemand.noise.sigma"),
    (["batch", 0, "tasks", "max"], 0, "batch[0].tasks.max: got 0"),
    (["batch", 0, "arrivalsFile"], "a.csv", "batch[0].arrivalsFile: got 'a.csv'"),
    (["report"], {"short": {"window": "90s"}}, "report.short.window: got '90s', expected"),
    (["agents"], {"featureGates": {"BEMemoryEvil": True}}, "BEMemoryEvil"),
    (["contention", "schedulingDelay", "lossAtZero"], 2, "lossAtZero: got 2"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "value", "said"), _BAD, ids=[case[2][:40] for case in _BAD])
def test_what_cannot_be_is_one_line_that_names_the_field(
    path: list[str | int], value: Any, said: str
) -> None:
    text = document()
    at: Any = text
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = value
    with pytest.raises(KoordError) as refused:
        scenario_file.decode(text, "s.yaml")
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


_JUNK = st.one_of(
    st.none(), st.booleans(), st.integers(-5, 10**19), st.floats(), st.text(max_size=5),
    st.lists(st.integers(), max_size=2), st.dictionaries(st.text(max_size=3), st.integers()),
)  # fmt: skip


def _places(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    found = [(*path, key) for key, _ in inner]
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    for key, each in inner:
        if isinstance(each, dict | list):
            found += _places(each, (*path, key))
    return found


@given(st.sampled_from(_places(document())), _JUNK)
def test_any_value_anywhere_is_read_or_refused(path: tuple[str | int, ...], junk: object) -> None:
    text = document()
    at: Any = text
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = junk
    said = ""
    try:
        found = scenario_file.decode(text, "s.yaml")
    except KoordError as error:
        said = str(error)
    else:
        assert found.steps >= 1
        assert found.cluster_cores > 0
    assert "\n" not in said


def test_fewer_machines_have_fewer_jobs() -> None:
    found = scenario_file.varied(day(), nodes=2, hours=1.0, step="20s")
    assert (found.machines, found.hours, found.step_seconds) == (2, 1.0, 20.0)
    assert found.batch[0].arrivals_per_hour == 50
    with pytest.raises(KoordError, match=r"koord simulate colocation: nodes: got '0 machines'"):
        scenario_file.varied(day(), nodes=0)


def test_settings_are_those_of_the_configmap(tmp_path: Path) -> None:
    found = slo_config.of(day())
    assert found.colocation.enable
    assert found.colocation.cpu_reclaim_threshold_percent == 60
    config = tmp_path / "settings.yaml"
    config.write_text(
        "kind: ConfigMap\ndata:\n  colocation-config: |\n"
        '    {"enable": true, "cpuReclaimThresholdPercent": 80}\n'
    )
    changed = slo_config.of(slo_config.overlaid(day(), config))
    assert changed.colocation.cpu_reclaim_threshold_percent == 80
    threshold = changed.slo.resource_used_threshold_with_be
    assert threshold is not None
    assert threshold.enable


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"colocation-config": "{}"}, "expected true"),
        ({"colocation-config": '{"enable": 3}'}, "enable"),
        ({"colocation": "{}"}, "got 'colocation', expected one of"),
    ],
)
def test_settings_that_share_nothing_are_refused(data: dict[str, str], said: str) -> None:
    with pytest.raises(KoordError, match=said):
        slo_config.of(day(sloControllerConfig=data))
