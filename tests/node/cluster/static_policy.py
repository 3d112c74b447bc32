# SPDX-License-Identifier: Apache-2.0
"""The kubelet's static CPU manager: its pods keep their CPUs, and koord takes over around them."""

from __future__ import annotations

import json
from pathlib import Path

from tests.node.cluster.control_plane import NODE
from tests.node.cluster.visitor import Document, Visitor
from tests.node.machine import until

_STATE = Path("/var/lib/kubelet/cpu_manager_state")
_TOPOLOGIES = "topology.node.k8s.io/v1alpha1/noderesourcetopologies"
_ALLOCATED = "node.koordinator.sh/pod-cpu-allocs"
_POOLS = "node.koordinator.sh/cpu-shared-pools"
_RESERVED = "0"  # the policy takes none without some reserved
_FILE = "cpuset.cpus"


def switch_policy(world: Visitor) -> None:
    """The node is emptied, and its kubelet set up anew; koordlet is away meanwhile."""
    world.kubectl("delete", "--all", "--wait=false", "job", "--namespace=analytics")
    world.kubectl("delete", "--all", "--wait=false", "deployment,pod")
    until("the node is empty", lambda: not world.all_pods())
    world.node.stop_koordlet()
    world.node.stop_kubelet()
    _STATE.unlink()
    world.node.start_kubelet(
        cpuManagerPolicy="static", reservedSystemCPUs=_RESERVED, cpuManagerReconcilePeriod="1s"
    )
    world.kubectl("apply", f"--filename={world.manifest('static')}")
    own = until("the kubelet's pod runs", lambda: world.running("default", "own"))
    until("a service runs", lambda: world.running("default", "beside"))
    world.found["own"] = own
    world.found["own says"] = until("it says", lambda: world.kubectl("logs", "own").split())
    world.found["own before"] = world.read(_FILE, own)
    world.say("the kubelet has given CPUs out")


def take_over(world: Visitor) -> None:
    """koordlet comes, and tells of what the kubelet gave out."""
    world.node.start_koordlet("", "--kubelet-sync-interval", "1s")
    uid = world.found["own"]["metadata"]["uid"]

    def told() -> Document | None:
        annotations = world.get(_TOPOLOGIES, "", NODE)["metadata"].get("annotations", {})
        return annotations if uid in annotations.get(_ALLOCATED, "") else None

    annotations = until("koordlet tells of the kubelet's pod", told)
    world.found["allocated"] = json.loads(annotations[_ALLOCATED])
    world.found["pools"] = json.loads(annotations[_POOLS])
    beside = world.running("default", "beside")
    assert beside is not None
    world.node.wait_rounds(3)
    world.found["own after"] = world.read(_FILE, world.found["own"])
    world.found["beside after"] = world.read(_FILE, beside)
    world.say("koordlet has taken over around it")
