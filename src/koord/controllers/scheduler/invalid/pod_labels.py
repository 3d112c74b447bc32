# SPDX-License-Identifier: Apache-2.0
"""Pods whose labels or gang annotations count as absent, or name no gang: their owners are told."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from koord.api.kinds.pod import Pod
from koord.api.protocol import absent, keys
from koord.api.protocol.gang import gang_name
from koord.base.errors import KoordError

if TYPE_CHECKING:
    from collections.abc import Collection

    from koord.controllers.scheduler.framework.handle import Handle
    from koord.controllers.scheduler.invalid.invalid_objects import InvalidObjects

_ANNOTATIONS = frozenset((
    keys.GANG_MODE, keys.GANG_MATCH_POLICY, keys.GANG_TOTAL_NUMBER, keys.GANG_WAITING_TIME,
    keys.GANG_GROUPS,
))  # fmt: skip


def problem(pod: Pod) -> KoordError | None:
    """What is wrong first with what a pod says; None if nothing is."""
    of_gang = (absent.gang_annotations(pod), absent.gang_groups(pod)) if gang_name(pod) else ()
    found = next(chain(absent.pod_labels(pod), *of_gang), None)
    if found is None:
        return next(absent.gang_ids(pod), None) if gang_name(pod) else None
    return KoordError(
        found.object_name,
        found.field,
        found.value,
        f"{found.expected}: it counts as if it were absent",
    )


class PodLabelValidator:
    """Judges pods that wait for a node.

    Args:
        handle: the view of pods.
        invalid: is told what is found.
        profiles: scheduler names of the pods that are judged.
    """

    def __init__(self, handle: Handle, invalid: InvalidObjects, profiles: Collection[str]) -> None:
        self._invalid = invalid
        self._profiles = frozenset(profiles)
        handle.view(Pod).on_change(
            self._seen, lambda _, pod: self._seen(pod), lambda pod, _: invalid.gone(Pod, pod),
            self._listed,
        )  # fmt: skip

    def _listed(self, pods: list[Pod]) -> list[Pod]:
        """Those that say anything that is judged, of a whole cluster's."""
        return [pod for pod in pods if _says(pod)]

    def _seen(self, pod: Pod) -> None:
        if pod.spec.node_name:
            # What is told of it stands in its events; there is nothing left to keep.
            self._invalid.settled(Pod, pod)
        elif pod.spec.scheduler_name in self._profiles:
            self._invalid.judge(Pod, pod, problem(pod))


def _says(pod: Pod) -> bool:
    meta = pod.metadata
    return not (
        absent.POD_LABELS.isdisjoint(meta.labels) and _ANNOTATIONS.isdisjoint(meta.annotations)
    )
