# SPDX-License-Identifier: Apache-2.0
"""What a machine publishes: its Node, its Lease, its NUMA zones and CPUs, its cards.

Plain documents, as a kubelet and Koordinator's agent write them; times are RFC 3339 texts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.agent.report.cpu_pools import BoundCPUs, kept_cpus, shared_pools
from koord.api.protocol import annotation, keys
from koord.api.protocol.resources import GPU_CORE, GPU_MEMORY, GPU_MEMORY_RATIO
from koord.api.protocol.topology import (
    CPUBasicInfo,
    CPUTopology,
    KubeletCPUManagerPolicy,
)
from koord.base.documents import Document
from koord.kernels.cpuset import CPUSet

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from koord.api.protocol.node_reservation import NodeReservation
    from koord.api.protocol.qos import QoSClass
    from koord.simulator.nodes.machine import SimulatedMachine


MANAGED_BY = {keys.MANAGED_BY: "Koordinator"}
POOL_LABEL = "simulator.koord/pool"
LEASE_SECONDS = 40
_DISTANCE_NEAR, _DISTANCE_SOCKET, _DISTANCE_FAR = 10, 12, 21

# type, status, reason, message; in the order of a kubelet.
_CONDITIONS = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory",
     "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
)  # fmt: skip


def node(machine: SimulatedMachine, kubelet_version: str, now: str) -> Document:
    """The Node that a kubelet registers."""
    pool = machine.pool
    labels = {
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": machine.name,
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": pool.name,
        POOL_LABEL: pool.name,
    }
    if pool.zone:
        labels["topology.kubernetes.io/zone"] = pool.zone
    spec: Document = {"providerID": f"simulated://{machine.name}"}
    if pool.taints:
        taints = [{"key": t.key, "value": t.value, "effect": t.effect} for t in pool.taints]
        spec["taints"] = [{k: v for k, v in each.items() if v} for each in taints]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": machine.name, "labels": labels | pool.labels},
        "spec": spec,
        "status": node_status(machine, kubelet_version, now, {}),
    }


def node_status(
    machine: SimulatedMachine, kubelet_version: str, now: str, transitions: dict[str, str]
) -> Document:
    """The part of a Node that its kubelet keeps.

    Args:
        transitions: when each condition took its present status; ``now`` for those not there.
    """
    conditions = [
        {
            "type": type_,
            "status": status,
            "reason": reason,
            "message": message,
            "lastHeartbeatTime": now,
            "lastTransitionTime": transitions.get(type_, now),
        }
        for type_, status, reason, message in _CONDITIONS
    ]
    return {
        "addresses": [
            {"type": "InternalIP", "address": machine.address},
            {"type": "Hostname", "address": machine.name},
        ],
        "allocatable": machine.allocatable,
        "capacity": machine.capacity,
        "conditions": conditions,
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "nodeInfo": {
            "architecture": "amd64",
            "bootID": machine.identity("boot"),
            "containerRuntimeVersion": "simulated://1.0",
            "kernelVersion": "6.12.0-simulated",
            "kubeProxyVersion": "",
            "kubeletVersion": kubelet_version,
            "machineID": machine.identity("machine").replace("-", ""),
            "operatingSystem": "linux",
            "osImage": "Simulated Linux",
            "systemUUID": machine.identity("system"),
        },
    }


def owner(machine: SimulatedMachine, node_uid: str) -> Document:
    """The owner reference that ties an object to the machine's Node."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "name": machine.name,
        "uid": node_uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def lease(machine: SimulatedMachine, node_uid: str, renewed: str) -> Document:
    """The kubelet's heartbeat."""
    reference = owner(machine, node_uid)
    del reference["controller"], reference["blockOwnerDeletion"]
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": machine.name,
            "namespace": "kube-node-lease",
            "ownerReferences": [reference],
        },
        "spec": {
            "holderIdentity": machine.name,
            "leaseDurationSeconds": LEASE_SECONDS,
            "renewTime": renewed,
        },
    }


