# SPDX-License-Identifier: Apache-2.0
"""What users read when a gang does not get on; the words are Koordinator's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api.codec import to_json

if TYPE_CHECKING:
    from collections.abc import Iterable

GANG_NOT_FOUND = "Gang not found"
NO_TOPOLOGY = "no cluster network topology"


def unknown_gang(gang: str, pod: str) -> str:
    """A pod names a gang of which nothing is known."""
    return f"can't find gang, gangName: {gang}, podName: {pod}"


def undeclared(gang: str, pod: str, why: str) -> str:
    """Nobody has said how many pods the gang needs.

    Args:
        gang: its id.
        pod: whom the message is for.
        why: what is wrong with the declaration there is, ``""`` if there is none.
    """
    text = f"gang has not init, gangName: {gang}, podName: {pod}"
    return f"{text}: {why or f'there is no PodGroup {gang}'}"


def incomplete(
    group: Iterable[str],
    unknown: Iterable[str],
    undeclared: Iterable[str],
    short: Iterable[str],
    gang: str,
    pod: str,
) -> str:
    """Some gangs of a group are not there, not declared, or have too few pods."""
    parts = []
    if unknown := listed(unknown):
        parts.append(f"memberGangs {unknown} doesn't exists")
    if undeclared := listed(undeclared):
        parts.append(f"memberGangs {undeclared} has not init")
    if listed(short):
        parts.append(f"memberGangs {listed(group)} child pod not collect enough")
    what = ", ".join(parts)
    head = f"gangGroup {listed(group)} basic check: {what}"
    return f"{head}, current gang: {gang}, podName: {pod}"


def rejected(group: str, pod: str, why: str, waiting: int) -> str:
    """A pod of the group fits nowhere, so the others do not get nodes either.

    Args:
        group: its id.
        pod: the pod that fits nowhere.
        why: its own message.
        waiting: how many pods had a node by then.
    """
    return (
        f"GangGroup {quoted(group)} gets rejected due to member Pod {quoted(pod)} is unschedulable"
        f" with reason {quoted(why)}, alreadyWaitForBound: {waiting}"
    )


def released(gang: str, pod: str) -> str:
    """A pod that had a node lost it again, and takes those with it that wait."""
    return f"Gang {quoted(gang)} gets rejected due to Pod {quoted(pod)} in Unreserve"


def no_place(
    desired: int, places: Iterable[tuple[str, int]], fit: str, multiples: dict[str, int]
) -> str:
    """No place of the network has room for the job.

    Args:
        desired: how many pods there are.
        places: ``layer/name`` of the places looked at, with the pods each has room for.
        fit: why pods do not fit on nodes.
        multiples: by layer, of what a place's pods must be a multiple.
    """
    slots = ";".join(sorted(f"topology topologyNode {name}: {count}" for name, count in places))
    text = (
        "no candidate topology nodes can accommodate job, "
        f"desiredOfferSlot: {desired}, {slots}, {fit}"
    )
    if not multiples:
        return text
    limits = ", ".join(sorted(f"{layer}={multiple}" for layer, multiple in multiples.items()))
    return f"{text}; podCountMultiple constraints: {limits}"


def listed(names: Iterable[str]) -> str:
    """Names as ``[a b]``, ``""`` for none."""
    text = " ".join(names)
    return f"[{text}]" if text else ""


def quoted(text: str) -> str:
    """Text in double quotes, those inside escaped."""
    return to_json(text).decode()


def still_short(group: str, missing: int) -> str:
    """Pods that the group needs cannot be tried now: gated, being deleted, on their way.

    Args:
        group: its id.
        missing: how many.
    """
    return f"GangGroup {quoted(group)} waits for {missing} more pods that can be scheduled"
