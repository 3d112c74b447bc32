# SPDX-License-Identifier: Apache-2.0
"""The node table, and the policies that choose a node for a pod.

A table has one row a node and one column a resource. Pods that ask for the same are one *shape*;
what is worked out for a shape is cached and kept current as nodes change::

    table = NodeTable(["cpu", "memory"])
    table.add_node("n0", {"cpu": 64000, "memory": 256}, gpus=8, model="T4")
    shape = table.shape({"cpu": 4000}, gpus=1, gpu_milli=500)
    placer = Placer(table, "bestfit")
    placed = placer.place(shape)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from koord._native.cluster import placement as _native
from koord.kernels.devices import Device, Fragmentation, amounts, mask, minors

GPU_MILLI = 1000
"""Compute of a whole GPU, the unit of every table's first GPU resource."""

OUT = -(2**31)
"""The rating of a row that a shape does not fit."""


@dataclass(frozen=True, slots=True)
class Placement:
    """One pod on one node: the node's row, the pod's shape, the minors of its GPUs."""

    row: int
    shape: int
    gpus: tuple[int, ...] = ()

    def native(self) -> _native.Placement:
        """The compiled twin."""
        return _native.Placement(self.row, self.shape, mask(self.gpus))


class NodeTable:
    """What every node has and has free, changed in place.

    Args:
        resources: names of the columns; the first is CPU in milli-cores.
        gpu_resources: what every GPU has; the first is compute in milli.
    """

    def __init__(
        self, resources: Sequence[str] = ("cpu", "memory"), gpu_resources: Sequence[str] = ("gpu",)
    ) -> None:
        self.native = _native.NodeTable(list(resources), list(gpu_resources))
        self.resources = tuple(resources)
        self.gpu_resources = tuple(gpu_resources)
        whole = {self.gpu_resources[0]: GPU_MILLI}
        self._whole = [Device(minor, whole).native(gpu_resources) for minor in range(64)]

    def __len__(self) -> int:
        return len(self.native)

    def __repr__(self) -> str:
        return f"NodeTable({list(self.resources)}, {len(self)} nodes)"

    def add_node(
        self,
        name: str,
        capacity: Mapping[str, int],
        *,
        gpus: int | Iterable[Device] = 0,
        model: str = "",
        labels: Sequence[str] = (),
    ) -> int:
        """Adds a node and returns its row.

        Args:
            name: must be new.
            capacity: amount of each resource; those left out are 0.
            gpus: the devices, or how many whole GPUs with nothing but compute.
            model: the GPUs' model.
            labels: ``key=value`` words that shapes can ask for.
        """
        if isinstance(gpus, int):
            if not 0 <= gpus <= len(self._whole):
                raise ValueError(f"gpus: got {gpus}, expected 0 to {len(self._whole)}")
            devices = self._whole[:gpus]
        else:
            devices = [device.native(self.gpu_resources) for device in gpus]
        row = amounts(capacity, self.resources)
        return self.native.add_node(_native.Node(name, row, model, list(labels), devices))

    def close_node(self, row: int) -> None:
        """Takes a node out of every filter; its row is not used again."""
        self.native.close_node(row)

    def set_capacity(self, row: int, capacity: Mapping[str, int]) -> None:
        """Sets what a node has; what is requested stays, so free amounts may fall below zero."""
        self.native.set_capacity(row, amounts(capacity, self.resources))

    def set_gpus(self, row: int, gpus: Iterable[Device]) -> None:
        """Sets what GPUs a node has; what is used stays used."""
        self.native.set_gpus(row, [device.native(self.gpu_resources) for device in gpus])

    def mirror(self, row: int, free: Mapping[str, int], gpu_milli: Sequence[int]) -> None:
        """Makes a row show what is free on a node that is accounted for elsewhere.

        Args:
            row: nothing may be committed there.
            free: of each resource; amounts below zero count as zero, those left out are 0.
            gpu_milli: free compute by minor.
        """
        amounts_of = [free.get(name, 0) for name in self.resources]
        self.native.mirror(row, amounts_of, gpu_milli)

    def set_ranks(self, ranks: Sequence[int]) -> None:
        """Sets the order among equally good nodes: a permutation by row, the lowest rank first."""
        self.native.set_ranks(ranks)

    def row(self, name: str) -> int:
        """The row of a node. KeyError for an unknown one."""
        return self.native.row(name)

    def name(self, row: int) -> str:
        """The name of a row's node."""
        return self.native.name(row)

    def capacity(self, resource: str) -> NDArray[np.int64]:
        """A read-only view of the column; it follows changes until a node is added."""
        return self.native.capacity(self._index(resource))

    def free(self, resource: str) -> NDArray[np.int64]:
        """A read-only view of what is free; below zero where a node is overdrawn."""
        return self.native.free(self._index(resource))

    def gpus_free(self, row: int, resource: str | None = None) -> list[int]:
        """Free amounts of a node's GPUs by minor; of compute unless a resource is named."""
        index = 0 if resource is None else self.gpu_resources.index(resource)
        return self.native.gpus_free(row, index)

    def shape(
        self,
        request: Mapping[str, int],
        *,
        gpus: int = 0,
        gpu_milli: int = GPU_MILLI,
        gpu_request: Mapping[str, int] | None = None,
        models: Sequence[str] = (),
        labels: Sequence[str] = (),
        scored: Mapping[str, int] | None = None,
    ) -> int:
        """The id of a shape; equal shapes get one id.

        Args:
            request: amount of each resource.
            gpus: how many GPUs.
            gpu_milli: compute on each of them.
            gpu_request: other amounts on each of them, e.g. memory.
            models: the node's GPU model must be one of them; none for any.
            labels: the node must carry all of them.
            scored: what scores count instead of the request.
        """
        each = {self.gpu_resources[0]: gpu_milli, **(gpu_request or {})} if gpus else {}
        shape = _native.Shape(
            amounts(request, self.resources),
            amounts(scored, self.resources) if scored is not None else [],
            amounts(each, self.gpu_resources) if gpus else [],
            gpus,
            list(models),
            list(labels),
        )
        return self.native.intern(shape)

    def filter(self, shape: int) -> NDArray[np.bool_]:
        """By row, whether one more pod of the shape fits."""
        return self.native.filter(shape).view(np.bool_)

    def commit(self, placement: Placement) -> None:
        """Puts a pod on a node; ValueError if its GPUs are not free."""
        self.native.commit(placement.native())

    def remove(self, placement: Placement) -> None:
        """Takes a pod away again; ValueError if the node holds less."""
        self.native.remove(placement.native())

    @contextmanager
    def what_if(self) -> Iterator[None]:
        """Takes back whatever is placed and removed inside, at its end; may be nested."""
        mark = self.native.mark()
        try:
            yield
        finally:
            self.native.undo(mark)

    def _index(self, resource: str) -> int:
        if resource in self.resources:
            return self.resources.index(resource)
        known = ", ".join(self.resources)
        raise KeyError(f"resource: got {resource!r}, expected one of {known}")


