# SPDX-License-Identifier: Apache-2.0
"""Pods as controllers see them: what is its own of each, and the shape it shares with its equals.

Two pods have one shape when a scheduler cannot tell them apart but by name: the same namespace,
labels, annotations, owner and spec. Everything that is worked out from those (amounts, selectors,
a plugin's reading of its annotations, the answer for every node) is worked out once a shape.
"""

from __future__ import annotations

from hashlib import blake2b
from itertools import count
from operator import attrgetter, is_
from struct import Struct
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from koord.api import requests
from koord.api.codec import to_json
from koord.api.kinds.pod import PodCondition, PodStatus
from koord.api.protocol import keys
from koord.controllers.cluster.bounded_table import IdentityTable, SizeBudget, TieredTable
from koord.controllers.cluster.pod_fields import fields_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import numpy as np
    from numpy.typing import NDArray

    from koord.api.kinds.meta import OwnerReference
    from koord.api.kinds.pod import ContainerStatus, Pod

MIN_CPU_MILLI, MIN_MEMORY_BYTES = 100, 200 * 1024 * 1024
"""What a container without a request counts as in scores (Kubernetes' non-zero requests)."""

# What schedulers write: it must not make a bound pod differ from its pending equals. And the place
# in a gang's order, which only says who is first.
OUTPUTS = frozenset(
    {
        "gang.scheduling.koordinator.sh/network-topology-index",
        "internal.scheduling.koordinator.sh/bind-gang-group-id",
        "internal.scheduling.koordinator.sh/bind-gang-member-count",
        "scheduling.koordinator.sh/bind-gang-group-id",
        "scheduling.koordinator.sh/bind-gang-member-count",
        "scheduling.koordinator.sh/resource-status",
        "scheduling.koordinator.sh/device-allocated",
        "scheduling.koordinator.sh/reservation-allocated",
        "scheduling.koordinator.sh/reservation-name",
        "scheduling.koordinator.sh/bind-timestamp",
        "scheduling.koordinator.sh/gpu-minors",
    }
)


# The parts by which pods are told apart: the first ones are often a pod's own, then come those of
# its spec, and then volumes, which may be its own again.
_OF_META = attrgetter("namespace", "labels", "annotations", "owner_references")
_OF_SPEC = attrgetter(
    "containers", "init_containers", "overhead", "resources", "node_selector", "affinity",
    "tolerations", "topology_spread_constraints", "resource_claims",
)  # fmt: skip
# Those of the spec that say what is requested come first.
_OWN, _CONTAINERS = 4, 8
_SCALARS = attrgetter(
    "scheduler_name", "priority", "priority_class_name", "preemption_policy", "host_network",
    "runtime_class_name", "restart_policy",
)  # fmt: skip


# Texts that are longer stand as digests in tables; no JSON text is as short as one.
_LONGEST_KEY, _DIGEST_BYTES = 64, 16
_NUMBERS = count(1)
_PACK = [Struct(f"{number}q").pack for number in range(32)]
# How many states of containers are remembered of pods that run the same ones.
_STATES = 64

# What an entry takes, however small: a pod that shares nothing is in four tables with 7 to 9 KiB.
# Of JSON beyond what is ordinary each byte counts as the memory that is decoded from it, and each
# name of a resource in its requests or limits as its entries in what is worked out (all measured:
# 2 KiB, 5 to 8 times, 330 bytes).
_ENTRY_BYTES = 2 << 10
_ORDINARY_BYTES, _DECODED, _NAME_BYTES, _ORDINARY_NAMES = 2 << 10, 8, 384, 8


class CountedColumns(NamedTuple):
    """What a pod counts as, as columns and amounts, the pod itself included.

    Attributes:
        key: the indexes hold while this is the table's ``resources_key``.
        counted: columns with what is added there, each once.
        required: the same for who asks whether there is room: with 1 of the column ``ABSENT``
            where the pod requests anything that no node offers.
        unoffered: by name, what it requests of resources without a column.
    """

    key: object
    counted: tuple[NDArray[np.intp], NDArray[np.int64]]
    required: tuple[NDArray[np.intp], NDArray[np.int64]]
    unoffered: Mapping[str, int]


