# SPDX-License-Identifier: Apache-2.0
"""What of a pod will not do what its author may think; nothing is refused for it.

Rule: docs/reference/admission.md#warnings.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from koord.api.protocol import absent, gang, keys, reservations, resources
from koord.api.protocol.annotation import field_of
from koord.api.protocol.priority import PriorityClass, class_with_default
from koord.base.errors import KoordError
from koord.controllers.webhook.pods.validation.quota_membership import membership_warnings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from koord.api.kinds.pod import Pod
    from koord.controllers.webhook.elasticquotas.quota_topology import QuotaTopology

MAX_WARNINGS = 10
"""An API server passes on 4096 bytes in all."""
PROTECTED = (
    keys.EXTENDED_RESOURCE_SPEC, keys.DEVICE_ALLOCATED, keys.RESERVATION_ALLOCATED,
    keys.RESOURCE_STATUS,
)  # fmt: skip
"""Annotations of bound pods that only koord changes, as deploy/policies has it."""
ACCOUNTS = (
    "system:serviceaccount:koordinator-system:koord-manager",
    "system:serviceaccount:koordinator-system:koord-scheduler",
)


def warnings(
    pod: Pod, old: Pod | None, username: str, quotas: QuotaTopology | None
) -> tuple[str, ...]:
    """Lines for the user, each naming object, field, value and what would be right.

    Args:
        pod: as it is to be, with its namespace.
        old: as it is; None for a new one.
        username: who asks.
        quotas: that there are; None where they do not count.
    """
    found = _of_change(pod, old, username) if old is not None else _of_new(pod, quotas)
    lines = [str(error) for error, _ in zip(found, range(MAX_WARNINGS + 1), strict=False)]
    if len(lines) > MAX_WARNINGS:
        lines[MAX_WARNINGS:] = ["and more"]
    return tuple(lines)


def _of_new(pod: Pod, quotas: QuotaTopology | None) -> Iterator[KoordError]:
    yield from absent.pod_labels(pod)
    if quotas is not None:
        yield from membership_warnings(pod, quotas)
    yield from _gang(pod)
    for read in (reservations.reservation_affinity, reservations.exact_match):
        try:
            read(pod)
        except KoordError as error:
            yield error
    yield from _resources_of_class(pod)


def _gang(pod: Pod) -> Iterator[KoordError]:
    annotations = pod.metadata.annotations
    if keys.GANG_NAME not in annotations:
        return
    try:
        gang.min_available(pod)
    except KoordError as error:
        yield error
    yield from chain(absent.gang_annotations(pod), absent.gang_groups(pod))


def _resources_of_class(pod: Pod) -> Iterator[KoordError]:
    """Native amounts of a class that has its own, and own amounts that nothing limits."""
    priority_class = class_with_default(pod)
    if priority_class not in (PriorityClass.BATCH, PriorityClass.MID):
        return
    for index, container in enumerate(pod.spec.containers):
        given, path = container.resources, f"spec.containers[{index}].resources"
        for native in (resources.CPU, resources.MEMORY):
            own = resources.translated(priority_class, native)
            if native in given.requests:
                amount = str(given.requests[native])
                expected = f"{own}: of {priority_class} native amounts are taken from others"
                yield KoordError(pod.title, f"{path}.requests[{native}]", amount, expected)
            if own in given.requests and own not in given.limits:
                yield KoordError(pod.title, f"{path}.limits[{own}]", None, "a limit")


def _of_change(pod: Pod, old: Pod, username: str) -> Iterator[KoordError]:
    if not old.spec.node_name or username in ACCOUNTS:
        return
    for key in PROTECTED:
        now, before = pod.metadata.annotations.get(key), old.metadata.annotations.get(key)
        if now != before:
            expected = "what it was: of a bound pod koord's service accounts alone change it"
            yield KoordError(pod.title, field_of(key), now, expected)
