# SPDX-License-Identifier: Apache-2.0
"""From another agent to koord and back, over the files that both of them write."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from koord.agent.executor.claim import Layer
from tests.agent.takeover import NODES, Node

POD = "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podweb.slice"
CONTAINER = f"{POD}/cri-containerd-w1.scope"
BE = "kubepods.slice/kubepods-besteffort.slice"
BOUND = "kubepods.slice/kubepods-podbound.slice/cri-containerd-b1.scope"


@pytest.fixture(params=NODES, ids=lambda path: path.stem)
def found(request: pytest.FixtureRequest, tmp_path: Path) -> Node:
    """A node of either version as the other agent left it."""
    return Node(tmp_path, json.loads(request.param.read_text()))


def _quotas(node: Node) -> list[str]:
    """Of the container and its pod."""
    if _is_v1(node):
        return [node.says(f"cpu/{each}/cpu.cfs_quota_us") for each in (CONTAINER, POD)]
    return [node.says(f"{each}/cpu.max").split()[0] for each in (CONTAINER, POD)]


def test_a_raised_quota_without_burst_is_the_limit_again(found: Node) -> None:
    assert _quotas(found) == ["300000", "300000"]
    found.rounds(1)
    assert _quotas(found) == ["200000", "200000"]
    found.rounds(3)
    assert _quotas(found) == ["200000", "200000"]
    assert found.executor.failures() == []


def test_a_raised_quota_goes_on_where_it_was_and_ends_at_the_limit(found: Node) -> None:
    found.slo["cpuBurstStrategy"]["policy"] = "auto"
    found.throttled = 0.5
    found.rounds(1)
    assert _quotas(found) == ["360000", "360000"]
    found.slo["cpuBurstStrategy"]["policy"] = "none"
    found.rounds(2)
    assert _quotas(found) == ["200000", "200000"]


def test_a_quota_that_was_let_go_stays_at_the_limit(found: Node) -> None:
    """koord claims the limit, lets it go once the file says it, and what is given back says it."""
    said = []
    for _ in range(5):
        found.rounds(1)
        said.append(_quotas(found))
    assert said == [["200000", "200000"]] * 5
    assert found.executor.current("cpu.cfs_quota_us", CONTAINER) == "200000"
    assert found.executor.bases("cpu.cfs_quota_us", [CONTAINER, POD], Layer.RAISE) == [None, None]


def test_what_the_other_agent_left_on_a_pod_alone_goes_too(found: Node) -> None:
    """It adds to a pod's quota what it takes from a container's; a write that fails stays there."""
    if _is_v1(found):
        found.write(f"cpu/{CONTAINER}/cpu.cfs_quota_us", "200000")
    else:
        found.write(f"{CONTAINER}/cpu.max", "200000 100000")
    assert _quotas(found) == ["200000", "300000"]
    found.rounds(2)
    assert _quotas(found) == ["200000", "200000"]


def test_a_quota_of_another_period_is_the_limit_of_that_period(found: Node) -> None:
    """cpuCFSQuotaPeriod of the kubelet: 2 CPUs of 50 ms are 100000."""
    for each in (CONTAINER, POD):
        if _is_v1(found):
            found.write(f"cpu/{each}/cpu.cfs_quota_us", "150000")
            found.write(f"cpu/{each}/cpu.cfs_period_us", "50000")
        else:
            found.write(f"{each}/cpu.max", "150000 50000")
    found.rounds(1)
    assert _quotas(found) == ["100000", "100000"]


def test_no_quota_is_left_alone(found: Node) -> None:
    """cpuCFSQuota of the kubelet may be off."""
    for each in (CONTAINER, POD):
        if _is_v1(found):
            found.write(f"cpu/{each}/cpu.cfs_quota_us", "-1")
        else:
            found.write(f"{each}/cpu.max", "max 100000")
    found.rounds(2)
    found.stop()
    none = "-1" if _is_v1(found) else "max"
    assert _quotas(found) == [none, none]


def test_koord_leaves_what_kubelet_and_kernel_give(found: Node) -> None:
    """The next agent starts from clean values, whoever had the node before."""
    found.rounds(3)
    found.stop()
    assert found.unlike("clean") == {}
    assert found.executor.failures() == []


def test_koord_that_leaves_its_files_has_clean_values_in_its_journal(found: Node) -> None:
    found.rounds(2)
    bound = found.says(f"cpuset/{BOUND}/cpuset.cpus" if _is_v1(found) else f"{BOUND}/cpuset.cpus")
    assert bound == "4-5"
    found.start()  # --restore-on-exit=false, then ``koord node restore``
    assert found.executor.give_all_back() == []
    assert found.unlike("clean") == {}


def test_a_clean_node_is_clean_again(tmp_path: Path) -> None:
    for path in NODES:
        node = Node(tmp_path / path.stem, json.loads(path.read_text()), "clean")
        node.rounds(2)
        assert node.unlike("clean")
        node.stop()
        assert node.unlike("clean") == {}


def test_a_limit_that_is_resized_meanwhile_is_what_comes_back(found: Node) -> None:
    found.slo["cpuBurstStrategy"]["policy"] = "auto"
    found.throttled = 0.5
    found.rounds(1)
    document = json.loads(json.dumps(found.document))
    document["pods"][0]["spec"]["containers"][0]["resources"]["limits"]["cpu"] = "3"
    found.pods = Node(found.root / "resized", document).pods
    found.stop()
    assert _quotas(found) == ["300000", "300000"]


def _is_v1(node: Node) -> bool:
    return bool(node.document["version"] == "v1")
