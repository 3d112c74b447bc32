# SPDX-License-Identifier: Apache-2.0
"""A cluster of one real node: koord under a real kubelet, from plain manifests to an eviction."""

from __future__ import annotations

import json
from typing import Any

import pytest

from koord.kernels.cpuset import CPUSet
from tests.ci import missing
from tests.node.cluster.judgement import Judgement
from tests.node.enter import MissingNodeError, hierarchies, run_inside
from tests.node.packages import MissingPackageError, find
from tests.real.fixtures import need

pytestmark = pytest.mark.real

_PROGRAMS = (
    "containerd", "containerd-shim-runc-v2", "ctr", "etcd", "kube-apiserver",
    "kube-controller-manager", "kubectl", "kubelet",
)  # fmt: skip
_SECONDS = 300.0


@pytest.fixture(scope="module")
def story() -> Any:
    """What happened, as far as it came."""
    need(*_PROGRAMS)
    try:
        find("runc")
        hierarchies()
    except (MissingPackageError, MissingNodeError) as error:
        missing(error)
    return run_inside("tests.node.cluster.control_plane", {}, _SECONDS)


@pytest.fixture
def seen(story: Any) -> Any:
    """Its figures, of a story that was told to its end."""
    assert "failure" not in story, story["failure"]
    return story["figures"]


class TestOnThisMachine(Judgement):
    """On cgroup v1."""


def test_bound_cpus_stay_when_the_kubelet_is_restarted(seen: Any) -> None:
    assert seen["bound after a restart"] == seen["bound resized"]
    assert seen["restarts"] == [0]


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


def test_nothing_else_failed(story: Any) -> None:
    """But what a stopped kubelet was asked."""
    told = [line for line in story["figures"]["told"] if "kubelet's config" not in line]
    assert told == []
    assert "failure" not in story, json.dumps(story)
