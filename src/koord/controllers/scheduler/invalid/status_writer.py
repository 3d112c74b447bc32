# SPDX-License-Identifier: Apache-2.0
"""How an object says that it is invalid: a condition where its kind has some, else an annotation.

Whole documents are read and changed, since an object that is invalid may not decode.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from koord.api.kinds.meta import Object
from koord.api.kinds.quota import ElasticQuota, GroupQuota, PodGroup
from koord.api.kinds.registry import kind_of_type
from koord.api.kinds.reservation import (
    FAILED,
    SCHEDULED,
    SUCCEEDED,
    UNSCHEDULABLE,
    VALID,
    Reservation,
)
from koord.api.protocol.keys import PROBLEM
from koord.api.timestamps import seconds_text
from koord.base.errors import Code
from koord.kube.patches import Patch
from koord.kube.requests import retry

if TYPE_CHECKING:
    from koord.api.kinds.meta import ObjectReference
    from koord.kube.client import Client

StatusWriter = Callable[["Client", type[Object], "ObjectReference", str, float], Awaitable[bool]]


def of(kind: type[Object]) -> StatusWriter | None:
    """How objects of a kind say so; None where an event has to do.

    The function takes the client, the kind, the object, the message (empty: nothing is wrong any
    more) and the wall time in seconds. It gives whether the object did not say so already, and
    raises ApiError where it cannot be read or written.
    """
    return _TRACES.get(kind)


def recorded_message(item: Object) -> str:
    """What an object says of itself that is wrong with it; empty for nothing.

    Of a Reservation that has no node the condition also tells what is not wrong with it, that it
    fits nowhere, and is not looked at.
    """
    if isinstance(item, Reservation):
        said = (each.message for each in item.status.conditions if each.type == VALID)
        return next(said, "")
    return item.metadata.annotations.get(PROBLEM, "")


async def _annotate(
    client: Client, kind: type[Object], about: ObjectReference, message: str, now_seconds: float
) -> bool:
    """What the annotation said before is the caller's to look at: he has read the object."""
    del now_seconds
    served = kind_of_type(kind)
    value = message or None
    patch = Patch.merge({"metadata": {"uid": about.uid, "annotations": {PROBLEM: value}}})
    await client.patch(served, about.name, patch, about.namespace)
    return True


async def _condition(
    client: Client, kind: type[Object], about: ObjectReference, message: str, now_seconds: float
) -> bool:
    """A Reservation that has no node says that it cannot be scheduled, and why; else ``Valid``."""
    served = kind_of_type(kind)

    async def work() -> bool:
        document = await client.get(served, about.name, about.namespace)
        meta, status = document["metadata"], document.get("status") or {}
        conditions = status.get("conditions") or []
        if meta.get("uid") != about.uid or status.get("phase") in (SUCCEEDED, FAILED):
            return False
        # What becomes valid before it has a node is tried, and says how that went.
        holds = bool(status.get("nodeName"))
        sort, reason = (VALID, Code.INVALID.value) if holds else (SCHEDULED, UNSCHEDULABLE)
        if not message and not holds:
            return False
        fresh = [_untrue(sort, reason, conditions, message, now_seconds)] if message else []
        others = [each for each in conditions if each.get("type") != sort]
        if [each for each in conditions if each.get("type") == sort] == fresh:
            return False
        change = {"metadata": {"uid": about.uid, "resourceVersion": meta["resourceVersion"]}}
        patch = Patch.merge({**change, "status": {"conditions": [*others, *fresh]}})
        await client.patch(served, about.name, patch, about.namespace, "status")
        return True

    return await retry.on_conflict(work)


def _untrue(
    sort: str, reason: str, conditions: list[Any], message: str, now_seconds: float
) -> dict[str, str]:
    """A condition that does not hold, dated when it ceased to; the known one if that says so."""
    none: dict[str, Any] = {}
    known = next((each for each in conditions if each.get("type") == sort), none)
    said = {"status": "False", "reason": reason, "message": message}
    if all(known.get(field) == value for field, value in said.items()):
        return dict(known)
    now = seconds_text(now_seconds)
    since = known.get("lastTransitionTime", now) if known.get("status") == "False" else now
    return {"type": sort, **said, "lastProbeTime": now, "lastTransitionTime": since}


_TRACES: dict[type[Object], StatusWriter] = {
    Reservation: _condition,
    PodGroup: _annotate,
    ElasticQuota: _annotate,
    GroupQuota: _annotate,
}
