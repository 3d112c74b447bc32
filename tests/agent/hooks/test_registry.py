# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from koord.agent.feature_gates import feature_gates
from koord.agent.hooks.base_hook import BaseHook
from koord.agent.hooks.hook import Hook, HookStage
from koord.agent.hooks.registry import BUILTIN, GROUP, builtin, load
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


class Late(Mine):
    name = "CoreSched"


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
    hook: Hook = builtin(name)(options())
    assert (hook.name, hook.gate) == BUILTIN[name][:2]
    assert all(isinstance(stage, HookStage) for stage in hook.stages)
    feature_gates().enabled(hook.gate)


def test_the_projects_entry_points_are_the_table() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found = {
        name: EntryPoint(name, value, GROUP).load()
        for name, value in project["entry-points"][GROUP].items()
    }
    assert found == {name: builtin(name) for name in BUILTIN}


def test_a_hook_whose_gate_is_off_is_not_imported() -> None:
    code = (
        "import sys\n"
        "from koord.agent.feature_gates import feature_gates\n"
        "from koord.agent.hooks.options import HookOptions\n"
        "from koord.agent.hooks.registry import load\n"
        "load(HookOptions(gate=feature_gates().enabled, has=lambda feature: True))\n"
        "print(sorted(n for n in sys.modules if n.startswith('koord.agent.hooks.builtin.')))"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    names = ("batch_resource", "cpuset_allocator", "group_identity")
    assert told.stdout == f"{[f'koord.agent.hooks.builtin.{name}' for name in names]}\n"


def test_a_name_of_koords_own_is_taken_also_while_that_is_off() -> None:
    points = [EntryPoint("theirs", f"{HERE}:Late", GROUP)]
    with pytest.raises(KoordError, match="a name that no other hook has"):
        load(options(gate=feature_gates().enabled), points)


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
