# SPDX-License-Identifier: Apache-2.0
"""Pods that come with an allocation: a scheduling hint says that their own annotation is it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api.protocol import keys
from koord.api.protocol.scheduling import resource_status, scheduling_hint
from koord.controllers.scheduler.plugins.nodenumaresource.objects.allocation_annotation import (
    NUMAAllocation,
    parse_status,
)
from koord.controllers.scheduler.plugins.nodenumaresource.reasons import NAME

if TYPE_CHECKING:
    from koord.controllers.cluster.pods import PodShape
    from koord.controllers.scheduler.framework.cycle import Cycle

_STATE_KEY = f"{NAME}/designated"
_HINTS = (keys.SCHEDULING_HINT, keys.SCHEDULING_HINT_OLD)


def read(cycle: Cycle) -> None:
    """Takes over the allocation that the pod brings, if it brings one.

    A hint whose ``extensions`` name the plugin makes ``resource-status`` the pod's allocation, if
    that names CPUs or zones.

    Raises:
        KoordError: an annotation is malformed.
    """
    pod = cycle.pod.pod
    notes = pod.metadata.annotations
    if keys.RESOURCE_STATUS not in notes or not any(key in notes for key in _HINTS):
        return
    hint = scheduling_hint(pod)
    if hint is None or NAME not in hint.extensions:
        return
    found = parse_status(resource_status(pod), pod.title)
    if found:
        cycle.state[_STATE_KEY] = found


def may_be(shape: PodShape) -> bool:
    """Whether pods of a shape may bring an allocation."""
    return any(key in shape.annotations for key in _HINTS)


def of(cycle: Cycle) -> NUMAAllocation | None:
    """The allocation that the pod brought."""
    found: NUMAAllocation | None = cycle.state.get(_STATE_KEY)
    return found
