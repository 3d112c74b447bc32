# SPDX-License-Identifier: Apache-2.0
"""Pods whose QoS label is no class: it counts as absent, and their owners should know."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api.kinds.pod import Pod
from koord.api.protocol import keys
from koord.api.protocol.qos import QoSClass
from koord.base.errors import KoordError

if TYPE_CHECKING:
    from collections.abc import Collection

    from koord.controllers.scheduler.framework.handle import Handle
    from koord.controllers.scheduler.invalid.objects import InvalidObjects

_CLASSES = frozenset(QoSClass)


def problem(pod: Pod) -> KoordError | None:
    """What is wrong with a pod's QoS label; None if nothing is."""
    says = pod.metadata.labels.get(keys.QOS_CLASS, "")
    if says in _CLASSES:
        return None
    expected = "LSE, LSR, LS, BE or SYSTEM: it counts as if it were absent"
    return KoordError(pod.title, f"labels[{keys.QOS_CLASS}]", says, expected)


class QosLabels:
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
        return [pod for pod in pods if pod.metadata.labels.get(keys.QOS_CLASS, "") not in _CLASSES]

    def _seen(self, pod: Pod) -> None:
        if pod.spec.node_name:
            # What is told of it stands in its events; there is nothing left to keep.
            self._invalid.settled(Pod, pod)
        elif pod.spec.scheduler_name in self._profiles:
            self._invalid.judge(Pod, pod, problem(pod))
