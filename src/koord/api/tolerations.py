# SPDX-License-Identifier: Apache-2.0
"""Whether a pod puts up with taints (Kubernetes: Toleration.ToleratesTaint)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from koord.api.kinds.constraints import Taint, Toleration

KEEPS_OUT = ("NoSchedule", "NoExecute")
PREFERS_NOT = ("PreferNoSchedule",)


def tolerates(tolerations: Iterable[Toleration], taint: Taint) -> bool:
    """Whether any toleration covers a taint.

    An empty effect covers all, an empty key with ``Exists`` too; an empty operator is ``Equal``,
    one that is not known covers nothing.
    """
    return any(_covers(toleration, taint) for toleration in tolerations)


def untolerated(
    taints: Iterable[Taint], tolerations: Sequence[Toleration], effects: tuple[str, ...]
) -> Taint | None:
    """The first taint of some effects that no toleration covers."""
    for taint in taints:
        if taint.effect in effects and not tolerates(tolerations, taint):
            return taint
    return None


def _covers(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in ("", "Equal"):
        return toleration.value == taint.value
    return toleration.operator == "Exists"
