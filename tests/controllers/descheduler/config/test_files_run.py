# SPDX-License-Identifier: Apache-2.0
"""Both configuration files from the file to a round: the releases' example, and every plugin."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
import yaml

from koord.base.clock import VirtualClock
from koord.base.supervision import Supervisor
from koord.controllers.descheduler.config.load import DeschedulerConfiguration, load
from koord.controllers.descheduler.framework.outcomes import RoundRecord
from koord.controllers.descheduler.framework.points import POINTS
from koord.controllers.descheduler.framework.registry import (
    BUILT_IN,
    PluginRegistry,
    points_of,
)
from koord.controllers.descheduler.framework.round import Descheduling
from tests.controllers.descheduler.config.test_configuration import MigrationController
from tests.controllers.descheduler.world import NOW, RecordedEvictions, cluster, node, pod

COPY = Path(__file__).parents[3] / "data/releases/descheduler-config.yaml"
LEVELS = [{"name": name, "nodeSelector": {"matchLabels": {"pool": name}}} for name in "ab"]
NEEDED: dict[str, Any] = {
    "CustomPriority": {"evictionOrder": LEVELS},
    "HighNodeUtilization": {"thresholds": {"cpu": 20}},
    "LowNodeUtilization": {"thresholds": {"cpu": 20}, "targetThresholds": {"cpu": 50}},
    "PodLifeTime": {"maxPodLifeTimeSeconds": 86400},
    "RemovePodsHavingTooManyRestarts": {"podRestartThreshold": 10},
    "RemovePodsViolatingNodeAffinity": {
        "nodeAffinityType": ["requiredDuringSchedulingIgnoredDuringExecution"],
    },
}
"""Arguments of plugins that have to have some."""


@pytest.fixture
def registry() -> PluginRegistry:
    """All plugins; what evicts by default takes every pod."""
    found = PluginRegistry([])
    found.register(MigrationController)
    return found


def ran(configured: DeschedulerConfiguration) -> tuple[RoundRecord, list[str]]:
    """A round over a node with a pod that is often restarted."""
    status = {"containerStatuses": [{"name": "c", "restartCount": 12}]}
    view = cluster([node("n1"), node("n2")], [pod("a", status=status), pod("b")])
    evictions = RecordedEvictions()
    rounds = Descheduling(configured, evictions, VirtualClock(NOW), Supervisor("descheduler"))
    return asyncio.run(rounds.run(view)), evictions.names


def test_the_releases_example_loads_and_a_round_runs(
    registry: PluginRegistry, reference_data: Path
) -> None:
    path = reference_data / "examples/releases/descheduler-config.yaml"
    assert path.read_text() == COPY.read_text()
    configured = load(path, registry)
    assert (configured.dry_run, configured.interval_seconds) == (True, 10)
    record, evicted = ran(configured)
    assert record.errors == []
    assert [(each.name, each.plugin, each.result) for each in record.outcomes] == [
        ("a", "RemovePodsHavingTooManyRestarts", "evicted"),
    ]
    assert evicted == []


def _strategies() -> dict[str, str]:
    """Every plugin that is a strategy, and its point."""
    registry = PluginRegistry([])
    found = {}
    for name in BUILT_IN:
        points = points_of(registry.plugin(name, "", ""))
        if not {"filter", "evict"} & set(points):
            found[name] = points[0]
    return found


@pytest.mark.parametrize("kind", ["DeschedulerConfiguration", "DeschedulerPolicy"])
def test_every_strategy_runs_from_either_file(
    registry: PluginRegistry, tmp_path: Path, kind: str
) -> None:
    strategies = _strategies()
    assert len(strategies) >= 16
    assert set(strategies.values()) == {"deschedule", "balance"} <= set(POINTS)
    is_policy = kind == "DeschedulerPolicy"
    plugins: dict[str, Any] = {
        point: {"enabled": [
            name if is_policy else {"name": name}
            for name, at in strategies.items() if at == point
        ]}
        for point in ("deschedule", "balance")
    }  # fmt: skip
    document = {
        "apiVersion": "descheduler/v1alpha2",
        "kind": kind,
        "profiles": [{
            "name": "all", "plugins": plugins,
            "pluginConfig": [{"name": name, "args": args} for name, args in NEEDED.items()],
        }],
    }  # fmt: skip
    path = tmp_path / "configuration.yaml"
    path.write_text(yaml.safe_dump(document))
    record, _ = ran(load(path, registry))
    assert record.errors == []
