# SPDX-License-Identifier: Apache-2.0
"""Pods, and the pod templates of whatever makes pods: labels, annotations, classes, references."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from koord.api import objects, priority_classes, requests
from koord.api.kinds.cluster import PriorityClass
from koord.api.kinds.pod import Pod
from koord.api.kinds.quota import PodGroup
from koord.api.kinds.registry import kind_of_type
from koord.api.kinds.reservation import Reservation
from koord.api.protocol import absent, admission, agent, eviction, gang, keys, scheduling
from koord.api.protocol import reservations as reserving
from koord.api.protocol.annotation import field_of
from koord.api.protocol.quotas import pod_quota_name
from koord.api.sloconfig.rules import problems as strategy_problems
from koord.base.errors import KoordError
from koord.check.object_index import DEFAULT_NAMESPACE
from koord.check.problem import Finding
from koord.check.registry import checker
from koord.controllers.scheduler.plugins.coscheduling.objects import gang_declaration
from koord.controllers.scheduler.plugins.deviceshare.objects.resource_combinations import (
    InvalidRequestError,
    device_requests,
)
from koord.controllers.scheduler.plugins.nodenumaresource.objects.pod_request import request_of
from koord.controllers.scheduler.plugins.reservation.objects.reservation_affinity import (
    ReservationRequest,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from koord.check.object_index import ObjectIndex
    from koord.check.subject import Subject

_READERS: tuple[Callable[[Pod], object], ...] = (
    agent.network_limits_bytes, agent.cpu_qos, agent.memory_qos, agent.blkio_qos, agent.resctrl,
    agent.extended_resource_spec, eviction.eviction_priority, eviction.eviction_cost,
    eviction.soft_eviction, scheduling.device_hints, scheduling.gpu_partition_spec,
    scheduling.scheduling_hint, gang.network_topology_spec, gang.network_topology_index,
    ReservationRequest,
    lambda pod: request_of(pod, requests.effective(pod), ""),
    lambda pod: [agent.oom_score_adj(pod, each.name) for each in pod.spec.containers],
)  # fmt: skip
_BUILT_IN_PRIORITIES = {"system-cluster-critical": 2_000_000_000,
                        "system-node-critical": 2_000_001_000}  # fmt: skip
_SECONDS = (keys.LOAD_ESTIMATED_SECONDS_AFTER_POD_SCHEDULED,
            keys.LOAD_ESTIMATED_SECONDS_AFTER_INITIALIZED)  # fmt: skip
_BARE = {"apiVersion": "v1", "kind": "Pod"}
_PRIORITY_CLASS, _POD_GROUP = kind_of_type(PriorityClass), kind_of_type(PodGroup)
_RESERVATION = kind_of_type(Reservation)


@checker("Pod", "")
def labels_and_annotations(subject: Subject, world: ObjectIndex) -> Iterator[Finding]:
    """What the components read of a pod's metadata, read as they do."""
    del world
    pod = subject.typed
    if isinstance(pod, KoordError):
        # Something else in it may be what cannot be read.
        metadata = subject.document.get("metadata")
        pod = objects.decode({**_BARE, "metadata": metadata}, subject.title)
    if isinstance(pod, Pod):
        yield from metadata_findings(pod)


@checker("Pod", "")
def classes(subject: Subject, world: ObjectIndex) -> Iterator[Finding]:
    """QoS class, priority and requests as admission compares them."""
    pod = subject.typed
    if not isinstance(pod, Pod):
        return
    name = pod.spec.priority_class_name
    priority = priority_of(pod, world)
    if pod.spec.priority is None and priority is not None:
        spec = msgspec.structs.replace(pod.spec, priority=priority)
        pod = msgspec.structs.replace(pod, spec=spec)
    # A profile may add labels and a priority, and an unknown class has some priority.
    complete = not name or priority is not None
    for error in admission.problems(pod) if complete else admission.request_problems(pod):
        added = error.value is None or str(error.value).endswith("without a priority class")
        is_class = error.field == f"labels[{keys.QOS_CLASS}]"
        yield Finding.warning(*Finding.of(error)[:3]) if added and is_class else Finding.of(error)
    yield from _amounts(pod)


def _amounts(pod: Pod) -> Iterator[Finding]:
    """Requests that the scheduler refuses, as far as admission does not."""
    wrong = requests.wrong_amount(pod)
    if wrong is not None and not wrong.amount.startswith("-"):
        yield Finding(wrong.field, wrong.amount, wrong.expected)
        return
    if any("gpu" in error.field for error in admission.problems(pod)):
        return
    try:
        device_requests(requests.effective(pod))
    except InvalidRequestError as error:
        asked = " ".join(f"{name} {amount}" for name, amount in sorted(error.requested.items()))
        yield Finding("spec.containers[0].resources.requests", asked, error.expected)


