# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from koord.agent.feature_gates import feature_gates
from koord.agent.hooks.base_hook import BaseHook
from koord.agent.hooks.hook import Hook, HookStage
from koord.agent.hooks.registry import BUILTIN, GROUP, load
from koord.base.errors import KoordError
from tests.agent.hooks.build import options

HERE = "tests.agent.hooks.test_registry"
ROOT = Path(__file__).resolve().parents[3]


class Mine(BaseHook):
    name = "Mine"

    def __init__(self, options: object) -> None:
        pass


class Twin(Mine):
    name = "GroupIdentity"


class OddGate(Mine):
    gate = "NoSuchGate"


def broken(options: object) -> object:
    return object()


NUMBER = 5


def test_gates_decide_and_names_order() -> None:
    gates = feature_gates()
    hooks = load(options(gate=gates.enabled), [])
    assert [hook.name for hook in hooks] == ["BatchResource", "CPUSetAllocator", "GroupIdentity"]
    hooks = load(options(gate=lambda name: True), [])
    assert [hook.name for hook in hooks] == [
        "BatchResource", "CPUNormalization", "CPUSetAllocator", "CoreSched", "GroupIdentity",
        "OOMScoreAdj", "Resctrl", "TCNetworkQoS", "TerwayQoS", "gpu env inject",
        "rdma device inject",
    ]  # fmt: skip


@pytest.mark.parametrize("name", sorted(BUILTIN))
def test_every_hook_is_one(name: str) -> None:
    hook: Hook = BUILTIN[name](options())
    assert all(isinstance(stage, HookStage) for stage in hook.stages)
    feature_gates().enabled(hook.gate)


def test_the_projects_entry_points_are_the_table() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found = {
        name: EntryPoint(name, value, GROUP).load()
        for name, value in project["entry-points"][GROUP].items()
    }
    assert found == BUILTIN


def test_a_package_may_bring_a_hook() -> None:
    points = [EntryPoint("mine", f"{HERE}:Mine", GROUP)]
    assert "Mine" in [hook.name for hook in load(options(), points)]


@pytest.mark.parametrize("target", ["Twin", "OddGate", "broken", "NUMBER", "Missing"])
def test_a_bad_hook_is_one_line(target: str) -> None:
    points = [EntryPoint("theirs", f"{HERE}:{target}", GROUP)]
    more: dict[str, Any] = {"gate": feature_gates().enabled}
    with pytest.raises(KoordError) as caught:
        load(options(**more), points)
    assert "\n" not in str(caught.value)
