# SPDX-License-Identifier: Apache-2.0
"""Which pods get the cards that their annotation names.

Whoever may edit a pod may write the annotation, after the scheduler too. So it is followed only
as far as the pod requests cards, and never gives a card that another pod has for itself.

Rule: docs/reference/hooks.md#cards-that-are-given.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from koord.agent.states.annotation_checks.pod_memo import PodMemo
from koord.api import requests
from koord.api.protocol import annotation, keys
from koord.api.protocol import resources as res
from koord.api.protocol.scheduling import device_allocated, device_hints, device_joint_allocate
from koord.base.errors import KoordError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from koord.agent.states.pod_state import PodState
    from koord.api.kinds.pod import Pod
    from koord.api.protocol.scheduling import AllocatedDevice, DeviceAllocations, DeviceHint

    Holdings = dict[str, int]
    """What a pod holds of which card or function, in percent."""

FIELD = annotation.field_of(keys.DEVICE_ALLOCATED)
_GPU, _RDMA = "gpu", "rdma"
_TYPES = {_GPU: res.GPU_REQUESTS, _RDMA: (res.RDMA,)}
_WHOLE = 100
_MOST_CARDS = 64


class _Holders:
    """How many pods hold each card, and how many of them all of it."""

    def __init__(self, held: Iterable[Holdings]) -> None:
        self._some: Counter[str] = Counter()
        self._whole: Counter[str] = Counter()
        for each in held:
            self.count(each, 1)

    def count(self, cards: Holdings, pods: int) -> None:
        """So many pods more hold just these."""
        for card, amount in cards.items():
            self._some[card] += pods
            self._whole[card] += pods * (amount >= _WHOLE)

    def taken(self, wanted: Holdings) -> list[str]:
        """Those not to be had: of two pods that name a card, neither may have all of it."""
        return [
            card
            for card, amount in sorted(wanted.items())
            if self._some[card] > 0 and (amount >= _WHOLE or self._whole[card] > 0)
        ]


class DeviceCards:
    """Which pods hold which cards; who held them first keeps them, and comes to hold no others.

    Args:
        card_bytes: the memory of a GPU by minor; 0 where it is not known.
    """

    def __init__(self, card_bytes: Callable[[int], int] = lambda minor: 0) -> None:
        self._card_bytes = card_bytes
        self._held: dict[str, Holdings] = {}
        self._named: PodMemo[_NamedCards | None] = PodMemo(_named)

    def refused(self, pods: Sequence[PodState]) -> dict[str, KoordError]:
        """The pods that get no cards by their annotation, by UID, and why not.

        A pod keeps what it held, for its containers have it: also where its annotation is now
        refused, malformed or gone.

        Args:
            pods: of the node, by creation.
        """
        there = [pod for pod in pods if not pod.terminated]
        held = {pod.uid: self._held[pod.uid] for pod in there if pod.uid in self._held}
        holders = _Holders(held.values())
        refused: dict[str, KoordError] = {}
        for pod in there:
            if keys.DEVICE_ALLOCATED not in pod.pod.metadata.annotations:
                continue
            named = self._named.of(pod)
            if named is None:
                continue  # Malformed: hooks tell of it.
            wanted, before = named.holdings, held.get(pod.uid, {})
            problem = named.not_requested(pod.pod, self._card_bytes)
            problem = problem or _others_than(pod.pod, wanted, before)
            holders.count(before, -1)
            if problem is None and (taken := holders.taken(wanted)):
                expected = f"cards without {', '.join(taken)}, which another pod holds"
                problem = KoordError(pod.pod.title, FIELD, sorted(wanted), expected)
            if problem is not None:
                refused[pod.uid] = problem
            elif wanted:
                most = {card: max(amount, before.get(card, 0)) for card, amount in wanted.items()}
                held[pod.uid] = before | most
            holders.count(held.get(pod.uid, {}), 1)
        self._held = held
        self._named.keep({pod.uid for pod in there})
        return refused


class _NamedCards:
    """What a pod's annotation names; of which it is told once what is too much."""

    def __init__(self, cards: DeviceAllocations) -> None:
        self.holdings = _holdings(cards)
        self._cards = cards
        self._minors = sorted({card.minor for card in cards.get(_GPU, [])})
        self._refusal: tuple[list[int], KoordError | None] | None = None

    def not_requested(self, pod: Pod, card_bytes: Callable[[int], int]) -> KoordError | None:
        """See :func:`_not_requested`."""
        sizes = [card_bytes(minor) for minor in self._minors]
        if self._refusal is None or self._refusal[0] != sizes:
            self._refusal = sizes, _not_requested(pod, self._cards, card_bytes)
        return self._refusal[1]


