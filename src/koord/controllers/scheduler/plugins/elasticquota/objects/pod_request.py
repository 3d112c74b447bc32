# SPDX-License-Identifier: Apache-2.0
"""What a quota needs to know of a pod, read once a shape."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING

from koord.api import requests
from koord.api.protocol.quotas import is_quota_preemptible, pod_quota_name
from koord.api.protocol.reservations import is_reserve_pod
from koord.base.errors import KoordError

if TYPE_CHECKING:
    from koord.api.kinds.meta import ResourceList
    from koord.controllers.cluster.pods import PodShape

NAME = "ElasticQuota"
_MOST = 2**63 - 1


class QuotaRequest:
    """A shape as quotas see it.

    Attributes:
        label: the quota that its pods name, ``""`` for none.
        namespace: of its pods.
        request: what one pod asks for, itself as one of ``pods`` included; nothing that is 0.
        charge: that, as it is charged.
        non_preemptible: its pods must fit into their quota's minimum.
        reserves: its pods say that they stand for a Reservation; by itself that proves nothing.
        problem: the pods ask for what nobody can.
    """

    __slots__ = (
        "charge", "label", "namespace", "non_preemptible", "problem", "request", "reserves",
    )  # fmt: skip

    def __init__(self, shape: PodShape) -> None:
        self.label = pod_quota_name(shape.pod)
        self.namespace = shape.namespace
        self.non_preemptible = not is_quota_preemptible(shape.pod)
        self.reserves = is_reserve_pod(shape.pod)
        self.charge = _charge(shape)
        self.problem = None if self.charge.sound else _problem(shape)
        self.request = self.charge.request

    def kept(self, before: QuotaRequest) -> QuotaRequest:
        """What pods ask for now, in the quota that they named when they were placed."""
        if self.names == before.names:
            return self
        if self.charge is before.charge:
            return before
        made = copy(self)
        made.label, made.namespace, made.non_preemptible = before.names
        return made

    @property
    def names(self) -> tuple[str, str, bool]:
        """All that says which quota pods use, and how."""
        return self.label, self.namespace, self.non_preemptible

    def amounts(self, counted: set[str], *, overhead: bool) -> SignedCharge:
        """See :meth:`RequestCharge.amounts`."""
        return self.charge.amounts(counted, overhead=overhead)


class RequestCharge:
    """What containers come to; shapes whose pods run the same ones have one.

    Attributes:
        request: see :class:`QuotaRequest`.
        bare: the same without the pod's overhead.
        sound: whether a pod can ask for that; else it is charged for nothing.
    """

    __slots__ = ("_masked", "bare", "request", "sound")

    def __init__(self, shape: PodShape) -> None:
        self.sound = _problem(shape) is None
        self.request: dict[str, int] = {**shape.request, requests.PODS: 1} if self.sound else {}
        self.bare = _without(self.request, shape.pod.spec.overhead)
        self._masked: dict[bool, tuple[set[str], SignedCharge]] = {}

    def amounts(self, counted: set[str], *, overhead: bool) -> SignedCharge:
        """The request in the resources that some quota counts.

        Args:
            counted: which; not to be changed afterwards.
            overhead: include the pod's overhead.
        """
        known = self._masked.get(overhead)
        if known is not None and known[0] is counted:
            return known[1]
        asked = self.request if overhead else self.bare
        masked = SignedCharge({name: n for name, n in asked.items() if name in counted})
        self._masked[overhead] = counted, masked
        return masked


class SignedCharge:
    """A charge and its inverse; equal ones are equal."""

    __slots__ = ("_back", "forth")

    def __init__(self, forth: dict[str, int]) -> None:
        self.forth = forth
        self._back: dict[str, int] | None = None

    @property
    def back(self) -> dict[str, int]:
        """The inverse, made when the first pod goes."""
        if self._back is None:
            self._back = {name: -amount for name, amount in self.forth.items()}
        return self._back


def reading(shape: PodShape) -> QuotaRequest:
    """The reading of a shape, made at its first use."""
    known: QuotaRequest | None = shape.memo.get(NAME)
    if known is None:
        known = shape.memo[NAME] = QuotaRequest(shape)
    return known


def _charge(shape: PodShape) -> RequestCharge:
    known: RequestCharge | None = shape.container_requests.memo.get(NAME)
    if known is None:
        known = shape.container_requests.memo[NAME] = RequestCharge(shape)
    return known


def _problem(shape: PodShape) -> KoordError | None:
    request = shape.request
    if not request or (min(request.values()) >= 0 and max(request.values()) <= _MOST):
        return None
    for name, amount in sorted(request.items()):
        if not 0 <= amount <= _MOST:
            field, expected = f"requests[{name}]", "a quantity of 0 or more, of 64 bits"
            pod = f"Pod {shape.namespace}/{shape.pod.metadata.name}"
            return KoordError(pod, field, amount, expected)
    return None


def _without(request: dict[str, int], overhead: ResourceList) -> dict[str, int]:
    if not overhead or not request:
        return request
    less = {name: requests.amount(name, quantity) for name, quantity in overhead.items()}
    bare = {name: amount - less.get(name, 0) for name, amount in request.items()}
    return {name: amount for name, amount in bare.items() if amount > 0}