@checker("Pod", "")
def references(subject: Subject, world: ObjectIndex) -> Iterator[Finding]:
    """Priority class, quota, gang and reservation that a pod names."""
    pod = subject.typed
    if not isinstance(pod, Pod):
        return
    namespace = pod.metadata.namespace or DEFAULT_NAMESPACE
    if pod.spec.priority_class_name:
        name = pod.spec.priority_class_name
        yield from priority_findings(world, "spec.priorityClassName", name)
    if name := pod_quota_name(pod):
        from koord.check.kinds.quotas import quota_reference

        yield from quota_reference(world, f"labels[{keys.QUOTA_NAME}]", name, namespace)
    if gang_declaration.by_pod_group(pod):
        name = gang.gang_name(pod)
        key = keys.POD_GROUP if keys.POD_GROUP in pod.metadata.labels else keys.POD_GROUP_OLD
        yield from world.reference(_POD_GROUP, f"labels[{key}]", name, namespace)
    try:
        affinity = reserving.reservation_affinity(pod)
    except KoordError:
        return
    if affinity is not None and affinity.name:
        path = f"{field_of(keys.RESERVATION_AFFINITY)}.name"
        yield from world.reference(_RESERVATION, path, affinity.name)


def metadata_findings(pod: Pod) -> Iterator[Finding]:
    """What is wrong with a pod's labels and annotations.

    What readers take for absent because it is malformed is wrong as well: somebody wrote it.
    """
    for reader in _READERS:
        try:
            reader(pod)
        except KoordError as error:
            yield Finding.of(error)
    yield from _burst(pod)
    yield from _words(pod)
    yield from _gang(pod)
    annotations = pod.metadata.annotations
    for key in _SECONDS:
        if key in annotations and scheduling.load_estimated_seconds(pod, key) < 0:
            yield Finding(field_of(key), annotations[key], "a whole number of seconds")
    for index, item in enumerate(annotations.get(keys.REPLACE_RESOURCES, "").split(",")):
        if item.strip() and item.count(":") != 1:
            yield Finding(
                field_of(keys.REPLACE_RESOURCES), item,
                f"OLD:NEW or OLD: as item {index + 1} of the list",
            )  # fmt: skip


def _burst(pod: Pod) -> Iterator[Finding]:
    strategy = agent.cpu_burst(pod) if _readable(agent.cpu_burst, pod) else None
    if strategy is not None:
        field = field_of(keys.CPU_BURST)
        yield from map(Finding.of, strategy_problems(strategy, pod.title, field))


def _words(pod: Pod) -> Iterator[Finding]:
    """Labels whose words count as absent where they are unknown."""
    yield from map(Finding.of, absent.pod_labels(pod))
    policy = pod.metadata.labels.get(keys.CORE_SCHED_POLICY, "")
    if policy and not agent.core_sched_policy(pod):
        yield Finding(f"labels[{keys.CORE_SCHED_POLICY}]", policy, "none or exclusive")


def _gang(pod: Pod) -> Iterator[Finding]:
    if gang.gang_name(pod) and not gang_declaration.by_pod_group(pod):
        try:
            gang_declaration.of_pod(
                pod, gang_declaration.gang_id(pod), gang_declaration.GangDefaults()
            )
        except KoordError as error:
            value = pod.metadata.annotations.get(keys.GANG_MIN_AVAILABLE)
            yield Finding.of(error)._replace(value=error.value or value)
    yield from map(Finding.of, absent.gang_annotations(pod))
    if gang.gang_name(pod):
        yield from map(Finding.of, absent.gang_ids(pod))


def _readable(reader: Callable[[Pod], object], pod: Pod) -> bool:
    try:
        reader(pod)
    except KoordError:
        return False
    return True


def priority_of(pod: Pod, world: ObjectIndex) -> int | None:
    """The priority that admission gives a pod; None where its class is not known."""
    name = pod.spec.priority_class_name
    if pod.spec.priority is not None or not name:
        return pod.spec.priority
    found = world.find(_PRIORITY_CLASS, name)
    if isinstance(found, PriorityClass):
        return found.value
    return _known_priorities().get(name)


def priority_findings(world: ObjectIndex, path: str, name: str) -> Iterator[Finding]:
    """Whether a priority class that is named exists."""
    yield from world.reference(_PRIORITY_CLASS, path, name, known=list(_known_priorities()))


def _known_priorities() -> dict[str, int]:
    shipped = {each["metadata"]["name"]: int(each["value"]) for each in priority_classes()}
    return {**_BUILT_IN_PRIORITIES, **shipped}
