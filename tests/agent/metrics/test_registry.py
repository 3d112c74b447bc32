# SPDX-License-Identifier: Apache-2.0
"""Which collectors are found, and the one in ``examples/agent-collector``."""

from __future__ import annotations

import sys
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from koord.agent.feature_gates import feature_gates
from koord.agent.host.kernel.features import Feature, Features
from koord.agent.metrics.metric_kinds import MetricKind
from koord.agent.metrics.options import MetricsOptions
from koord.agent.metrics.registry import BUILT_IN, GROUP, built_in, collectors
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


def names(settings: MetricsOptions | None = None, features: Features = ALL) -> set[str]:
    found = collectors(settings or MetricsOptions(), feature_gates(), features, outside=())
    return {one.name for one in found}


def test_names_of_the_table_are_those_of_the_collectors() -> None:
    assert [built_in(name, MetricsOptions()).name for name in BUILT_IN] == list(BUILT_IN)


def test_flags_and_features() -> None:
    assert "page-cache" not in names()
    assert "page-cache" in names(MetricsOptions(page_cache=True))
    gates = feature_gates()
    gates.set_from("Accelerators=true,PSICollector=true")
    missing = Features({Feature.PSI: "no cpu.pressure"})
    found = {one.name for one in collectors(MetricsOptions(), gates, missing, outside=())}
    assert "gpu" in found
    assert "pressure" not in found


def test_an_interval_of_0_switches_a_collector_off() -> None:
    flags = MetricsOptions(
        cpu_info=0.0, storage=0.0, cpi=0.0, pressure=0.0, cold_pages=0.0, resctrl=0.0,
        resctrl_enabled=True,
    )  # fmt: skip
    gates = feature_gates()
    for gate in (
        "PSICollector",
        "CPICollector",
        "ColdPageCollector",
        "BlkIOReconcile",
        "ResctrlCollector",
    ):
        gates.set_from(f"{gate}=true")
    off = {"cpu-info", "numa-info", "storage", "cpi", "pressure", "cold-pages", "resctrl"}
    on = MetricsOptions(resctrl_enabled=True)
    assert off <= {one.name for one in collectors(on, gates, ALL, outside=())}
    assert not off & {one.name for one in collectors(flags, gates, ALL, outside=())}


def test_the_example_measures(tmp_path: Path, example: EntryPoint) -> None:
    gates = feature_gates()
    off = collectors(MetricsOptions(), gates, ALL, outside=[example])
    assert "accelerator-use" not in {one.name for one in off}
    gates.set_from("Accelerators=true")
    one = collectors(MetricsOptions(), gates, ALL, outside=[example])[-1]
    assert one.name == "accelerator-use"
    tree = MachineTree(tmp_path)
    bench = Bench(tree, [one])
    bench.step()
    assert bench.errors() == {}  # no such devices
    tree.write("run/accelerators/GPU-a", "0 75 1024 4096\n")
    bench.step(1.0)
    assert bench.last(MetricKind.NODE_GPU_CORE_USAGE) == {("0", "GPU-a"): 75.0}
    assert bench.last(MetricKind.NODE_GPU_MEMORY_USAGE) == {("0", "GPU-a"): 1024.0}
    assert bench.last(MetricKind.NODE_GPU_MEMORY_TOTAL) == {("0", "GPU-a"): 4096.0}
    tree.write("run/accelerators/GPU-b", "0 x 1024 4096\n")
    bench.step(1.0)
    assert "MINOR PERCENT USED_BYTES TOTAL_BYTES" in bench.errors()["accelerator-use"]


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("node", "koord.agent.metrics.options:MetricsOptions", "one not taken yet"),
        ("odd", "koord.no_such_module:X", "no_such_module"),
        ("odd", "koord.agent.metrics.options:math", "collector"),
    ],
)
def test_what_is_no_collector_is_one_line(name: str, value: str, message: str) -> None:
    point = EntryPoint(name, value, GROUP)
    with pytest.raises(KoordError, match=message) as caught:
        collectors(MetricsOptions(), feature_gates(), ALL, outside=[point])
    assert "\n" not in str(caught.value)
