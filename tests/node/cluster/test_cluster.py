# SPDX-License-Identifier: Apache-2.0
"""A cluster of one real node: koord under a real kubelet, from plain manifests to an eviction."""

from __future__ import annotations

import json
from typing import Any

import pytest

from koord.kernels.cpuset import CPUSet
from tests.ci import IN_CI
from tests.node.enter import MissingNodeError, hierarchies, run_inside
from tests.node.packages import MissingPackageError, find
from tests.real.binaries import KUBERNETES
from tests.real.fixtures import need

pytestmark = pytest.mark.real

_PROGRAMS = (
    "containerd", "containerd-shim-runc-v2", "ctr", "etcd", "kube-apiserver",
    "kube-controller-manager", "kubectl", "kubelet",
)  # fmt: skip
_QOS = "koordinator.sh/qosClass"
_SECONDS = 300.0


@pytest.fixture(scope="module")
def story() -> Any:
    """What happened, as far as it came."""
    need(*_PROGRAMS)
    try:
        find("runc")
        hierarchies()
    except (MissingPackageError, MissingNodeError) as error:
        if IN_CI:
            pytest.fail(str(error))
        pytest.skip(str(error))
    return run_inside("tests.node.cluster.control_plane", {}, _SECONDS)


@pytest.fixture
def seen(story: Any) -> Any:
    """Its figures, of a story that was told to its end."""
    assert "failure" not in story, story["failure"]
    return story["figures"]


def test_the_node_is_ready(seen: Any) -> None:
    info = seen["node"]["status"]["nodeInfo"]
    assert info["kubeletVersion"] == f"v{KUBERNETES}"
    assert info["containerRuntimeVersion"].startswith("containerd://2.")


def test_koordlet_reads_pods_from_the_kubelets_secure_port(seen: Any) -> None:
    """With its own account's token, and the kubelet's certificate checked."""
    for path in ("/pods/", "/configz"):
        assert any(f'code="200",path="{path}"' in line for line in seen["kubelet calls"])
    assert all('code="200"' in line for line in seen["kubelet calls"])


def test_profiles_change_the_pods_of_plain_manifests(seen: Any) -> None:
    for name, qos, priority in (
        ("bound", "LSR", "koord-prod"), ("web", "LS", "koord-prod"), ("batch", "BE", "koord-batch"),
    ):  # fmt: skip
        pod = seen[name]
        assert pod["metadata"]["labels"][_QOS] == qos
        assert pod["spec"]["priorityClassName"] == priority
        assert pod["spec"]["schedulerName"] == "koord-scheduler"
    amounts = seen["batch"]["spec"]["containers"][0]["resources"]
    assert amounts["requests"]["kubernetes.io/batch-cpu"] == "1k"
    assert "cpu" not in amounts["limits"]


def test_bound_cpus_are_there_at_the_first_line(seen: Any) -> None:
    """Those that koord-scheduler chose, one of all; the kubelet had asked for a quota."""
    assert len(CPUSet.parse(seen["chosen"])) == 1
    assert seen["bound says"] == ["Cpus_allowed_list:", seen["chosen"]]
    assert seen["bound files"] == {"cpuset.cpus": seen["chosen"], "cpu.cfs_quota_us": "-1"}


def test_bound_cpus_stay_when_a_pod_is_resized_in_place(seen: Any) -> None:
    """And its quota stays away, which the kubelet sets anew."""
    assert seen["bound resized"] == {
        "cpuset.cpus": seen["chosen"], "cpu.cfs_quota_us": "-1",
        "memory.limit_in_bytes": str(48 << 20),
    }  # fmt: skip


def test_bound_cpus_stay_when_the_kubelet_is_restarted(seen: Any) -> None:
    assert seen["bound after a restart"] == seen["bound resized"]
    assert seen["restarts"] == [0]


def test_logs_and_exec_reach_containers(seen: Any) -> None:
    assert (seen["logs"], seen["exec"]) == ("serving", "it is I")


def test_a_reservation_is_used_by_its_pod(seen: Any) -> None:
    kept = seen["reservation"]
    assert kept["status"]["nodeName"] == "node"
    assert seen["expected"] == {"name": "kept", "uid": kept["metadata"]["uid"]}
    assert [each["name"] for each in seen["owners"]] == ["expected"]


def test_what_is_idle_is_offered(seen: Any) -> None:
    """NodeMetric and NodeSLO go round: what agents report, and how they are to protect."""
    threshold = seen["slo"]["spec"]["resourceUsedThresholdWithBE"]
    assert (threshold["enable"], threshold["cpuSuppressPolicy"]) == (True, "cfsQuota")
    reported = seen["metric"]["status"]
    assert {each["name"] for each in reported["podsMetric"]} == seen_pods(seen)
    # Nine tenths of the node, less what it uses and what bound pods hold.
    cpus = 1000 * int(seen["node"]["status"]["capacity"]["cpu"])
    assert 0 < seen["offered"] < cpus * 0.9
    assert 1000 <= seen["offered later"] < cpus * 0.9


def seen_pods(seen: Any) -> set[str]:
    return {"expected", *(seen[name]["metadata"]["name"] for name in ("bound", "web"))}


def test_batch_has_its_shares(seen: Any) -> None:
    """And no quota of its own: suppression by quota limits all of batch together."""
    assert seen["batch files"] == {"cpu.shares": "1024", "cpu.cfs_quota_us": "-1"}


def test_batch_is_suppressed_within_two_rounds(seen: Any) -> None:
    assert seen["rounds to fall"] is not None, seen["rounds"]
    assert seen["rounds to fall"] <= 2, seen["rounds"]


def test_batch_is_evicted_by_rule(seen: Any) -> None:
    name = seen["batch"]["metadata"]["name"]
    told = f"trigger by koordlet feature BECPUEvict, kill pod: {name}"
    assert seen["evictions"] == [told]


def test_the_kubelets_static_policy_keeps_its_pods(seen: Any) -> None:
    """A pod of whole CPUs and no class: the kubelet's choice stays, koord takes over around it."""
    assert len(CPUSet.parse(seen["own before"])) == 1
    assert seen["own says"] == ["Cpus_allowed_list:", seen["own before"]]
    assert seen["own after"] == seen["own before"]
    meta = seen["own"]["metadata"]
    assert seen["allocated"] == [
        {
            "namespace": "default", "name": "own", "uid": meta["uid"],
            "cpuset": seen["own before"], "managedByKubelet": True,
        }
    ]  # fmt: skip


def test_services_share_what_the_kubelet_did_not_give_out(seen: Any) -> None:
    shared = CPUSet.parse(",".join(pool["cpuset"] for pool in seen["pools"]))
    cpus = int(seen["node"]["status"]["capacity"]["cpu"])
    assert len(shared) == cpus - 1
    assert not shared & CPUSet.parse(seen["own before"])
    assert CPUSet.parse(seen["beside after"]) == shared


def test_the_runtime_was_answered_and_the_kernel_took_all(seen: Any) -> None:
    assert {"Configure", "Synchronize", "CreateContainer", "UpdateContainer"} <= set(seen["calls"])
    assert set(seen["calls"].values()) == {0}
    assert seen["problems"] == []


def test_nothing_else_failed(story: Any) -> None:
    """But suppression, before there was a sample or a pod, and what a stopped kubelet was asked."""
    known = ("expected pods on this node", "expected a sample in the window", "kubelet's config")
    told = [line for line in story["figures"]["told"] if not any(part in line for part in known)]
    assert told == []
    assert "failure" not in story, json.dumps(story)