class CountedRequests:
    """What a pod counts as on its node; not to be changed.

    Attributes:
        request: resource to amount, without the pod itself.
        nonzero: CPU milli and memory bytes as scores count them.
        columns: the request as columns of a node table: kept by
            :meth:`koord.controllers.cluster.node_table.NodeTable.columns_of`.
    """

    __slots__ = ("columns", "nonzero", "request")

    def __init__(self, amounts: dict[str, int], nonzero: tuple[int, int]) -> None:
        if requests.PODS in amounts or not all(amounts.values()):
            amounts = {name: n for name, n in amounts.items() if n and name != requests.PODS}
        self.request = amounts
        self.nonzero = nonzero
        self.columns: CountedColumns | None = None

    def equals(self, other: CountedRequests) -> bool:
        """Whether both are the same amounts."""
        same = self.request == other.request and self.nonzero == other.nonzero
        return self is other or same


class _States(NamedTuple):
    """What containers of one kind hold, and what their pod counts as thereby.

    Attributes:
        of, init: the states, kept so that no others get their identity.
        feasible, infeasible: by whether the node may yet do a resize, one where that is the same;
            None for what is asked for.
    """

    of: list[ContainerStatus]
    init: list[ContainerStatus]
    feasible: CountedRequests | None = None
    infeasible: CountedRequests | None = None


# Of no pod: lists that nobody else has.
_NO_STATES = _States([], [])


class ContainerRequests(CountedRequests):
    """What the containers of a pod ask for; not to be changed.

    The pods of a StatefulSet or a training job run the same containers and differ in a label, so
    each is a shape of its own.

    Attributes:
        number: counts them as they were made.
        problem: see :class:`PodShape`.
        requests, limits: of the containers together, by resource.
        names: of the resources that are requested, in order.
        scored: CPU milli and memory bytes as scores count them of a pod that is to be placed.
        memo: what plugins have worked out from these alone, by whatever they name it.
        json_bytes: of the containers, overhead and amounts for the whole pod; 0 where nobody has
            counted.
    """

    __slots__ = (
        "_by_states", "_latest", "json_bytes", "limits", "memo", "names", "number", "problem",
        "requests", "scored",
    )  # fmt: skip

    def __init__(self, pod: Pod, json_bytes: int = 0) -> None:
        self.number = next(_NUMBERS)
        self.json_bytes = json_bytes
        self.problem, self.requests = requests.problem_and_request(pod)
        self.limits = requests.effective(pod, limits=True)
        on_node = self.scored = _scored(pod, self.requests)
        if pod.spec.resources:
            on_node = _nonzero(replace(pod, status=PodStatus()), held=True)
        super().__init__(self.requests, on_node)
        self.names = tuple(sorted([name for name, n in self.request.items() if n > 0]))
        self.memo: dict[Any, Any] = {}
        self._by_states: dict[tuple[int, int], _States] = {}
        self._latest = _NO_STATES

    def counted(self, pod: Pod) -> CountedRequests:
        """What a pod with these containers counts as on a node: this, unless it is being resized.

        The pods of a workload share the states of their containers (what of these says how much
        they hold) and come together, so that of most one look tells that they hold what they ask.
        """
        status, known = pod.status, self._latest
        of, init = status.container_statuses, status.init_container_statuses
        if not of and not init:
            return self  # no node runs it yet
        if known.of is not of or known.init is not init:
            known = self._latest = self._of_states(pod)
        found = known.feasible
        if found is not known.infeasible and requests.resize_is_infeasible(pod):
            found = known.infeasible
        return self if found is None else found

    def _of_states(self, pod: Pod) -> _States:
        of, init = pod.status.container_statuses, pod.status.init_container_statuses
        known = self._by_states.get((id(of), id(init)))
        if known is None:
            if requests.holds_what_it_asks(pod):
                return _States(of, init)
            refused = [PodCondition(type=requests.RESIZE_PENDING, reason=requests.INFEASIBLE)]
            feasible, infeasible = self._held(pod, []), self._held(pod, refused)
            one = feasible is not None and infeasible is not None and feasible.equals(infeasible)
            known = _States(of, init, feasible, feasible if one else infeasible)
            _bound(self._by_states, _STATES)
            self._by_states[id(of), id(init)] = known
        return known

    def _held(self, pod: Pod, conditions: list[PodCondition]) -> CountedRequests | None:
        """What a pod counts as under other conditions; None where that is what is asked for."""
        pod = replace(pod, status=replace(pod.status, conditions=conditions))
        found = CountedRequests(requests.effective(pod, held=True), _nonzero(pod, held=True))
        return None if found.equals(self) else found


