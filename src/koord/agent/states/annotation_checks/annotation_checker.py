# SPDX-License-Identifier: Apache-2.0
"""Takes from pods the annotations that they may not have, before any part of the agent reads them.

Rule: docs/reference/hooks.md#annotations-that-are-obeyed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from koord.agent.executor.target import CPUS
from koord.agent.states.annotation_checks.class_bounds import CLASS_CHECKED, class_problems
from koord.agent.states.annotation_checks.cpu_bindings import CPUBindings, node_cpus
from koord.agent.states.annotation_checks.device_cards import DeviceCards
from koord.agent.states.annotation_checks.pod_checks import CHECKED, PodChecks
from koord.agent.states.annotation_checks.pod_memo import PodMemo
from koord.api.protocol import keys
from koord.base import log
from koord.kernels.cpuset import CPUSet

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from koord.agent.host.machine import Machine
    from koord.agent.states.pod_state import PodState
    from koord.agent.states.snapshot import Snapshot
    from koord.api.kinds.qos_strategy import ResourceQOSStrategy
    from koord.base.errors import KoordError

REASON = "AnnotationIgnored"
_LOG = log.get("agent.pods")
_RELEVANT = CHECKED | CLASS_CHECKED | {keys.RESOURCE_STATUS, keys.DEVICE_ALLOCATED}


class IgnoredAnnotation(NamedTuple):
    """An annotation that is not obeyed."""

    pod: str  #: ``namespace/name``
    key: str
    error: str


class AnnotationChecker:
    """One agent's.

    Args:
        machine: its CPUs, memory and cgroups.
        report: called once for each annotation that is not obeyed, and again when why changes.
        card_bytes: the memory of a GPU by minor; 0 where it is not known.
    """

    def __init__(
        self,
        machine: Machine,
        report: Callable[[PodState, str], None],
        card_bytes: Callable[[int], int] = lambda minor: 0,
    ) -> None:
        def runs_on(directory: str) -> str:
            tree = machine.hierarchy
            try:
                text = tree.read_text(tree.path_of(CPUS, directory))
            except OSError:
                return ""
            return text.decode("ascii", "replace").strip()

        self._report = report
        self._online = CPUSet.from_ids(each.cpu for each in machine.topology.cpus if each.online)
        self._bindings = CPUBindings(runs_on)
        self._cards = DeviceCards(card_bytes)
        self._checks = PodChecks(machine.memory_bytes)
        self._strategy: ResourceQOSStrategy | None = None
        self._of_class: PodMemo[list[tuple[str, KoordError]]] = PodMemo(
            lambda pod: list(class_problems(pod, self._strategy))
        )
        self._stripped: dict[str, tuple[PodState, set[str], PodState]] = {}
        self._ignored: dict[tuple[str, str], IgnoredAnnotation] = {}

    @property
    def ignored(self) -> list[IgnoredAnnotation]:
        """What is not obeyed now, sorted."""
        return sorted(self._ignored.values())

    def __call__(self, pods: tuple[PodState, ...], snapshot: Snapshot) -> tuple[PodState, ...]:
        """The pods without the annotations that they may not have.

        Args:
            pods: as their source has them.
            snapshot: node, topology and NodeSLO.
        """
        asking = [pod for pod in pods if not _RELEVANT.isdisjoint(pod.pod.metadata.annotations)]
        reported = snapshot.topology.value
        strategy = snapshot.slo.value.resource_qos_strategy if snapshot.slo.value else None
        if strategy != self._strategy:
            self._strategy = strategy
            self._of_class.clear()
        node = node_cpus(self._online, snapshot.node.value, reported)
        bad = {
            (uid, keys.RESOURCE_STATUS): error
            for uid, error in self._bindings.refused(pods, node).items()
        }
        for uid, error in self._cards.refused(pods).items():
            bad[uid, keys.DEVICE_ALLOCATED] = error
        for pod in asking:
            for key, error in (*self._checks.problems(pod), *self._of_class.of(pod)):
                bad[pod.uid, key] = error
        uids = {pod.uid for pod in asking}
        self._checks.keep(uids)
        self._of_class.keep(uids)
        # Whether the kubelet's policy binds pods of any class is not known yet.
        known = snapshot.node.value is not None and reported is not None
        self._note(asking, bad, silent=not known)
        return self._without(pods, bad) if bad else pods

    def _without(
        self, pods: tuple[PodState, ...], bad: Iterable[tuple[str, str]]
    ) -> tuple[PodState, ...]:
        """The pods without these annotations; one that stays as it was is the same object."""
        by_uid: dict[str, set[str]] = {}
        for uid, key in bad:
            by_uid.setdefault(uid, set()).add(key)
        before, self._stripped = self._stripped, {}
        found = list(pods)
        for at, pod in enumerate(pods):
            refused = by_uid.get(pod.uid)
            if refused:
                known = before.get(pod.uid)
                if known is None or known[0] is not pod or known[1] != refused:
                    known = pod, refused, _stripped(pod, refused)
                self._stripped[pod.uid] = known
                found[at] = known[2]
        return tuple(found)

    def _note(
        self, pods: list[PodState], bad: dict[tuple[str, str], KoordError], *, silent: bool
    ) -> None:
        states = {pod.uid: pod for pod in pods}
        before, self._ignored = self._ignored, {}
        for (uid, key), error in bad.items():
            if silent and key == keys.RESOURCE_STATUS:
                continue
            pod = states[uid]
            found = IgnoredAnnotation(pod.key, key, str(error))
            self._ignored[uid, key] = found
            if before.get((uid, key)) != found:
                _LOG.warning("annotation ignored", extra=log.fields(error=found.error))
                self._report(pod, f"not obeyed: {found.error}")


def _stripped(pod: PodState, refused: Collection[str]) -> PodState:
    metadata = pod.pod.metadata
    kept = {key: text for key, text in metadata.annotations.items() if key not in refused}
    metadata = msgspec.structs.replace(metadata, annotations=kept)
    return replace(pod, pod=msgspec.structs.replace(pod.pod, metadata=metadata))
