# SPDX-License-Identifier: Apache-2.0
"""Pods of a plan's moves by what they would mean for another pod if they had stayed.

A pod minds those that left the node it goes to. On other nodes it minds those that its required
terms or hard spread constraints select, those whose required anti-affinity selects it, those that
share a claim and those of its gang. All others can be left out of account.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from koord.api import selectors
from koord.api.protocol.gang import gang_name
from koord.controllers.descheduler.predicates import pod_traits

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from koord.api.kinds.meta import LabelSelector
    from koord.api.kinds.pod import Pod

_ANY = ("", "")
"""In the place of a label where a selector names none."""
_SOFT = "ScheduleAnyway"


class _MovedPod(NamedTuple):
    row: int
    labels: Mapping[str, str]
    things: list[tuple[str, str, str]]
    repels: list[tuple[tuple[str, str], LabelSelector]]


class MovedPods:
    """Pods that left their nodes, each by the number of its move; the last is taken back first."""

    def __init__(self) -> None:
        self._pods: list[_MovedPod] = []
        self._by_row: dict[int, list[int]] = {}
        self._by_label: dict[tuple[str, str], list[int]] = {}
        self._by_thing: dict[tuple[str, str, str], list[int]] = {}
        self._repelling: dict[tuple[str, str], list[tuple[int, LabelSelector]]] = {}

    def push(self, row: int, pod: Pod) -> None:
        """A pod moves.

        Args:
            row: that it leaves.
            pod: which.
        """
        number = len(self._pods)
        repels = [(_label_of(each), each) for each in _repelled(pod)]
        moved = _MovedPod(row, pod.metadata.labels, list(_things(pod)), repels)
        self._pods.append(moved)
        self._by_row.setdefault(row, []).append(number)
        for label in moved.labels.items():
            self._by_label.setdefault(label, []).append(number)
        for thing in moved.things:
            self._by_thing.setdefault(thing, []).append(number)
        for key, selector in repels:
            self._repelling.setdefault(key, []).append((number, selector))

    def pop(self) -> None:
        """The last move is taken back."""
        moved = self._pods.pop()
        self._by_row[moved.row].pop()
        for label in moved.labels.items():
            self._by_label[label].pop()
        for thing in moved.things:
            self._by_thing[thing].pop()
        for key, _ in moved.repels:
            self._repelling[key].pop()

    def of_row(self, row: int) -> set[int]:
        """Moves off a row."""
        return set(self._by_row.get(row, ()))

    def minded_by(self, pod: Pod) -> set[int]:
        """Moves of pods that would mean something for a pod on another node."""
        found: set[int] = set()
        for selector in _minded(pod):
            label = _label_of(selector)
            numbers = range(len(self._pods)) if label is _ANY else self._by_label.get(label, ())
            found.update(
                each for each in numbers if selectors.matches(selector, self._pods[each].labels)
            )
        labels = pod.metadata.labels
        for label in (_ANY, *labels.items()):
            found.update(
                number
                for number, selector in self._repelling.get(label, ())
                if selectors.matches(selector, labels)
            )
        for thing in _things(pod):
            found.update(self._by_thing.get(thing, ()))
        return found


def minds_others(pod: Pod) -> bool:
    """Whether pods on other nodes may keep it from a node."""
    return pod.spec.affinity is not None or bool(pod.spec.topology_spread_constraints)


def _minded(pod: Pod) -> Iterator[LabelSelector]:
    """Selectors of pods that a pod wants, or does not want, to be near to."""
    affinity = pod.spec.affinity
    for terms in (affinity.pod_affinity, affinity.pod_anti_affinity) if affinity else ():
        for term in terms.required_during_scheduling_ignored_during_execution if terms else ():
            if term.label_selector is not None:
                yield term.label_selector
    for constraint in pod.spec.topology_spread_constraints:
        if constraint.label_selector is not None and constraint.when_unsatisfiable != _SOFT:
            yield constraint.label_selector


def _repelled(pod: Pod) -> Iterable[LabelSelector]:
    """Selectors of pods that may not be near to a pod."""
    terms = pod.spec.affinity.pod_anti_affinity if pod.spec.affinity is not None else None
    required = terms.required_during_scheduling_ignored_during_execution if terms else ()
    return [term.label_selector for term in required if term.label_selector is not None]


def _label_of(selector: LabelSelector) -> tuple[str, str]:
    """A label that all pods have which a selector matches."""
    return next(iter(selector.match_labels.items()), _ANY)


def _things(pod: Pod) -> Iterator[tuple[str, str, str]]:
    """What one pod has because another has it: a gang, and claims."""
    namespace, gang = pod.metadata.namespace, gang_name(pod)
    if gang:
        yield "gang", namespace, gang
    for claim in pod_traits.claim_names(pod):
        yield "claim", namespace, claim