class Placer:
    """Places pods on a table by one policy.

    Args:
        table: may be shared with other placers.
        policy: one of :func:`policy_names`.
        seed: of a policy that draws lots.
        fragmentation: for a policy that needs to know what is typical.
        weights: of resources, for ``least``, ``most`` and ``balanced``; 1 each if not given.
    """

    def __init__(
        self,
        table: NodeTable,
        policy: str,
        *,
        seed: int = 0,
        fragmentation: Fragmentation | None = None,
        weights: Mapping[str, int] | None = None,
    ) -> None:
        self.table = table
        self.policy = policy
        self.native = _native.Placer(
            table.native,
            policy,
            seed,
            fragmentation.native if fragmentation else None,
            amounts(weights, table.resources) if weights is not None else [],
        )

    def __repr__(self) -> str:
        return f"Placer({self.policy!r}, {self.table!r})"

    def pick(self, shape: int) -> Placement | None:
        """Where a pod would go, or None if it fits nowhere."""
        return _face(self.native.pick(shape))

    def place(self, shape: int) -> Placement | None:
        """Picks and commits."""
        return _face(self.native.place(shape))

    def place_batch(
        self, shapes: Sequence[int], *, all_or_none: bool = False
    ) -> list[Placement | None]:
        """Places pods in turn; with ``all_or_none`` the list is empty if one fits nowhere."""
        return [_face(placed) for placed in self.native.place_batch(shapes, all_or_none)]

    def rate(self, shape: int, rows: NDArray[np.int64]) -> NDArray[np.int32]:
        """The policy's own ratings of rows, :data:`OUT` where the shape does not fit.

        For callers that keep ratings themselves: they hold until the row changes, or :meth:`epoch`.
        """
        return self.native.rate(shape, rows)

    def choose_gpus(self, shape: int, row: int) -> list[int]:
        """The minors a pod of the shape would get on a row; none if it does not fit."""
        return minors(self.native.choose_gpus(shape, row))

    def arrived(self, shape: int) -> None:
        """Tells the policy of a pod that is placed by other means than :meth:`place`."""
        self.native.arrived(shape)

    def epoch(self, shape: int) -> int:
        """Changes when all ratings of the shape that were given out no longer hold."""
        return self.native.epoch(shape)

    def score(self, shape: int) -> tuple[NDArray[np.bool_], NDArray[np.int32]]:
        """By row, whether the shape fits, and the policy's score of 0..100 where it does."""
        feasible, scores = self.native.score(shape)
        return feasible.view(np.bool_), scores


@dataclass(frozen=True, slots=True)
class ReplayRows:
    """What the cluster looked like after each arrival, failed ones included."""

    used_milli: NDArray[np.int64]
    arrived_milli: NDArray[np.int64]
    fragment_milli: NDArray[np.float64]
    fragment_percent: NDArray[np.float64]
    node: NDArray[np.int32]
    """Row of the node that got the pod, -1 if it fitted nowhere."""


class Replay:
    """Places arrivals one by one and records a row for each.

    The table belongs to the replay until it is finished. :meth:`run` releases the GIL, so replays
    on tables of their own run side by side in threads.
    """

    def __init__(self, placer: Placer, fragmentation: Fragmentation) -> None:
        self._native = _native.Replay(placer.table.native, placer.native, fragmentation.native)

    def run(self, shapes: NDArray[np.uint32]) -> None:
        """Places pods of these shapes in order; further calls continue."""
        self._native.run(shapes)

    def finish(self) -> ReplayRows:
        """The rows of all calls; the replay is over."""
        return ReplayRows(*self._native.finish())


def policy_names() -> list[str]:
    """The names of all placement policies."""
    return _native.policy_names()


def _face(placed: _native.Placement | None) -> Placement | None:
    if placed is None:
        return None
    return Placement(placed.row, placed.shape, tuple(minors(placed.gpus)))
