# SPDX-License-Identifier: Apache-2.0
"""Which strategies are found, the one in ``examples/agent-strategy``, and pure decisions."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from koord.agent.metrics.metric_kinds import MetricKind
from koord.agent.strategies import registry
from koord.agent.strategies.options import StrategyOptions
from koord.agent.strategies.strategy import Actuators
from koord.base.errors import KoordError
from tests.agent.strategies.fakes import FakeEvictor, FakeExecutor, FakeReader, machine
from tests.agent.strategies.nodes import NOW_MS, aged, tick
from tests.agent.strategies.options import gates

_ROOT = Path(__file__).resolve().parents[3]
_EXAMPLE = _ROOT / "examples/agent-strategy"
_SOURCE = _ROOT / "src/koord/agent/strategies"
_PURE = [*_SOURCE.glob("*/decision.py"), _SOURCE / "eviction/victim_order.py",
         _SOURCE / "eviction/release_amounts.py"]  # fmt: skip


def _point(value, name="outside"):
    return EntryPoint(name, value, registry.GROUP)


@pytest.fixture
def example(monkeypatch):
    monkeypatch.syspath_prepend(str(_EXAMPLE))
    yield tomllib.loads((_EXAMPLE / "pyproject.toml").read_text())
    sys.modules.pop("koord_idle_batch", None)


def test_of_koords_own_those_are_made_whose_gates_are_on():
    found = registry.strategies(StrategyOptions(), [])
    assert [each.name for each in found] == ["cpusuppress", "cpuburst", "resctrl"]
    every = gates(*(each.gate.partition("|")[0] for each in registry.BUILTIN.values()))
    found = registry.strategies(StrategyOptions(gates=every), [])
    assert [each.name for each in found] == list(registry.BUILTIN)


@pytest.mark.parametrize("name", registry.BUILTIN)
def test_the_table_has_the_gate_of_each(name):
    assert registry.builtin(name, StrategyOptions()).gate == registry.BUILTIN[name].gate


def test_a_strategy_whose_gate_is_off_is_not_imported():
    code = (
        "import sys\n"
        "from koord.agent.strategies import registry\n"
        "from koord.agent.strategies.options import StrategyOptions\n"
        "registry.strategies(StrategyOptions(), [])\n"
        "print(sorted(n for n in sys.modules if n.startswith('koord.agent.strategies.memory')))"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout == "[]\n"


def test_a_name_of_koords_own_is_taken_also_while_that_is_off():
    point = _point("tests.agent.strategies.test_registry:Named")
    with pytest.raises(KoordError, match="a name of its own"):
        registry.strategies(StrategyOptions(), [point])


def test_the_example_is_found_by_its_entry_point_and_does_what_it_says(example, tmp_path):
    points = example["project"]["entry-points"][registry.GROUP]
    made = [_point(value, name) for name, value in points.items()]
    strategy = registry.strategies(StrategyOptions(), made)[-1]
    assert strategy.name == "idle-batch"
    executor, reader = FakeExecutor(), FakeReader()
    hands = Actuators(executor, FakeEvictor())
    view = tick(machine(tmp_path), reader)
    reader.add(MetricKind.NODE_CPU_USAGE, NOW_MS, 4.0)
    assert strategy.run(view, hands) == {"used_percent": 50, "idle": True}
    assert [(c.resource, c.directory, c.value) for c in executor.all()] == [
        ("cpu.idle", "kubepods.slice/kubepods-besteffort.slice", 1)
    ]
    with pytest.raises(KoordError, match="age"):
        strategy.run(aged(view, pods=660.0), hands)
    reader.samples.clear()
    reader.add(MetricKind.NODE_CPU_USAGE, NOW_MS, 1.0)
    assert strategy.run(view, hands)["idle"] is False
    assert executor.all() == []
    strategy.stop(hands)


@pytest.mark.parametrize(
    ("value", "word"),
    [
        ("no_such_module:Strategy", "ModuleNotFoundError"),
        ("builtins:len", "TypeError"),
        ("builtins:id", "name"),
        ("koord.agent.strategies.cpuburst.strategy:CPUBurst", "a name of its own"),
        ("tests.agent.strategies.test_registry:Ungated", "feature gate"),
    ],
)
def test_what_is_no_strategy_is_refused_by_name(value, word):
    with pytest.raises(KoordError, match=word) as caught:
        registry.strategies(StrategyOptions(), [_point(value)])
    assert value in str(caught.value)


class Named:
    name, gate, interval_seconds = "memoryqos", "", 1.0

    def __init__(self, options):
        pass

    def run(self, tick, hands):
        return {}

    def stop(self, hands):
        pass


class Ungated(Named):
    name, gate = "ungated", "NoSuchGate"


@pytest.mark.parametrize("path", _PURE, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_decisions_import_numpy_and_nothing_of_the_agent(path):
    tree = ast.parse(path.read_text())
    names = set()
    for found in ast.walk(tree):
        if isinstance(found, ast.Import):
            names |= {alias.name for alias in found.names}
        if isinstance(found, ast.ImportFrom):
            names.add(found.module)
    assert "numpy" in names
    assert not [name for name in names if name.startswith("koord")]
