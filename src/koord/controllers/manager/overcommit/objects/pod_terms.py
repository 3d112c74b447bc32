# SPDX-License-Identifier: Apache-2.0
"""Pods, and metrics without a pod, as rows of columns."""

from __future__ import annotations

from enum import IntFlag
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from koord.api.protocol.priority import PriorityClass, class_with_default
from koord.api.protocol.qos import QoSClass, qos_with_default
from koord.api.protocol.resources import MID_CPU, MID_MEMORY
from koord.api.protocol.scheduling import resource_status
from koord.api.requests import effective
from koord.base.errors import KoordError
from koord.controllers.manager.overcommit import amounts
from koord.controllers.manager.overcommit.amounts import CPU, MOST, AmountColumns

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from koord.api.kinds.nodemetric import PodMetricInfo
    from koord.api.kinds.pod import Pod

MOST_ZONES = 64
_COUNTED = frozenset({"Running", "Pending"})
_LOW = frozenset({PriorityClass.BATCH, PriorityClass.FREE})


class PodFlag(IntFlag):
    """What a row is.

    HIGH: neither batch nor free; what it uses is not there for batch.
    FIRM: neither mid, batch nor free, and a pod: its request is taken.
    MID: of class mid.
    LSE: never lends its CPU.
    MEASURED: has a metric.
    DANGLING: a metric without its pod.
    """

    HIGH = 1
    FIRM = 2
    MID = 4
    LSE = 8
    MEASURED = 16
    DANGLING = 32


# Plain numbers: flags of an enumeration are slow to join, and reports have many pods.
_MEASURED = int(PodFlag.MEASURED)
_HIGH, _LSE = int(PodFlag.HIGH), int(PodFlag.LSE)


class PodTerms(NamedTuple):
    """Columns, a row a pod that counts (Running or Pending) or a metric without its pod.

    Args:
        node: intp ``[rows]``, the row of the node.
        flags: uint8 ``[rows]``, see :class:`PodFlag`.
        request: what is asked for, mid resources included.
        used: what was measured; 0 without a metric.
        zones: uint64 ``[rows]``, the NUMA nodes that the pod is bound to by number, as bits; 0 for
            a pod that may run on all of them.
    """

    node: NDArray[np.intp]
    flags: NDArray[np.uint8]
    request: AmountColumns
    used: AmountColumns
    zones: NDArray[np.uint64]

    def has(self, flag: PodFlag) -> NDArray[np.bool_]:
        """Bool ``[rows]``: the rows that are all of a flag."""
        found: NDArray[np.bool_] = (self.flags & int(flag)) == int(flag)
        return found


class PodTerm(NamedTuple):
    """One row of :class:`PodTerms`, without its node."""

    flags: int
    request: tuple[int, int]
    used: tuple[int, int]
    zones: int


def counts(pod: Pod) -> bool:
    """Whether a pod counts at all: it has a node, and is Running or Pending, or terminating."""
    return bool(pod.spec.node_name) and pod.status.phase in _COUNTED


def term(pod: Pod) -> PodTerm:
    """The row of a pod, without a metric (docs/reference/overcommit.md#pods-that-count).

    A mid pod asks for mid resources in place of native ones; both count, so that a policy by
    request does not take it for nothing.
    """
    priority_class = class_with_default(pod)
    flags = PodFlag(0)
    if priority_class not in _LOW:
        flags |= PodFlag.HIGH
        flags |= PodFlag.MID if priority_class is PriorityClass.MID else PodFlag.FIRM
    if qos_with_default(pod) is QoSClass.LSE:
        flags |= PodFlag.LSE
    asked = effective(pod)
    cpu, memory = asked.get("cpu", 0), asked.get("memory", 0)
    if priority_class is PriorityClass.MID:
        cpu, memory = cpu + asked.get(MID_CPU, 0), memory + asked.get(MID_MEMORY, 0)
    return PodTerm(int(flags), (min(cpu, MOST), min(memory, MOST)), (0, 0), zones(pod))


