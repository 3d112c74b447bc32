# SPDX-License-Identifier: Apache-2.0
"""The plugin in ``examples/descheduler-plugin``: found by its entry point, configured, run."""

from __future__ import annotations

import asyncio
import re
import sys
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
import yaml

from koord.base.clock import VirtualClock
from koord.base.supervision import Supervisor
from koord.controllers.descheduler.config.load import decode
from koord.controllers.descheduler.framework.registry import GROUP, PluginRegistry
from koord.controllers.descheduler.framework.round import Descheduling
from tests.controllers.descheduler.world import NOW, RecordedEvictions, cluster, node, pod
from tests.outcomes import refusal

EXAMPLE = Path(__file__).resolve().parents[3] / "examples/descheduler-plugin"
NAME = "RemoveLongRunners"
SAID = "example.com/expected-minutes"


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> PluginRegistry:
    """koord's plugins, and what the example's pyproject.toml adds to them."""
    monkeypatch.syspath_prepend(EXAMPLE)
    monkeypatch.delitem(sys.modules, "koord_remove_long_runners", raising=False)
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    outside = project["entry-points"][GROUP]
    return PluginRegistry([EntryPoint(name, value, GROUP) for name, value in outside.items()])


def configuration() -> Any:
    """The document that its README shows."""
    shown = re.search(r"```yaml[^\n]*\n(.*?)```", (EXAMPLE / "README.md").read_text(), re.DOTALL)
    assert shown is not None
    return yaml.safe_load(shown[1])


def test_it_is_enabled_and_configured(registry: PluginRegistry) -> None:
    (profile,) = decode(configuration(), "README.md", registry).profiles
    assert profile.at("deschedule") == [NAME]
    args: Any = profile.args[NAME]
    assert args.grace_minutes == 5


@pytest.mark.parametrize(
    ("args", "message"),
    [({"graceMinute": 5}, "such as graceMinutes"), ({"graceMinutes": -1}, "graceMinutes: got -1")],
)
def test_wrong_arguments_are_refused(
    registry: PluginRegistry, args: dict[str, int], message: str
) -> None:
    document = configuration()
    document["profiles"][0]["pluginConfig"][0]["args"] = args
    assert message in refusal(decode, document, "README.md", registry)


def test_pods_that_run_too_long_go(registry: PluginRegistry) -> None:
    def running(name: str, minutes: int, said: str) -> Any:
        made = pod(name, annotations={SAID: said}, age=minutes * 60)
        made.status.start_time = made.metadata.creation_timestamp
        return made

    pods = [running("long", 66, "60"), running("right", 65, "60"), running("vague", 900, "soon"),
            pod("unasked", age=90_000)]  # fmt: skip
    configured = decode(configuration(), "README.md", registry)
    evictions = RecordedEvictions()
    rounds = Descheduling(configured, evictions, VirtualClock(NOW), Supervisor("descheduler"))
    asyncio.run(rounds.run(cluster([node("n1"), node("n2")], pods)))
    assert evictions.names == ["long"]
    assert evictions.reasons == ["runs 1 minutes longer than it said"]
