# SPDX-License-Identifier: Apache-2.0
"""Summary columns: what most pods need to know of a node, for all nodes at once.

A row is counted anew when it is first looked at after a change. They answer exactly
for pods that use no reservation and are not aligned to zones; for others they are a quick no.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from koord.controllers.cluster.node_table import CPU
from koord.controllers.scheduler.plugins.nodenumaresource import reasons
from koord.controllers.scheduler.plugins.nodenumaresource.objects.amounts import MILLI
from koord.controllers.scheduler.plugins.nodenumaresource.objects.node_topology import amplify
from koord.controllers.scheduler.plugins.nodenumaresource.objects.pod_request import NODE_POLICIES
from koord.kernels.numa import TopologyPolicy
from koord.kernels.topology import BindPolicy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from koord.controllers.cluster.node_table import NodeTable
    from koord.controllers.scheduler.framework.plugin import Rows
    from koord.controllers.scheduler.plugins.nodenumaresource.objects.node_topology import (
        NodeTopology,
    )
    from koord.controllers.scheduler.plugins.nodenumaresource.objects.pod_request import NUMARequest
    from koord.controllers.scheduler.plugins.nodenumaresource.state.node_allocations import (
        NodeAllocations,
    )

#: By code, why a row is refused; 0 is none.
REJECTIONS = (
    None,
    reasons.NUMA_POLICY_CONFLICT,
    reasons.CPUS_NOT_INTEGER,
    reasons.INVALID_RATIO,
    reasons.INSUFFICIENT_AMPLIFIED_CPU,
    reasons.INVALID_TOPOLOGY,
    reasons.BIND_POLICY_CONFLICT,
    reasons.SMT_ALIGNMENT,
    reasons.MISSING_ZONES,
    reasons.NOT_ENOUGH_CPUS,
)
_CODE = {refusal: code for code, refusal in enumerate(REJECTIONS)}
NOT_ENOUGH = _CODE[reasons.NOT_ENOUGH_CPUS]
#: By code, whether what reservations hold may make a difference.
DEPENDS_ON_USE = np.array([refusal is None or not refusal.unresolvable for refusal in REJECTIONS])

_POLICIES = {policy: code for code, policy in enumerate(TopologyPolicy)}
_FULL = 1
_BINDS: dict[str, int] = {BindPolicy.FULL_PCPUS: _FULL, BindPolicy.SPREAD_BY_PCPUS: 2}


class NUMAColumns:
    """What quick filters and scores read of the CPUs and zones of every node, by row.

    Attributes:
        free: CPUs that can be given; ``whole`` those of wholly free cores; ``cores`` how many
            cores have one.
        bound: CPUs that pods hold.
        threads: what a number of CPUs of whole cores is a multiple of; 0 without a topology.
        uniform: whether counts decide, for all cores have equally many threads.
        binds: the node's own bind policy: 0 none, 1 FullPCPUs, 2 SpreadByPCPUs.
        policy: the node's NUMA topology policy, by its place in `TopologyPolicy`.
        zones: whether amounts by zone are known.
        ratio: CPU amplification of the node; NaN where it cannot be read.
        constrained: whether the row may refuse a pod that binds no CPUs.
    """

    def __init__(self) -> None:
        self.size = 0
        self._grow(64)

    def _grow(self, size: int) -> None:
        def column(name: str, kind: type, value: object) -> None:
            grown: NDArray[Any] = np.full(size, value, kind)
            if self.size:
                grown[: self.size] = getattr(self, name)[: self.size]
            setattr(self, name, grown)

        self.free: NDArray[np.int64]
        self.whole: NDArray[np.int64]
        self.cores: NDArray[np.int64]
        self.bound: NDArray[np.int64]
        self.threads: NDArray[np.int64]
        self.binds: NDArray[np.int64]
        self.policy: NDArray[np.int64]
        self.uniform: NDArray[np.bool_]
        self.zones: NDArray[np.bool_]
        self.constrained: NDArray[np.bool_]
        self.ratio: NDArray[np.float64]
        for name in ("free", "whole", "cores", "bound", "threads", "binds", "policy"):
            column(name, np.int64, 0)
        for name in ("uniform", "zones", "constrained"):
            column(name, np.bool_, name == "uniform")
        column("ratio", np.float64, 1.0)
        self.size = size

    def ensure(self, rows: int) -> None:
        """Makes the columns as long as there are rows."""
        if rows > self.size:
            self._grow(max(rows, 2 * self.size))

    def describe(self, row: int, topology: NodeTopology) -> None:
        """Takes over the topology of a row's node."""
        self.ensure(row + 1)
        layout = topology.layout
        self.threads[row] = layout.threads if layout else 0
        self.uniform[row] = layout.uniform if layout else True
        self.binds[row] = _BINDS.get(NODE_POLICIES.get(topology.bind_policy, BindPolicy.DEFAULT), 0)
        self.policy[row] = _POLICIES[topology.numa_policy]
        self.zones[row] = bool(topology.amounts)
        self.ratio[row] = np.nan if topology.invalid_ratio else topology.node_ratio
        self.constrained[row] = bool(
            self.binds[row] or self.policy[row] or topology.invalid_ratio or topology.node_ratio > 1
        )

    def count(self, row: int, node: NodeAllocations) -> None:
        """Takes over what pods have left of a row."""
        self.free[row] = sum(node.bindable().values())
        self.whole[row] = sum(node.bindable(BindPolicy.FULL_PCPUS).values())
        self.cores[row] = sum(node.bindable(BindPolicy.SPREAD_BY_PCPUS).values())
        self.bound[row] = len(node.cpus.allocated()) if node.cpus and node.pods else 0

    def codes(
        self, request: NUMARequest, rows: NDArray[np.intp], table: NodeTable
    ) -> NDArray[np.int8]:
        """By row, the first refusal of :data:`REJECTIONS` that holds; 0 for none."""
        code = np.zeros(len(rows), np.int8)
        own = _POLICIES[request.numa_policy]
        policy = self.policy[rows]

        # Written last to first, so that the first in order stays.
        binds = self.binds[rows]
        milli, cpus = request.cpu_milli, request.cpus
        bound = np.full(len(rows), True) if request.bound else (binds != 0) & (milli > 0)
        required = (
            np.full(len(rows), _BINDS.get(request.required, 0)) if request.required else binds
        )
        capacity = np.choose(required, (self.free[rows], self.whole[rows], self.cores[rows]))
        code[bound & (capacity < cpus)] = _CODE[reasons.NOT_ENOUGH_CPUS]
        aligned = (policy != 0) | (own != 0)
        code[aligned & ~self.zones[rows]] = _CODE[reasons.MISSING_ZONES]
        threads = self.threads[rows]
        split = cpus % np.maximum(threads, 1) != 0
        code[bound & (required == 1) & split] = _CODE[reasons.SMT_ALIGNMENT]
        if request.required:
            conflict = bound & (binds != 0) & (binds != required)
            code[conflict] = _CODE[reasons.BIND_POLICY_CONFLICT]
        code[bound & (threads == 0)] = _CODE[reasons.INVALID_TOPOLOGY]
        if milli:
            self._amplified(code, request, rows, bound, table)
            code[np.isnan(self.ratio[rows])] = _CODE[reasons.INVALID_RATIO]
        if milli % MILLI:
            code[bound] = _CODE[reasons.CPUS_NOT_INTEGER]
        if own:
            code[(policy != 0) & (policy != own)] = _CODE[reasons.NUMA_POLICY_CONFLICT]
        return code

    def _amplified(
        self,
        code: NDArray[np.int8],
        request: NUMARequest,
        rows: NDArray[np.intp],
        bound: NDArray[np.bool_],
        table: NodeTable,
    ) -> None:
        ratio = self.ratio[rows]
        over = ratio > 1
        if not over.any():
            return
        used = amplified_use(table.requested[CPU, rows], self.bound[rows], ratio)
        requested_amounts = np.where(bound, np.ceil(request.cpu_milli * ratio), request.cpu_milli)
        short = over & (requested_amounts > table.allocatable[CPU, rows] - used)
        code[short] = _CODE[reasons.INSUFFICIENT_AMPLIFIED_CPU]

    def bindable(
        self, request: NUMARequest, rows: Rows
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_] | None]:
        """What :meth:`codes` and :meth:`decides` say where no row is constrained, in short.

        Args:
            request: with CPUs of its own and without a NUMA policy.
            rows: which.

        Returns:
            By row, whether no code would hold; and where that is not the whole answer, None for
            nowhere.
        """
        kind = _BINDS.get(request.required, 0)
        passes = (self.free, self.whole, self.cores)[kind][rows] >= request.cpus
        threads = self.threads[rows]
        if kind == _FULL:
            most = int(threads.max(initial=0))
            aligned = [bool(each) and request.cpus % each == 0 for each in range(most + 1)]
            passes &= np.array(aligned)[threads]
        else:
            passes &= threads > 0
        if request.cpu_milli % MILLI:
            passes[:] = False
        return passes, ~self.uniform[rows] if kind == _FULL else None

    def decides(self, request: NUMARequest, rows: NDArray[np.intp]) -> NDArray[np.bool_]:
        """By row, whether a code of 0 is the whole answer for pods that use no reservation."""
        aligned = (self.policy[rows] != 0) | (request.numa_policy is not TopologyPolicy.NONE)
        # Unequal cores: whether whole cores add up to the request only a pick can tell.
        required = request.required == BindPolicy.FULL_PCPUS or self.binds[rows] == 1
        exact: NDArray[np.bool_] = ~aligned & (self.uniform[rows] | ~np.asarray(required))
        return exact


def amplified(requested: int, bound: int, ratio: float) -> int:
    """:func:`amplified_use` of one row."""
    plain = bound * MILLI
    return requested - plain + amplify(plain, ratio) if requested >= plain > 0 else requested


def amplified_use(
    requested: NDArray[np.int64], bound: NDArray[np.int64], ratio: NDArray[np.float64]
) -> NDArray[np.int64]:
    """CPU milli in use where bound CPUs count amplified.

    Args:
        requested: milli.
        bound: CPUs that pods hold.
        ratio: above 1.
    """
    plain = bound * MILLI
    more = np.ceil(plain * np.where(np.isnan(ratio), 1.0, ratio)).astype(np.int64) - plain
    return np.where((plain > 0) & (requested >= plain), requested + more, requested)
