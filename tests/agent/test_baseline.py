# SPDX-License-Identifier: Apache-2.0
"""What files say while no agent writes them, file by file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from koord.agent.baseline import Baseline
from koord.agent.executor.target import Target, Value
from koord.kernels.cgroup_parse import Version
from tests.agent.strategies.fakes import machine
from tests.agent.strategies.nodes import pod, resources

PODS = "kubepods.slice"
BE = f"{PODS}/kubepods-besteffort.slice"
LEFT: Any = "left"
"""What another agent left in a file, where it does not matter what."""


def _baseline(root: Path, *pods: Any, version: Version = Version.V2) -> Baseline:
    return Baseline(machine(root, version=version), lambda: pods)


def _web(**more: Any) -> Any:
    container = {"name": "main", "resources": resources({"cpu": "1", "memory": "4Gi"}, cpu="2")}
    return pod("web", containers=[container], kube_qos="Burstable", **more)


@pytest.mark.parametrize(
    ("resource", "value"),
    [
        ("cpu.cfs_burst_us", 0),
        ("cpu.bvt_warp_ns", 0),
        ("cpu.idle", 0),
        ("memory.min", 0),
        ("memory.low", 0),
        ("memory.high", 9223372036854775807),
        ("memory.wmark_ratio", 0),
        ("memory.wmark_scale_factor", 50),
        ("memory.wmark_min_adj", 0),
        ("memory.priority", 0),
        ("memory.use_priority_oom", 0),
        ("memory.oom.group", 0),
        ("memory.pagecache_limit.enable", 0),
        ("memory.pagecache_limit.size", 0),
        ("memory.pagecache_limit.sync", 0),
    ],
)
def test_files_of_the_kernel_alone(tmp_path: Path, resource: str, value: int) -> None:
    baseline = _baseline(tmp_path)
    assert baseline(Target(resource, BE), 77) == value
    # Outside of the pods an administrator may have written them.
    assert baseline(Target(resource, "system.slice"), 77) == 77


def test_a_containers_oom_group_is_the_kubelets_on_v2(tmp_path: Path) -> None:
    web = _web()
    target = Target("memory.oom.group", web.containers[0].directory)
    assert _baseline(tmp_path, web)(target, 1) == 1
    assert _baseline(tmp_path, web, version=Version.V1)(target, 1) == 0


@pytest.mark.parametrize(
    ("found", "annotations", "value"),
    [
        (300_000, {}, 200_000),
        (150_000, {}, 200_000),
        (-1, {}, -1),
        (-1, {"scheduling.koordinator.sh/resource-status": '{"cpuset":"2-3"}'}, 200_000),
        (-1, {"scheduling.koordinator.sh/resource-status": "{"}, -1),
    ],
)
def test_quotas(tmp_path: Path, found: int, annotations: dict[str, str], value: int) -> None:
    web = _web(annotations=annotations)
    baseline = _baseline(tmp_path, web)
    for directory in (web.directory, web.containers[0].directory):
        assert baseline(Target("cpu.cfs_quota_us", directory), found) == value


def test_a_pod_with_a_container_without_limit_has_no_quota(tmp_path: Path) -> None:
    two = pod("two", containers=[{"name": "a", "resources": resources(cpu="2")}, {"name": "b"}])
    baseline = _baseline(tmp_path, two)
    assert baseline(Target("cpu.cfs_quota_us", two.directory), 300_000) == -1
    assert baseline(Target("cpu.cfs_quota_us", two.containers[1].directory), 300_000) == -1
    assert baseline(Target("cpu.cfs_quota_us", BE), 300_000) == -1
    assert baseline(Target("cpu.cfs_quota_us", f"{PODS}/unknown"), 300_000) == 300_000


def test_shares_and_memory_of_a_pod(tmp_path: Path) -> None:
    web, job = _web(), pod("job", qos="BE", kube_qos="BestEffort")
    old = _baseline(tmp_path / "old", web, job, version=Version.V1)
    new = _baseline(tmp_path / "new", web, job)
    own = web.containers[0].directory
    assert [each(Target("cpu.shares", own), 7) for each in (old, new)] == [1024, 7]
    assert [each(Target("cpu.shares", job.directory), 512) for each in (old, new)] == [2, 2]
    assert old(Target("memory.limit_in_bytes", own), 4096) == -1
    limited = pod("l", containers=[{"name": "a", "resources": resources(memory="1000001")}])
    assert _baseline(tmp_path, limited)(Target("memory.limit_in_bytes", limited.directory), 0) == (
        999_424
    )


@pytest.mark.parametrize(("version", "value"), [(Version.V1, "0-63"), (Version.V2, "")])
def test_cpus_are_those_of_all_pods(tmp_path: Path, version: Version, value: str) -> None:
    web = _web()
    baseline = _baseline(tmp_path, web, version=version)
    place = tmp_path / "cgroup/cpuset" / PODS
    place.mkdir(parents=True)
    (place / "cpuset.cpus").write_text("0-63\n")
    for directory in (BE, f"{BE}/unknown/sandbox", web.directory, web.containers[0].directory):
        assert baseline(Target("cpuset.cpus", directory), "2-3") == value
    assert baseline(Target("cpuset.cpus", PODS), "0-63") == "0-63"


def test_cpus_that_the_kubelet_binds(tmp_path: Path) -> None:
    web, other = _web(), pod("other")
    baseline = _baseline(tmp_path, web, other)
    state = tmp_path / "var/lib/kubelet/cpu_manager_state"
    state.parent.mkdir(parents=True)
    entries = {"uid-web": {"main": "2-3"}}
    for text, bound in (({"entries": entries}, "2-3"), ({}, "0-1,4-7")):
        document = {"policyName": "static", "defaultCpuSet": "0-1,4-7", "checksum": 1, **text}
        state.write_text(json.dumps(document))
        assert baseline(Target("cpuset.cpus", web.containers[0].directory), "0-7") == bound
    assert baseline(Target("cpuset.cpus", other.containers[0].directory), "0") == "0-1,4-7"
    assert baseline(Target("cpuset.cpus", web.directory), "0") == ""
    state.write_text('{"policyName":"none","defaultCpuSet":"","checksum":1353318690}')
    assert baseline(Target("cpuset.cpus", web.containers[0].directory), "0") == ""
    state.write_text("{")
    assert baseline(Target("cpuset.cpus", web.containers[0].directory), "0") == "0"


def _scored(kube_qos: str, memory: str, **spec: Any) -> Any:
    container = {"name": "main", "resources": resources({"memory": memory})}
    made = pod("p", kube_qos=kube_qos, containers=[container])
    for name, value in spec.items():
        setattr(made.pod.spec, name, value)
    return made


@pytest.mark.parametrize(
    ("kube_qos", "memory", "score"),
    [
        ("Guaranteed", "1Gi", -997),
        ("BestEffort", "0", 1000),
        ("Burstable", "4Gi", 750),  # of the 16Gi that the node has
        ("Burstable", "0", 999),
        ("Burstable", "16Gi", 3),
    ],
)
def test_oom_scores(tmp_path: Path, kube_qos: str, memory: str, score: int) -> None:
    made = _scored(kube_qos, memory)
    target = Target("oom_score_adj", made.containers[0].directory)
    assert _baseline(tmp_path, made)(target, -500) == score
    critical = _scored(kube_qos, memory, priority_class_name="system-node-critical")
    assert _baseline(tmp_path, critical)(target, -500) == -997


@pytest.mark.parametrize(
    ("target", "version", "value"),
    [
        (Target("blkio.throttle.read_bps_device", BE, "8:0"), Version.V1, "8:0 0"),
        (Target("blkio.cost.weight", BE, "8:0"), Version.V1, "8:0 100"),
        (Target("blkio.throttle.read_bps_device", BE, "8:0"), Version.V2, LEFT),
        (Target("blkio.cost.qos", "", "8:0"), Version.V1, LEFT),
        (Target("terway.pod.json", ""), Version.V1, ""),
        (Target("min_free_kbytes", ""), Version.V1, LEFT),
        (Target("resctrl.group", "LS"), Version.V1, LEFT),
        (Target("core_sched", f"{BE}/p/c"), Version.V1, LEFT),
    ],
)
def test_other_targets(tmp_path: Path, target: Target, version: Version, value: Value) -> None:
    assert _baseline(tmp_path, version=version)(target, LEFT) == value