def zones(pod: Pod) -> int:
    """The NUMA nodes that a scheduler has bound a pod to, as bits; 0 for none or a bad annotation.

    Numbers beyond :data:`MOST_ZONES` are no NUMA nodes.
    """
    try:
        bound = resource_status(pod).numa_node_resources
    except KoordError:
        return 0
    numbers = {each.node for each in bound if 0 <= each.node < MOST_ZONES}
    return sum(1 << number for number in numbers)


def measured(own: PodTerm, used: tuple[int, int]) -> PodTerm:
    """The row of a pod with a metric."""
    return PodTerm(own.flags | _MEASURED, own.request, used, own.zones)


def dangling(metric: PodMetricInfo) -> PodTerm | None:
    """The row of a metric whose pod does not count (any more); None for those of batch and free.

    The metric's own class decides: what it does not say is taken for high.
    """
    if metric.priority in _LOW:
        return None
    return PodTerm(
        int(PodFlag.HIGH | PodFlag.MEASURED | PodFlag.DANGLING), (0, 0), usage(metric), 0
    )


def usage(metric: PodMetricInfo) -> tuple[int, int]:
    """CPU and memory that a metric says its pod uses."""
    return amounts.read(metric.pod_usage.resources) if metric.pod_usage else (0, 0)


def columns(rows: list[tuple[int, PodTerm]]) -> PodTerms:
    """Rows by node as columns."""
    terms = [each for _, each in rows]
    return PodTerms(
        np.array([node for node, _ in rows], np.intp),
        np.array([each.flags for each in terms], np.uint8),
        _pairs([each.request for each in terms]),
        _pairs([each.used for each in terms]),
        np.array([each.zones for each in terms], np.uint64),
    )


def _pairs(pairs: list[tuple[int, int]]) -> AmountColumns:
    return np.ascontiguousarray(np.array(pairs, np.int64).reshape(len(pairs), 2).T)


class PodClaims(NamedTuple):
    """What each row takes; 0 for those that are not high.

    Args:
        request: what it asks for.
        used: what it uses, or asks for where that is not known or not lent.
        larger: the larger of what it asks for and uses.
        firm: what it asks for if it is of neither mid, batch nor free.
        waiting: what it asks for if it is not measured.
    """

    request: AmountColumns
    used: AmountColumns
    larger: AmountColumns
    firm: AmountColumns
    waiting: AmountColumns


def claims(terms: PodTerms) -> PodClaims:
    """What each row takes (docs/reference/overcommit.md#pods-that-count).

    A pod without a metric is taken for what it asks for, however it is counted: it may use that
    at any moment. LSE pods use the CPU that they ask for, even if it is idle. A dangling metric
    has no request.
    """
    high, known = terms.has(PodFlag.HIGH), terms.has(PodFlag.MEASURED)
    used = np.where(known, terms.used, terms.request)
    larger = np.maximum(used, terms.request)
    used[CPU] = np.where(terms.has(PodFlag.LSE), terms.request[CPU], used[CPU])
    request = terms.request * high
    firm = terms.request * terms.has(PodFlag.FIRM)
    return PodClaims(request, used * high, larger * high, firm, request * ~known)


def claimed(term: PodTerm) -> tuple[int, ...]:
    """What one row takes, without columns, which are slow for one.

    Returns:
        Request, used and larger as :class:`PodClaims` has them: CPU and memory of each, six
        numbers.
    """
    if not term.flags & _HIGH:
        return (0,) * 6
    cpu, memory = term.request
    used_cpu, used_memory = term.used if term.flags & _MEASURED else term.request
    larger = max(cpu, used_cpu), max(memory, used_memory)
    kept_cpu = cpu if term.flags & _LSE else used_cpu
    return (cpu, memory, kept_cpu, used_memory, *larger)
