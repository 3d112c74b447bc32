# SPDX-License-Identifier: Apache-2.0
"""The plugin in ``examples/scheduler-plugin``: found by its entry point, configured, asked."""

from __future__ import annotations

import re
import sys
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from koord.controllers.cluster.node_table import NodeTable
from koord.controllers.scheduler.config.load import decode
from koord.controllers.scheduler.decision.decider import Decider
from koord.controllers.scheduler.framework.accounts import Accounts
from koord.controllers.scheduler.framework.profile_plugins import ProfilePlugins
from koord.controllers.scheduler.registry import GROUP, Registry
from tests.controllers.scheduler.config.plugins import registry
from tests.controllers.scheduler.pods import info, node, pod
from tests.outcomes import refusal

EXAMPLE = Path(__file__).resolve().parents[3] / "examples/scheduler-plugin"
NAME = "TargetUtilization"


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> Registry:
    """koord's plugins, and what the example's pyproject.toml adds to them."""
    monkeypatch.syspath_prepend(EXAMPLE)
    monkeypatch.delitem(sys.modules, "koord_target_utilization", raising=False)
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    outside = project["entry-points"][GROUP]
    entries = [EntryPoint(name, value, GROUP) for name, value in outside.items()]
    return registry(*(Registry(entries).plugin(entry.name) for entry in entries))


def configuration() -> Any:
    """The document that its README shows."""
    shown = re.search(r"```yaml[^\n]*\n(.*?)```", (EXAMPLE / "README.md").read_text(), re.DOTALL)
    assert shown is not None
    return yaml.safe_load(shown[1])


def test_it_is_enabled_weighed_and_configured(found: Registry) -> None:
    profile = decode(configuration(), "README.md", found).profiles[0]
    assert profile.at("score")[-1] == NAME
    assert profile.weight(NAME) == 5
    assert profile.args[NAME].target_percent == 60


def test_wrong_arguments_are_refused(found: Registry) -> None:
    document = configuration()
    document["profiles"][0]["pluginConfig"][0]["args"] = {"targetPercnt": 60}
    assert "such as targetPercent" in refusal(decode, document, "README.md", found)


def test_it_packs_up_to_the_target_and_spreads_beyond(found: Registry) -> None:
    args = found.plugin(NAME).args_type(target_percent=60)  # type: ignore[misc]
    table = NodeTable()
    handle: Any = SimpleNamespace(table=table)
    plugin = found.make(NAME, args, handle)
    for name in ("empty", "half", "full"):
        table.put(node(name, cpu="10"))
    accounts = Accounts(table)
    for name, cpu in (("half", "5"), ("full", "9")):
        row = table.row(name)
        assert row is not None
        accounts.add(row, info(pod(f"on-{name}", cpu=cpu)))
    decider = Decider(table, accounts, ProfilePlugins(score=[(plugin, 1)]))

    def chosen(cpu: str) -> str:
        return table.name(decider.decide(info(pod(f"asks-{cpu}", cpu=cpu))).row)

    # Half full and one core more is 60 %; four more are 90 %, and the empty node then has 40 %.
    assert (chosen("1"), chosen("4")) == ("half", "empty")
    # What full nodes get is never below 0.
    cycle: Any = SimpleNamespace(table=table, shape=SimpleNamespace(request={"cpu": 5000}))
    scores = plugin.score(cycle, slice(0, 3))  # type: ignore[attr-defined]
    assert scores.tolist() == [60 + 40 * 50 // 60, 0, 0]
