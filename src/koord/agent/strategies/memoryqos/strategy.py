# SPDX-License-Identifier: Apache-2.0
"""Memory protection, throttling, reclaim and page cache by QoS class, pod and container.

Rule: docs/reference/strategies.md#memory-qos. One scope holds the whole tree, since levels depend
on each other; the executor writes growing protections from the top and shrinking ones from the
bottom.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from koord.agent.executor.claim import Claim
from koord.agent.states.pod_state import ContainerKind
from koord.agent.strategies import one_node, pod_resources, readings
from koord.agent.strategies.memoryqos import decision, quality_of_pod
from koord.api.protocol.resources import MEMORY
from koord.base.errors import Code, KoordError
from koord.kernels.cgroup_path import KubeQos

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from koord.agent.states.pod_state import ContainerState, PodState
    from koord.agent.strategies.options import StrategyOptions
    from koord.agent.strategies.strategy import Actuators, Tick
    from koord.api.kinds.qos_strategy import MemoryQOS, ResourceQOSStrategy

    Ints = NDArray[np.int64]

_CLASSES = (KubeQos.GUARANTEED, KubeQos.BURSTABLE, KubeQos.BEST_EFFORT)
_ORDINARY = {
    "memory.wmark_ratio": "wmark_ratio",
    "memory.wmark_scale_factor": "wmark_scale_permill",
    "memory.wmark_min_adj": "wmark_min_adj",
}
_OOM = {
    "memory.use_priority_oom": "priority_enable",
    "memory.priority": "priority",
    "memory.oom.group": "oom_kill_group",
}


class MemoryQoS:
    """Claims memory protection and reclaim settings of classes, pods and containers.

    It looks at requests and limits only, so no age of measurements matters.
    """

    name = "memoryqos"
    gate = "CgroupReconcile"

    def __init__(self, options: StrategyOptions) -> None:
        self.interval_seconds = options.reconcile_interval_seconds

    def run(self, tick: Tick, hands: Actuators) -> Mapping[str, object]:
        """One round; see the protocol."""
        strategy = readings.slo_spec(tick).resource_qos_strategy
        if strategy is None:
            raise KoordError("NodeSLO", "resourceQOSStrategy", None, "one", Code.NOT_FOUND)
        node = pod_resources.amount(readings.node(tick).status.allocatable, MEMORY)
        if node is None:
            raise KoordError("Node", "status.allocatable.memory", None, "bytes", Code.NOT_FOUND)
        set_up = [
            (pod, own)
            for pod in tick.snapshot.pods.value
            if pod.active
            for own in (quality_of_pod.of_pod(strategy, pod),)
            if own is not None
        ]
        pods, least, low = _pod_claims(set_up)
        containers = _container_claims(set_up, node, tick.machine.page_bytes)
        classes = _class_claims(tick, strategy, set_up, least, low)
        hands.executor.state(self.name, "node", [*classes, *pods, *containers])
        return {"pods": len(set_up), "claims": len(classes) + len(pods) + len(containers)}

    def stop(self, hands: Actuators) -> None:
        """Takes all claims back."""
        hands.executor.withdraw(self.name)


def _pod_claims(
    set_up: Sequence[tuple[PodState, MemoryQOS]],
) -> tuple[list[Claim], Ints, Ints]:
    request = one_node.column([pod_resources.memory_request_bytes(pod) for pod, _ in set_up])
    settings = [own for _, own in set_up]
    least_percent = _settings(settings, "min_limit_percent")
    low_percent = _settings(settings, "low_limit_percent")
    least, low = decision.protections(request, least_percent, low_percent)
    caches = decision.page_caches(
        one_node.column([pod_resources.memory_limit_bytes(pod) for pod, _ in set_up]),
        _settings(settings, "page_cache_limit_size"),
        _settings(settings, "page_cache_limit_percent"),
    )
    claims: list[Claim] = []
    for at, (pod, own) in enumerate(set_up):
        claims += _protected(pod.directory, least[at], low[at], None)
        claims += _copied(pod.directory, own, {**_ORDINARY, **_OOM})
        claims += _page_cache(pod.directory, own, int(caches[at]))
    # The directory of a class adds up what pods ask for, not what raising low to min made of it.
    _, plain_low = decision.protections(request, np.zeros_like(least_percent), low_percent)
    return claims, least, plain_low


def _container_claims(
    set_up: Sequence[tuple[PodState, MemoryQOS]], node_bytes: int, page_bytes: int
) -> list[Claim]:
    rows = [
        (container, own, *_requested(pod, container))
        for pod, own in set_up
        for container in pod.containers
        if container.kind is ContainerKind.REGULAR and container.id and container.spec
    ]
    settings = [row[1] for row in rows]
    request = one_node.column([row[2] for row in rows])
    least, low = decision.protections(
        request,
        _settings(settings, "min_limit_percent"),
        _settings(settings, "low_limit_percent"),
    )
    high = decision.throttles(
        request,
        one_node.column([row[3] for row in rows]),
        one_node.column([node_bytes] * len(rows)),
        _settings(settings, "throttling_percent"),
        least,
        page_bytes,
    )
    claims: list[Claim] = []
    for at, (container, own, _, _) in enumerate(rows):
        claims += _protected(container.directory, least[at], low[at], high[at])
        claims += _copied(container.directory, own, {**_ORDINARY, **_OOM})
    return claims


def _class_claims(
    tick: Tick,
    strategy: ResourceQOSStrategy,
    set_up: Sequence[tuple[PodState, MemoryQOS]],
    least: Ints,
    low: Ints,
) -> list[Claim]:
    """Sums by class; the directory of Guaranteed pods is the parent of all."""
    group = one_node.column([_CLASSES.index(pod.kube_qos) for pod, _ in set_up])
    claims: list[Claim] = []
    of_class = [decision.class_sums(group, values, len(_CLASSES)) for values in (least, low)]
    of_all = [decision.class_sums(np.zeros_like(group), values, 1)[0] for values in (least, low)]
    for at, kube in enumerate(_CLASSES):
        directory = tick.machine.layout.qos(kube)
        sums = of_all if kube is KubeQos.GUARANTEED else [values[at] for values in of_class]
        claims += _protected(directory, sums[0], sums[1], None)
        own = quality_of_pod.of_kube_class(strategy, kube)
        if own is not None:
            claims += _copied(directory, own, _OOM)
    return claims


def _requested(pod: PodState, container: ContainerState) -> tuple[int, int]:
    """Request and limit of a container in bytes; 0 for none."""
    assert container.spec is not None, "only containers with a spec come here"
    name, resources = pod_resources.memory_names(pod), container.spec.resources
    request = pod_resources.amount(resources.requests, name) or 0
    return max(0, request), pod_resources.amount(resources.limits, name) or 0


def _protected(
    directory: str, least: np.int64, low: np.int64, high: np.int64 | None
) -> list[Claim]:
    values = {"memory.min": least, "memory.low": low, "memory.high": high}
    return [
        Claim(resource, directory, int(value), "memory QoS")
        for resource, value in values.items()
        if value is not None and value != decision.UNSET
    ]


def _copied(directory: str, own: MemoryQOS, files: Mapping[str, str]) -> list[Claim]:
    values = {resource: getattr(own, field) for resource, field in files.items()}
    return [
        Claim(resource, directory, int(value), "memory QoS")
        for resource, value in values.items()
        if value is not None
    ]


def _page_cache(directory: str, own: MemoryQOS, size: int) -> list[Claim]:
    """What says nothing of a size leaves the size that is there."""
    values: dict[str, int] = {}
    if size != decision.UNSET:
        values = {"enable": int(size > 0), "size": size}
    if size > 0:
        values["sync"] = int(bool(own.page_cache_reclaim_sync))
    if own.page_cache_enable is not None:
        values["enable"] = int(own.page_cache_enable)
    prefix = "memory.pagecache_limit"
    return [
        Claim(f"{prefix}.{key}", directory, value, "page cache") for key, value in values.items()
    ]


def _settings(settings: Sequence[MemoryQOS], field: str) -> Ints:
    found = [getattr(own, field) for own in settings]
    return one_node.column([decision.UNSET if value is None else value for value in found])
