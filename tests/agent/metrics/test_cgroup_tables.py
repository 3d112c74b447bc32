# SPDX-License-Identifier: Apache-2.0
"""How often files of cgroups are read, and how many of them stay open."""

from __future__ import annotations

import resource
from collections.abc import Sequence
from pathlib import Path

import pytest

from koord.agent.metrics.cgroup_tables import CgroupTables
from koord.agent.metrics.collectors.page_cache import PageCacheCollector
from koord.agent.metrics.collectors.pods import PodsCollector
from koord.agent.metrics.collectors.throttling import ThrottlingCollector
from koord.agent.metrics.metric_kinds import MetricKind
from koord.agent.metrics.options import MetricsOptions
from koord.kernels.cgroup import Directories, Reader, Table
from koord.kernels.cgroup_parse import Version
from tests.agent.machine_tree import Group, MachineTree
from tests.agent.metrics.bench import Bench, lay_out, pod_json, pod_of
from tests.descriptors import descriptors


def bench(root: Path, version: Version = Version.V1, kept_max: int = 4096) -> Bench:
    settings, tree = MetricsOptions(page_cache=True), MachineTree(root, version)
    kinds = (PodsCollector, ThrottlingCollector, PageCacheCollector)
    pods = tuple(pod_of(tree, pod_json(f"p{number}", 2)) for number in range(4))
    for pod in pods:
        lay_out(tree, pod, Group(10**9, 1 << 20, periods=8, throttled=2, pages={0: 1}))
    return Bench(tree, [kind(settings) for kind in kinds], settings, pods, kept_max)


@pytest.mark.parametrize(
    ("version", "calls"),
    [
        (Version.V1, [["cpuacct.usage"], ["memory.stat"], ["cpu.stat"]]),
        (Version.V2, [["cpuacct.usage", "cpu.stat"], ["memory.stat"]]),
    ],
)
def test_a_file_is_read_once_a_round_whoever_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: Version, calls: list[list[str]]
) -> None:
    made, asked, read = bench(tmp_path, version), [], Reader.read

    def told(
        self: Reader, directories: Sequence[str] | Directories, resources: Sequence[str]
    ) -> dict[str, Table]:
        asked.append(list(resources))
        return read(self, directories, resources)

    made.step()
    made.step(1.0)  # the first two know nothing of rates, and read NUMA figures
    monkeypatch.setattr(Reader, "read", told)
    made.step(1.0)
    assert asked == calls
    assert len(made.last(MetricKind.CONTAINER_CPU_THROTTLED)) == 8


@pytest.mark.parametrize("version", list(Version))
@pytest.mark.parametrize("kept_max", [0, 5, 4096])
def test_figures_do_not_depend_on_what_is_kept(
    tmp_path: Path, version: Version, kept_max: int
) -> None:
    made = bench(tmp_path, version, kept_max)
    made.step()
    for second in range(1, 4):
        for pod in made.pods:
            counters = Group((1 + second) * 10**9, second << 20, periods=8 * second)
            lay_out(made.tree, pod, counters)
        made.step(1.0)
        assert set(made.last(MetricKind.POD_CPU_USAGE).values()) == {1.0}
        assert set(made.last(MetricKind.CONTAINER_MEMORY_USAGE).values()) == {float(second << 20)}
        assert made.groups.kept <= kept_max
    made.set_pods(made.pods[0])
    made.step(1.0)
    assert len(made.last(MetricKind.CONTAINER_MEMORY_USAGE)) == 2


def test_descriptors_of_pods_that_went_go_too(tmp_path: Path) -> None:
    made = bench(tmp_path)
    before = descriptors()
    for number in range(100):
        pod = pod_of(made.tree, pod_json(f"q{number}", 2))
        lay_out(made.tree, pod, Group(pages={0: 1}))
        made.set_pods(*made.pods, pod)
        made.step(1.0)
        # Four files of fifteen cgroups, and of a quarter as many that went and are not closed yet.
        assert made.groups.kept <= 4 * (15 + 15 // 4)
    made.set_pods()
    made.step(1.0)
    assert made.groups.kept == 0
    made.advisor.stop()
    assert made.groups.kept == 0
    assert descriptors() <= before + 1


@pytest.mark.parametrize(("soft", "kept"), [(100, 0), (512, 0), (516, 0), (523, 8), (4096, 8)])
def test_the_limit_on_open_files_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, soft: int, kept: int
) -> None:
    made = bench(tmp_path)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, soft))
    groups = CgroupTables(made.machine.hierarchy, made.clock)
    directories = [pod.directory for pod in made.pods]
    for file in ("cpuacct.usage", "cpu.stat") * 2:
        table = groups.read_others(directories, [file])[file]
        assert not table.error.any()
    # All that is read each round, or nothing: a few would be dropped before they are read again.
    assert groups.kept == kept
    groups.close()
