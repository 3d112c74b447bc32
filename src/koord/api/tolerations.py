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
    """Whether any toleration covers a taint."""
    return any(covers(toleration, taint) for toleration in tolerations)


def untolerated(
    taints: Iterable[Taint], tolerations: Sequence[Toleration], effects: Sequence[str]
) -> Taint | None:
    """The first taint of some effects that no toleration covers."""
    for taint in taints:
        if taint.effect in effects and not tolerates(tolerations, taint):
            return taint
    return None


def covers(toleration: Toleration, taint: Taint) -> bool:
    """Whether one toleration covers a taint.

    An empty effect is any effect, an empty key any key; an empty operator is ``Equal``, one that is
    not known covers nothing. ``Lt`` and ``Gt``, which Kubernetes 1.35 knows behind a gate that is
    off, are not known.
    """
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in ("", "Equal"):
        return toleration.value == taint.value
    return toleration.operator == "Exists"