def _named(pod: PodState) -> _NamedCards | None:
    try:
        return _NamedCards(device_allocated(pod.pod))
    except KoordError:
        return None


def _not_requested(
    pod: Pod, cards: Mapping[str, Sequence[AllocatedDevice]], card_bytes: Callable[[int], int]
) -> KoordError | None:
    """Why a pod cannot have been given these cards by what it requests; None if it can."""
    amounts = res.with_current_names(requests.effective(pod, held=True))
    for kind, names in _TYPES.items():
        given = cards.get(kind, [])
        if not given:
            continue
        field, minors = f"{FIELD}.{kind}", [card.minor for card in given]
        if not any(amounts.get(name) for name in names):
            return KoordError(pod.title, field, minors, f"none: the pod requests no {kind}")
        most = _gpus(amounts) if kind == _GPU else _rdma_cards(pod, amounts)[0]
        if len(given) > most:
            expected = f"at most {most} of them, as the pod requests"
            return KoordError(pod.title, field, minors, expected)
        problem = _too_much(pod, kind, given, amounts)
        if problem is None and kind == _GPU:
            problem = _beyond_cards(pod, given, amounts, card_bytes)
        if problem is not None:
            return problem
    return None


def _gpus(amounts: Mapping[str, int]) -> int:
    """How many GPUs requests justify: a part of one is one."""
    if amounts.get(res.GPU_SHARED):
        return amounts[res.GPU_SHARED]
    return max(1, -(-_percent(amounts, res.GPU_MEMORY_RATIO) // _WHOLE))


def _percent(amounts: Mapping[str, int], name: str) -> int:
    """Core or memory of GPUs in percent, by whatever name they are asked for."""
    whole = _WHOLE * sum(amounts.get(vendors, 0) for vendors in res.WHOLE_GPUS)
    return whole + amounts.get(res.GPU, 0) + amounts.get(name, 0)


def _rdma_cards(pod: Pod, amounts: Mapping[str, int]) -> tuple[int, int]:
    """How many RDMA cards requests justify, and how much of each in percent."""
    wanted, hint = amounts[res.RDMA], _rdma_hint(pod)
    cards, each = 1, min(wanted, _WHOLE)
    if wanted > _WHOLE and wanted % _WHOLE == 0:
        cards = wanted // _WHOLE
    elif hint is not None and hint.allocate_strategy == "ApplyForAll":
        return _MOST_CARDS, each
    elif hint is not None and hint.allocate_strategy == "RequestsAsCount":
        cards, each = wanted, _WHOLE if hint.exclusive_policy == "DeviceLevel" else 1
    try:
        joint = device_joint_allocate(pod)
    except KoordError:
        joint = None
    types = [kind for kind in joint.device_types if kind in _TYPES] if joint else []
    if types[:1] == [_GPU] and _RDMA in types and any(amounts.get(n) for n in res.GPU_REQUESTS):
        cards = max(cards, _gpus(amounts))  # One a PCIe root of the GPUs.
    return cards, each


def _rdma_hint(pod: Pod) -> DeviceHint | None:
    try:
        return device_hints(pod).get(_RDMA)
    except KoordError:
        return None


def _too_much(
    pod: Pod, kind: str, given: Sequence[AllocatedDevice], amounts: Mapping[str, int]
) -> KoordError | None:
    """Whether cards come with more than is asked for."""
    for card in given:
        functions = card.extension.vfs if card.extension else []
        if len(functions) > 1:
            field, buses = f"{FIELD}.{kind}[{card.minor}]", [each.bus_id for each in functions]
            return KoordError(pod.title, field, buses, "one virtual function of a card")
    if kind == _RDMA:
        bounds = {res.RDMA: _rdma_cards(pod, amounts)[1] * len(given)}
    else:
        percents = (res.GPU_CORE, res.GPU_MEMORY_RATIO)
        bounds = {name: _percent(amounts, name) for name in percents}
        bounds[res.GPU_MEMORY] = amounts.get(res.GPU_MEMORY, 0)
    for name, most in bounds.items():
        amount = sum(_amount(card, name) for card in given)
        if most and amount > most:
            expected = f"at most {most} in all, as the pod requests"
            return KoordError(pod.title, f"{FIELD}.{kind}[{name}]", amount, expected)
    return None


def _beyond_cards(
    pod: Pod,
    given: Sequence[AllocatedDevice],
    amounts: Mapping[str, int],
    card_bytes: Callable[[int], int],
) -> KoordError | None:
    """Whether GPUs come with more memory, or a larger part of it, than follows from the other.

    One of the two is asked for, the other follows from the card. What was given may have been cut,
    and the card's size told a little differently then: one percent is no matter.
    """
    if amounts.get(res.GPU_MEMORY) and _percent(amounts, res.GPU_MEMORY_RATIO):
        return None  # Both are asked for, and neither is exceeded.
    for card in given:
        whole = card_bytes(card.minor)
        ratio, memory = _amount(card, res.GPU_MEMORY_RATIO), _amount(card, res.GPU_MEMORY)
        field = f"{FIELD}.{_GPU}[{card.minor}]"
        if not whole:
            continue
        if amounts.get(res.GPU_MEMORY):
            most = memory * _WHOLE // whole + 1
            if ratio > most:
                expected = f"at most {most}, as {memory} of {whole} bytes are"
                return KoordError(pod.title, f"{field}[{res.GPU_MEMORY_RATIO}]", ratio, expected)
        elif memory * _WHOLE > (ratio + 1) * whole:
            expected = f"at most {ratio} percent of {whole} bytes"
            return KoordError(pod.title, f"{field}[{res.GPU_MEMORY}]", memory, expected)
    return None


def _amount(card: AllocatedDevice, name: str) -> int:
    found = card.resources.get(name)
    return 0 if found is None else max(0, requests.amount(name, found))


def _holdings(cards: Mapping[str, Sequence[AllocatedDevice]]) -> Holdings:
    """GPUs by minor, as containers get them; RDMA cards and functions by PCI address."""
    held = {
        f"{_GPU} {card.minor}": _amount(card, res.GPU_MEMORY_RATIO) for card in cards.get(_GPU, [])
    }
    for card in cards.get(_RDMA, []):
        functions = card.extension.vfs if card.extension else []
        if functions:
            # A function is one pod's, however little of the card goes with it.
            held |= {f"{_RDMA} {function.bus_id}": _WHOLE for function in functions}
        elif card.id:
            held[f"{_RDMA} {card.id}"] = _amount(card, res.RDMA)
    return held


def _others_than(pod: Pod, wanted: Holdings, before: Holdings) -> KoordError | None:
    """A pod's containers have the cards that they were made with, whatever is written later."""
    if not before or wanted.keys() <= before.keys():
        return None
    expected = f"{', '.join(sorted(before))}, which the pod has already"
    return KoordError(pod.title, FIELD, sorted(wanted), expected)
