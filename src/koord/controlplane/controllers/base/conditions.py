# SPDX-License-Identifier: Apache-2.0
"""Conditions in a status document."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.controlplane.controllers.base.objects import timestamp

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koord.base.documents import Document


def find(conditions: Sequence[Document], condition_type: str) -> Document | None:
    """The condition of a type."""
    return next((c for c in conditions if c["type"] == condition_type), None)


def holds(conditions: Sequence[Document], condition_type: str) -> bool:
    """Whether a condition is there and ``True``."""
    found = find(conditions, condition_type)
    return found is not None and found["status"] == "True"


def condition(condition_type: str, status: bool | str, reason: str, message: str) -> Document:
    """A condition without times; a bool becomes ``True`` or ``False``."""
    return {"type": condition_type, "status": str(status), "reason": reason, "message": message}


def put(
    conditions: Sequence[Document], new: Document, now: float, time_fields: Sequence[str] = ()
) -> list[Document]:
    """The conditions with ``new`` among them, last as in Kubernetes.

    One of the same status and reason stays as it is; the transition time moves with the status.

    Args:
        conditions: those that are there.
        new: without times.
        now: wall seconds.
        time_fields: further fields that hold the time of the last change, e.g. ``lastUpdateTime``.
    """
    old = find(conditions, new["type"])
    if old and old["status"] == new["status"] and old.get("reason") == new.get("reason"):
        return list(conditions)
    moved = timestamp(now)
    kept = old.get("lastTransitionTime") if old and old["status"] == new["status"] else None
    times = {"lastTransitionTime": kept or moved, **dict.fromkeys(time_fields, moved)}
    return [*without(conditions, new["type"]), {**new, **times}]


def without(conditions: Sequence[Document], condition_type: str) -> list[Document]:
    """The conditions but one."""
    return [c for c in conditions if c["type"] != condition_type]