def _nonzero(pod: Pod, *, held: bool = False) -> tuple[int, int]:
    return requests.nonzero(pod, MIN_CPU_MILLI, MIN_MEMORY_BYTES, held=held)


def _scored(pod: Pod, request: Mapping[str, int]) -> tuple[int, int]:
    """CPU and memory as scores count them of a pod that is to be placed and asks for so much."""
    if not requests.is_of_one_container(pod.spec):
        return _nonzero(pod)
    return (
        request.get(requests.CPU, MIN_CPU_MILLI),
        request.get(requests.MEMORY, MIN_MEMORY_BYTES),
    )


class PodShape:
    """What equal pods share. Made by :class:`Shapes` alone, so that equal shapes are one object.

    Attributes:
        id: counts shapes as they were made; never used again.
        pod: one pod of the shape, for its labels, annotations and spec; its name, uid, node and
            status mean nothing here.
        request: resource to amount, without the pod itself.
        problem: what of the requests cannot be meant; such a pod is placed nowhere.
        nonzero: CPU milli and memory bytes as scores count them of a pod that is to be placed.
        fields: the parts that its pods have, as bits of
            :class:`koord.controllers.cluster.pod_fields.PodField`.
        container_requests: what these three come from; shapes whose pods run the same containers
            have one.
        memo: what plugins have worked out for the shape, by plugin name.
        json_bytes: of all that makes it the shape that it is; None where nobody has counted.
    """

    __slots__ = (
        "container_requests", "fields", "id", "json_bytes", "memo", "namespace", "nonzero", "owner",
        "pod", "problem", "request",
    )  # fmt: skip

    def __init__(
        self,
        number: int,
        pod: Pod,
        container_requests: ContainerRequests | None = None,
        json_bytes: int | None = None,
    ) -> None:
        container_requests = container_requests or ContainerRequests(pod)
        self.id = number
        self.pod = pod
        self.namespace = pod.metadata.namespace
        self.owner: OwnerReference | None = controller(pod)
        self.container_requests = container_requests
        self.problem = container_requests.problem
        self.request = container_requests.request
        self.nonzero = container_requests.scored
        self.fields = fields_of(pod, container_requests.request)
        self.memo: dict[str, Any] = {}
        self.json_bytes = json_bytes

    @property
    def labels(self) -> dict[str, str]:
        """The pods' labels."""
        return self.pod.metadata.labels

    @property
    def annotations(self) -> dict[str, str]:
        """The pods' annotations."""
        return self.pod.metadata.annotations


class PodInfo:
    """One pod: what the API says, and what was decided about it.

    Attributes:
        pod: the last known object.
        shape: see :class:`PodShape`.
        counted: what it counts as there: what its shape asks for, or while it is resized in place
            what it holds. Changed only while it counts nowhere, or to equal amounts.
        row: where it counts in the node table, -1 while nowhere.
        allocations: by plugin name, what a plugin has chosen for the pod, or read from its
            annotations (CPUs, devices, the reservation).
        decided: this process has placed the pod; what it chose counts, whatever is written later.
    """

    __slots__ = (
        "allocations", "counted", "decided", "key", "pod", "priority", "row", "shape", "uid",
    )  # fmt: skip

    def __init__(self, pod: Pod, shape: PodShape) -> None:
        meta = pod.metadata
        self.pod = pod
        self.shape = shape
        self.counted = shape.container_requests.counted(pod)
        self.uid = meta.uid
        self.key = f"{meta.namespace}/{meta.name}"
        self.priority: int = pod.spec.priority or 0
        self.row = -1
        self.allocations: dict[str, Any] = {}
        self.decided = False

    @property
    def reservation(self) -> str | None:
        """The name of the Reservation that the pod stands for; None for real pods."""
        annotations, meta = self.shape.annotations, self.pod.metadata
        if keys.RESERVE_POD not in annotations or meta.name != meta.uid:
            return None
        return meta.annotations.get(keys.RESERVATION_NAME)

    def __repr__(self) -> str:
        return f"PodInfo({self.key!r}, row={self.row})"


