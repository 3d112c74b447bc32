# SPDX-License-Identifier: Apache-2.0
"""Which collectors are found, and the one in ``examples/agent-collector``."""

from __future__ import annotations

import sys
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from koord.agent.gates import feature_gates
from koord.agent.host.features import Feature, Features
from koord.agent.metrics.kinds import Kind
from koord.agent.metrics.registry import BUILT_IN, GROUP, built_in, collectors
from koord.agent.metrics.settings import Settings
from koord.base.errors import KoordError
from tests.agent.machine_tree import MachineTree
from tests.agent.metrics.bench import Bench

_EXAMPLE = Path(__file__).parents[3] / "examples/agent-collector"
ALL = Features({})


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> EntryPoint:
    """Its entry point, as an installation would have it."""
    monkeypatch.syspath_prepend(str(_EXAMPLE))
    monkeypatch.delitem(sys.modules, "koord_accelerator_use", raising=False)
    project = tomllib.loads((_EXAMPLE / "pyproject.toml").read_text())["project"]
    (name, value) = next(iter(project["entry-points"][GROUP].items()))
    return EntryPoint(name, value, GROUP)


def names(settings: Settings | None = None, features: Features = ALL) -> set[str]:
    found = collectors(settings or Settings(), feature_gates(), features, outside=())
    return {one.name for one in found}


def test_names_of_the_table_are_those_of_the_collectors() -> None:
    assert [built_in(name, Settings()).name for name in BUILT_IN] == list(BUILT_IN)


def test_flags_and_features() -> None:
    assert "page-cache" not in names()
    assert "page-cache" in names(Settings(page_cache=True))
    gates = feature_gates()
    gates.set_from("Accelerators=true,PSICollector=true")
    missing = Features({Feature.PSI: "no cpu.pressure"})
    found = {one.name for one in collectors(Settings(), gates, missing, outside=())}
    assert "gpu" in found
    assert "pressure" not in found


def test_the_example_measures(tmp_path: Path, example: EntryPoint) -> None:
    gates = feature_gates()
    off = collectors(Settings(), gates, ALL, outside=[example])
    assert "accelerator-use" not in {one.name for one in off}
    gates.set_from("Accelerators=true")
    one = collectors(Settings(), gates, ALL, outside=[example])[-1]
    assert one.name == "accelerator-use"
    tree = MachineTree(tmp_path)
    bench = Bench(tree, [one])
    bench.step()
    assert bench.errors() == {}  # no such devices
    tree.write("run/accelerators/GPU-a", "0 75 1024 4096\n")
    bench.step(1.0)
    assert bench.last(Kind.NODE_GPU_CORE_USAGE) == {("0", "GPU-a"): 75.0}
    assert bench.last(Kind.NODE_GPU_MEMORY_USAGE) == {("0", "GPU-a"): 1024.0}
    assert bench.last(Kind.NODE_GPU_MEMORY_TOTAL) == {("0", "GPU-a"): 4096.0}
    tree.write("run/accelerators/GPU-b", "0 x 1024 4096\n")
    bench.step(1.0)
    assert "MINOR PERCENT USED_BYTES TOTAL_BYTES" in bench.errors()["accelerator-use"]


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("node", "koord.agent.metrics.settings:Settings", "one not taken yet"),
        ("odd", "koord.no_such_module:X", "no_such_module"),
        ("odd", "koord.agent.metrics.settings:math", "collector"),
    ],
)
def test_what_is_no_collector_is_one_line(name: str, value: str, message: str) -> None:
    point = EntryPoint(name, value, GROUP)
    with pytest.raises(KoordError, match=message) as caught:
        collectors(Settings(), feature_gates(), ALL, outside=[point])
    assert "\n" not in str(caught.value)