def topology(machine: SimulatedMachine, node_uid: str, annotations: dict[str, str]) -> Document:
    """The NodeResourceTopology; see :func:`pool_annotations` for what changes with the pods."""
    names = [f"node-{number}" for number in range(machine.numa_nodes)]
    zones = [_zone(machine, number, names) for number in range(machine.numa_nodes)]
    return {
        "apiVersion": "topology.node.k8s.io/v1alpha1",
        "kind": "NodeResourceTopology",
        "metadata": {
            "name": machine.name,
            "labels": MANAGED_BY,
            "annotations": _machine_annotations(machine) | annotations,
            "ownerReferences": [owner(machine, node_uid)],
        },
        "topologyPolicies": ["None"],
        "zones": sorted(zones, key=lambda zone: str(zone["name"])),
    }


def pool_annotations(
    machine: SimulatedMachine,
    bound: Iterable[tuple[QoSClass, str]],
    reservation: NodeReservation | None,
) -> dict[str, str]:
    """The annotations that tell which CPUs are shared.

    Args:
        bound: QoS class and CPU list of each pod that is bound to CPUs.
        reservation: what the node keeps for others.
    """
    kept = kept_cpus(machine.cpus, reservation)
    held = (BoundCPUs(qos, text) for qos, text in bound)
    pools = shared_pools(machine.cpus, held, CPUSet(), kept)
    found = {
        keys.CPU_SHARED_POOLS: annotation.text(pools.shared),
        keys.BE_CPU_SHARED_POOLS: annotation.text(pools.best_effort),
    }
    if reservation is not None:
        report = {"reservedCPUs": str(kept)} if kept else {}
        found[keys.NODE_RESERVATION] = annotation.text(report)
    return found


def device(machine: SimulatedMachine, node_uid: str) -> Document:
    """The Device with the machine's cards."""
    gpus = machine.pool.gpus
    labels = dict(MANAGED_BY)
    if gpus is not None:
        labels[keys.GPU_VENDOR] = "nvidia"
        labels[keys.GPU_MODEL] = gpus.model
        labels[keys.GPU_DRIVER_VERSION] = gpus.driver
    cards = [
        {
            "type": "gpu",
            "id": gpu.uuid,
            "minor": gpu.minor,
            "health": True,
            "resources": {GPU_CORE: "100", GPU_MEMORY: str(gpu.memory_bytes),
                          GPU_MEMORY_RATIO: "100"},
            "topology": {"socketID": gpu.socket, "nodeID": gpu.numa_node, "pcieID": gpu.pcie,
                         "busID": gpu.bus},
        }
        for gpu in machine.gpus
    ]  # fmt: skip
    return {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "Device",
        "metadata": {
            "name": machine.name,
            "labels": labels,
            "ownerReferences": [owner(machine, node_uid)],
        },
        "spec": {"devices": cards},
    }


def _zone(machine: SimulatedMachine, number: int, names: Sequence[str]) -> Document:
    amounts = {
        "cpu": str(sum(1 for cpu in machine.cpus if cpu.node == number)),
        "memory": f"{machine.memory_bytes // machine.numa_nodes // 1024}Ki",
    }
    per_socket = machine.pool.numa_nodes_per_socket

    def distance(other: int) -> int:
        if other == number:
            return _DISTANCE_NEAR
        return _DISTANCE_SOCKET if other // per_socket == number // per_socket else _DISTANCE_FAR

    return {
        "name": names[number],
        "type": "Node",
        "costs": [{"name": name, "value": distance(at)} for at, name in enumerate(names)],
        "resources": [
            {"name": name, "capacity": text, "allocatable": text, "available": text}
            for name, text in sorted(amounts.items())
        ],
    }


def _machine_annotations(machine: SimulatedMachine) -> dict[str, str]:
    policy = KubeletCPUManagerPolicy(policy=machine.pool.cpu_manager_policy)
    basic = CPUBasicInfo(
        cpu_model=machine.pool.cpu_model,
        hyper_thread_enabled=machine.pool.threads_per_core > 1,
        turbo_enabled=True,
        cat_l3_cbm_mask="fffff",
        vendor_id="GenuineIntel",
    )
    return {
        keys.CPU_TOPOLOGY: annotation.text(CPUTopology(detail=list(machine.cpus))),
        keys.CPU_BASIC_INFO: annotation.text(basic),
        keys.CPU_MANAGER_POLICY: annotation.text(policy),
        keys.POD_CPU_ALLOCS: "null",
    }