class PodBatch(NamedTuple):
    """Pods of one shape that come to nodes together, as a list brings them.

    Attributes:
        shape: of all of them; they count as the same amounts too.
        allocated: whether plugins have chosen anything for them: for each, or for none.
        rows: where each of them counts.
        pods: in the order of the rows.
    """

    shape: PodShape
    allocated: bool
    rows: list[int]
    pods: list[PodInfo]


def by_shape(placed: Iterable[tuple[int, PodInfo]]) -> list[PodBatch]:
    """Rows and pods, those together that follow each other and are alike; those of a list do."""
    found: list[PodBatch] = []
    shape: PodShape | None = None
    counted: CountedRequests | None = None
    allocated = False
    for row, pod in placed:
        alike = pod.shape is shape and pod.counted is counted
        if not alike or bool(pod.allocations) is not allocated:
            shape, counted, allocated = pod.shape, pod.counted, bool(pod.allocations)
            rows: list[int] = []
            pods: list[PodInfo] = []
            found.append(PodBatch(shape, allocated, rows, pods))
        rows.append(row)
        pods.append(pod)
    return found


class Shapes:
    """Interns shapes.

    Pods that an informer shares parts of are recognised by the identity of those parts; others by
    the JSON text of all that counts.

    Args:
        limit: how many of each kind of key are remembered; the oldest go first.
        size: how many bytes of memory all kinds may have together of usual pods, as it is counted
            here; large ones have a third as many of their own.
    """

    def __init__(self, limit: int = 65_536, size: int = 96 << 20) -> None:
        self._made = 0
        budgets = SizeBudget(size), SizeBudget(size // 3)
        self._by_text: TieredTable[bytes, PodShape] = TieredTable(limit, *budgets)
        self._last: tuple[Pod, PodShape] | None = None
        self._last_info: PodInfo | None = None
        self._latest: tuple[tuple[Any, ...], tuple[Any, ...], PodShape] | None = None
        self._page: tuple[list[Pod], list[PodInfo]] = [], []
        # The parts are kept beside what is made of them, so that an identity is not used again.
        self._by_containers: IdentityTable[bytes, tuple[ContainerRequests, tuple[object, ...]]]
        self._by_containers = IdentityTable(limit, *budgets)
        self._by_containers_text: TieredTable[bytes, ContainerRequests]
        self._by_containers_text = TieredTable(limit, *budgets)
        self._by_parts: IdentityTable[tuple[Any, ...], tuple[PodShape, tuple[object, ...]]]
        self._by_parts = IdentityTable(limit, *budgets)

    def info(self, pod: Pod) -> PodInfo:
        """A pod with its shape; who asks for the same pod again gets the same, as long as nothing
        has become of it."""
        last = self._last_info
        if last is None or last.pod is not pod or last.row >= 0 or last.allocations or last.decided:
            last = self._last_info = PodInfo(pod, self.of(pod))
        return last

    def infos(self, pods: list[Pod]) -> list[PodInfo]:
        """Pods with their shapes; who asks for the same list again gets the same."""
        # Of one page several ask, one after the other.
        if self._page[0] is not pods:
            self._page = pods, [PodInfo(pod, self._of(pod)) for pod in pods]
        return self._page[1]

    def of(self, pod: Pod) -> PodShape:
        """The shape of a pod."""
        # Of one event several ask, one after the other.
        last = self._last
        if last is not None and last[0] is pod:
            return last[1]
        shape = self._of(pod)
        self._last = pod, shape
        return shape

    def _of(self, pod: Pod) -> PodShape:
        meta, spec = pod.metadata, pod.spec
        volumes = _placed(spec.volumes) if spec.volumes else ()
        parts = (*_OF_META(meta), *_OF_SPEC(spec), *volumes)
        scalars = _SCALARS(spec)
        # Those of a workload come together, and share their parts.
        latest = self._latest
        if latest is not None and latest[0] == scalars and _same(latest[1], parts):
            return latest[2]
        identity = _identities(parts), scalars
        known = self._by_parts.get(identity)
        if known is not None:
            shape = known[0]
        else:
            shape, is_new = self._by_content(pod, parts, scalars)
            # Most shapes that differ come once: parts are remembered with the second pod.
            if not is_new and self._by_parts.takes_next():
                size = memory_of(shape.json_bytes or 0, shape.container_requests)
                self._by_parts.put(identity, (shape, parts), size)
        self._latest = scalars, parts, shape
        return shape

    def _by_content(
        self, pod: Pod, parts: tuple[Any, ...], scalars: tuple[Any, ...]
    ) -> tuple[PodShape, bool]:
        """The shape of a pod, and whether it is a new one."""
        meta = pod.metadata
        annotations = meta.annotations
        if annotations:
            annotations = {k: v for k, v in annotations.items() if k not in OUTPUTS}
        # All of them: a Reservation may be for pods of any owner.
        who = [
            (owner.api_version, owner.kind, owner.name, owner.uid, owner.controller)
            for owner in meta.owner_references
        ]
        containers = self._container_requests(pod, parts[_OWN:_CONTAINERS])
        others = parts[_CONTAINERS:]
        text = to_json((parts[0], parts[1], annotations, who, containers.number, others, scalars))
        key = _short(text)
        shape = self._by_text.get(key)
        if shape is not None:
            return shape, False
        self._made += 1
        size = len(text) + containers.json_bytes
        shape = PodShape(self._made, pod, containers, size)
        self._by_text.put(key, shape, memory_of(size, containers))
        return shape, True

    def _container_requests(self, pod: Pod, parts: tuple[Any, ...]) -> ContainerRequests:
        """What the containers of a pod ask for, one for equal ones.

        Pods that differ in a label or a claim, each a shape of its own, run the same containers.
        """
        identity = _identities(parts)
        known = self._by_containers.get(identity)
        if known is not None:
            return known[0]
        text = to_json(parts)
        found = self._by_containers_text.get(text)
        if found is None:
            found = ContainerRequests(pod, len(text))
            self._by_containers_text.put(text, found, memory_of(len(text), found))
        elif self._by_containers.takes_next():
            self._by_containers.put(identity, (found, parts), memory_of(len(text), found))
        return found


def memory_of(size: int, of: ContainerRequests | None = None) -> int:
    """Bytes of memory that an entry of a table counts as.

    Args:
        size: of the JSON of the parts of a pod that the entry keeps.
        of: what it keeps of what was worked out from those, if that.
    """
    names = len(of.requests) + len(of.limits) if of is not None else 0
    if size <= _ORDINARY_BYTES and names <= _ORDINARY_NAMES:
        return _ENTRY_BYTES + size
    large = max(0, size - _ORDINARY_BYTES) * (_DECODED - 1)
    return _ENTRY_BYTES + size + large + max(0, names - _ORDINARY_NAMES) * _NAME_BYTES


def _short(text: bytes) -> bytes:
    """What stands for a text as a key: the text itself, or a digest that takes less memory.

    No two texts have one digest; it is cryptographic, so that nobody can write two that have.
    """
    if len(text) <= _LONGEST_KEY:
        return text
    return blake2b(text, digest_size=_DIGEST_BYTES).digest()


def controller(pod: Pod) -> OwnerReference | None:
    """The owner that manages the pod, if any."""
    for owner in pod.metadata.owner_references:
        if owner.controller:
            return owner
    return None


def _placed(volumes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The volumes that say where a pod may go.

    A service account's token is projected into nearly every pod, under a name that is drawn by lot.
    """
    return [volume for volume in volumes if "projected" not in volume]


def _identities(parts: tuple[object, ...]) -> bytes:
    """Equal for the very same objects; a quarter of what a tuple of numbers takes."""
    return _PACK[len(parts)](*map(id, parts)) if len(parts) < len(_PACK) else _packed(parts)


def _packed(parts: tuple[object, ...]) -> bytes:
    return Struct(f"{len(parts)}q").pack(*map(id, parts))


def _same(some: tuple[Any, ...], others: tuple[Any, ...]) -> bool:
    """Whether two tuples hold the very same objects."""
    return len(some) == len(others) and all(map(is_, some, others))


def _bound(table: dict[Any, Any], limit: int) -> None:
    if len(table) >= limit:
        for key in list(table)[: limit // 2]:
            del table[key]
