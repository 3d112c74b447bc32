# SPDX-License-Identifier: Apache-2.0
"""Who may use a reservation: owner entries, and by which key each is found.

Rule: docs/reference/reservations.md#owners.

An entry is filed under the most telling thing that it asks of a pod, so that a pod looks at the
reservations that can be meant for it instead of at all of them. Entries that ask for a pod's name
or uid are *personal*: two pods of one shape may differ in what they match.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from koord.api import selectors
from koord.api.kinds.meta import ObjectReference
from koord.api.protocol import annotation, keys
from koord.base.errors import KoordError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from koord.api.kinds.meta import OwnerReference
    from koord.api.kinds.pod import Pod
    from koord.api.kinds.reservation import ControllerReference, Reservation, ReservationOwner

Key = tuple[str, ...]
ANY: Key = ("any",)
_UID, _NAME, _LABEL, _CONTROLLER = "uid", "name", "label", "controller"
_VERSION = "v1"


def check(owners: Sequence[ReservationOwner], object_name: str, field: str) -> None:
    """Accepts owner entries that can be evaluated.

    Raises:
        KoordError: a malformed label selector.
    """
    for index, owner in enumerate(owners):
        if owner.label_selector is not None:
            where = f"{field}[{index}].labelSelector"
            selectors.check(owner.label_selector, object_name, where)


def of_reservation(reservation: Reservation) -> tuple[ReservationOwner, ...]:
    """The entries of a Reservation, those without a namespace for that of its annotation.

    Rule: docs/reference/reservations.md#reach.

    Raises:
        KoordError: an entry names no namespace, and neither does the annotation.
    """
    namespace = reservation.metadata.annotations.get(keys.OWNER_NAMESPACE, "")
    found = []
    for entry in reservation.spec.owners:
        if not namespaces_of(entry):
            if not namespace:
                field = annotation.field_of(keys.OWNER_NAMESPACE)
                expected = "the namespace of owners that name none (reservation scope: namespace)"
                raise KoordError(reservation.title, field, None, expected)
            entry = _in_namespace(entry, namespace)
        found.append(entry)
    return tuple(found)


def within(entries: Iterable[ReservationOwner], namespace: str) -> tuple[ReservationOwner, ...]:
    """Entries that mean pods of one namespace; those that name others are left out."""
    return tuple(
        _in_namespace(entry, namespace) for entry in entries if namespaces_of(entry) <= {namespace}
    )


def namespaces_of(entry: ReservationOwner) -> set[str]:
    """The namespaces that an entry names; none where it is for pods of all of them."""
    parts = (entry.object, entry.controller)
    return {part.namespace for part in parts if part is not None and part.namespace}


def _in_namespace(entry: ReservationOwner, namespace: str) -> ReservationOwner:
    wanted = entry.object or ObjectReference()
    wanted = msgspec.structs.replace(wanted, namespace=namespace)
    return msgspec.structs.replace(entry, object=wanted)


def is_personal(owner: ReservationOwner) -> bool:
    """Whether an entry asks for one pod by its name or uid."""
    wanted = owner.object
    return wanted is not None and bool(wanted.name or wanted.uid)


def entry_keys(owner: ReservationOwner) -> tuple[Key, ...]:
    """The keys an entry is filed under: a pod that it matches has at least one of them."""
    if owner.object is not None:
        if owner.object.uid:
            return ((_UID, owner.object.uid),)
        if owner.object.name:
            return ((_NAME, owner.object.name),)
    if owner.controller is not None:
        if owner.controller.uid:
            return ((_CONTROLLER, "uid", owner.controller.uid),)
        if owner.controller.name:
            return ((_CONTROLLER, "name", owner.controller.name),)
    if owner.label_selector is not None:
        if owner.label_selector.match_labels:
            return ((_LABEL, *min(owner.label_selector.match_labels.items())),)
        for requirement in owner.label_selector.match_expressions:
            if requirement.operator == selectors.IN:
                return tuple((_LABEL, requirement.key, value) for value in requirement.values)
    return (ANY,)


def shape_keys(pod: Pod) -> Iterator[Key]:
    """The keys that pods of a shape are looked up by, those of personal entries left out."""
    yield ANY
    for key, value in pod.metadata.labels.items():
        yield (_LABEL, key, value)
    for owner in pod.metadata.owner_references:
        yield (_CONTROLLER, "uid", owner.uid)
        yield (_CONTROLLER, "name", owner.name)


def personal_keys(pod: Pod) -> tuple[Key, Key]:
    """The keys of personal entries that may mean the pod."""
    return (_NAME, pod.metadata.name), (_UID, pod.metadata.uid)


def matches(owner: ReservationOwner, pod: Pod) -> bool:
    """Whether a pod satisfies all that an entry says; an empty entry is for everybody."""
    if owner.object is not None and not _is(owner.object, pod):
        return False
    if owner.controller is not None and not _is_controlled(owner.controller, pod):
        return False
    return owner.label_selector is None or selectors.matches(
        owner.label_selector, pod.metadata.labels
    )


def _is(wanted: ObjectReference, pod: Pod) -> bool:
    meta = pod.metadata
    return (
        wanted.uid in ("", meta.uid)
        and wanted.name in ("", meta.name)
        and wanted.namespace in ("", meta.namespace)
        # Of pods there is one version, and informers leave it out.
        and wanted.api_version in ("", _VERSION)
    )


def _is_controlled(wanted: ControllerReference, pod: Pod) -> bool:
    if wanted.namespace not in ("", pod.metadata.namespace):
        return False
    return any(_refers(wanted, owner) for owner in pod.metadata.owner_references)


def _refers(wanted: ControllerReference, owner: OwnerReference) -> bool:
    return (
        (not wanted.controller or owner.controller)
        and wanted.uid in ("", owner.uid)
        and wanted.name in ("", owner.name)
        and wanted.kind in ("", owner.kind)
        and wanted.api_version in ("", owner.api_version)
    )
