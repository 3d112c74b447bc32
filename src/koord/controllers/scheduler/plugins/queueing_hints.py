# SPDX-License-Identifier: Apache-2.0
"""What queueing hints have in common: the pod of an event, and whether it is the waiting one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.controllers.cluster.pods import PodInfo

if TYPE_CHECKING:
    from koord.api.kinds.pod import Pod


def pod_of(event_object: PodInfo | Pod | None) -> Pod | None:
    """The pod of an event; events of pods on nodes carry a :class:`PodInfo`."""
    return event_object.pod if isinstance(event_object, PodInfo) else event_object


def is_own(info: PodInfo, old: object, new: PodInfo | Pod | None) -> bool:
    """A hint: the pod that waits was itself changed."""
    pod = pod_of(new)
    return pod is not None and pod.metadata.uid == info.uid
