# SPDX-License-Identifier: Apache-2.0
"""Pods by their controller and by their gang, and which of them are unavailable; kept by events.

What gangs are of one group is told by their pods, or by their PodGroups.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from koord.api.protocol.gang import gang_name, groups
from koord.controllers.cluster.pods import controller
from koord.controllers.descheduler.snapshot import FINISHED

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from koord.api.kinds.meta import Object
    from koord.api.kinds.pod import Pod
    from koord.api.kinds.quota import PodGroup

_NONE: Mapping[str, Pod] = {}


class PodIndex:
    """Pods, each under ``namespace/name``.

    Args:
        pods: those that are there.
        pod_groups: the same.
    """

    def __init__(self, pods: Iterable[Pod] = (), pod_groups: Iterable[PodGroup] = ()) -> None:
        self._pods: dict[str, Pod] = {}
        self._by_controller: dict[str, dict[str, Pod]] = {}
        self._unavailable: dict[str, set[str]] = {}
        self._by_gang: dict[str, dict[str, Pod]] = {}
        # By gang, how often its pods name other gangs as of one group with it.
        self._named: dict[str, Counter[str]] = {}
        # The same by PodGroups.
        self._declared: dict[str, set[str]] = {}
        for pod in pods:
            self.put(pod)
        for pod_group in pod_groups:
            self.put_group(pod_group)

    def put_group(self, pod_group: PodGroup) -> None:
        """A PodGroup is there, or has changed: it names other gangs for the pods of its own."""
        gang = pod_key(pod_group)
        named = _other_gangs(pod_group, gang)
        if named:
            self._declared[gang] = named
        else:
            self._declared.pop(gang, None)

    def remove_group(self, pod_group: PodGroup) -> None:
        """A PodGroup is gone."""
        self._declared.pop(pod_key(pod_group), None)

    def put(self, pod: Pod) -> None:
        """A pod is there, or has changed."""
        key = pod_key(pod)
        self.remove(key)
        self._pods[key] = pod
        owner = controller(pod)
        if owner is not None:
            self._by_controller.setdefault(owner.uid, {})[key] = pod
            if not is_available(pod):
                self._unavailable.setdefault(owner.uid, set()).add(key)
        gang = gang_of(pod)
        if gang and is_active(pod):
            self._by_gang.setdefault(gang, {})[key] = pod
            named = _other_gangs(pod, gang)
            if named:
                self._named.setdefault(gang, Counter()).update(named)

    def remove(self, key: str) -> None:
        """A pod is gone."""
        old = self._pods.pop(key, None)
        if old is None:
            return
        owner = controller(old)
        if owner is not None:
            _drop(self._by_controller, owner.uid, key)
            _drop(self._unavailable, owner.uid, key)
        gang = gang_of(old)
        if key in self._by_gang.get(gang, ()):
            _drop(self._by_gang, gang, key)
            self._unname(gang, old)

    def _unname(self, gang: str, pod: Pod) -> None:
        named = _other_gangs(pod, gang)
        if named:
            self._named[gang].subtract(named)
            self._named[gang] = +self._named[gang]
            if not self._named[gang]:
                del self._named[gang]

    def get(self, key: str) -> Pod | None:
        """The pod of a key."""
        return self._pods.get(key)

    def controlled_by(self, uid: str) -> Mapping[str, Pod]:
        """The pods of a controller, by key."""
        return self._by_controller.get(uid, _NONE)

    def unavailable(self, uid: str) -> Iterable[str]:
        """Keys of a controller's pods that ended, are being deleted or are not Ready."""
        return self._unavailable.get(uid, ())

    def gangs_of(self, pod: Pod) -> tuple[str, ...]:
        """The gangs that move together with a pod, in order; none for a pod of no gang.

        Gangs are of one group where pods or the PodGroup of each name the other: what one alone
        says is no word for both.
        """
        gang = gang_of(pod)
        found, todo = {gang}, [gang]
        while todo:
            each = todo.pop()
            for other in self._group_of(each):
                if other not in found and each in self._group_of(other):
                    found.add(other)
                    todo.append(other)
        return tuple(sorted(found)) if gang else ()

    def _group_of(self, gang: str) -> Collection[str]:
        """The gangs that one names."""
        by_pods, by_group = self._named.get(gang), self._declared.get(gang)
        if not by_group:
            return by_pods or ()
        return by_group.union(by_pods or ())

    def members(self, pod: Pod) -> Mapping[str, Pod]:
        """The pods that move together with one, it too, by key: those of its gangs that have not
        ended and are not being deleted."""
        gangs = self.gangs_of(pod)
        if len(gangs) <= 1:
            return self._by_gang.get(gangs[0], _NONE) if gangs else _NONE
        return {key: each for gang in gangs for key, each in self._by_gang.get(gang, _NONE).items()}


def pod_key(pod: Object) -> str:
    """``namespace/name``."""
    return f"{pod.metadata.namespace}/{pod.metadata.name}"


def gang_of(pod: Pod) -> str:
    """``namespace/name`` of the pod's gang; empty for none."""
    name = gang_name(pod)
    return f"{pod.metadata.namespace}/{name}" if name else ""


def _other_gangs(by: Object, gang: str) -> set[str]:
    return set(groups(by)) - {gang}


def is_active(pod: Pod) -> bool:
    """Whether a pod has neither ended nor is being deleted."""
    return pod.status.phase not in FINISHED and pod.metadata.deletion_timestamp is None


def is_ready(pod: Pod) -> bool:
    """Whether its condition ``Ready`` is ``True``."""
    return any(
        condition.type == "Ready" and condition.status == "True"
        for condition in pod.status.conditions
    )


def is_available(pod: Pod) -> bool:
    """Whether a pod counts for its workload."""
    return is_active(pod) and is_ready(pod)


def _drop(index: dict[str, dict[str, Pod]] | dict[str, set[str]], under: str, key: str) -> None:
    found = index.get(under)
    if found is None:
        return
    if isinstance(found, set):
        found.discard(key)
    else:
        found.pop(key, None)
    if not found:
        del index[under]
