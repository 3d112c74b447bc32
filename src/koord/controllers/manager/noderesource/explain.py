# SPDX-License-Identifier: Apache-2.0
"""Why a node offers what it offers: the answer of ``/apis/v1/explain/nodes/NAME``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from koord.api import codec
from koord.api.protocol import nodes
from koord.api.protocol import resources as names
from koord.api.protocol.priority import PriorityClass
from koord.api.protocol.qos import QoSClass
from koord.base.errors import KoordError
from koord.controllers.manager.noderesource.plugins.batch_and_mid import BATCH, MID, amplified
from koord.controllers.manager.overcommit.explain.breakdown import OfferBreakdown, account
from koord.controllers.manager.overcommit.explain.breakdown_lines import BreakdownLine, total
from koord.controllers.manager.overcommit.explain.recent_offers import OfferChanges
from koord.kernels.quantity import Quantity, Rounding

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from koord.api.kinds.meta import ResourceList
    from koord.api.kinds.node import Node
    from koord.api.kinds.nodemetric import ClassSummary, NodeMetric, ResourceMap
    from koord.api.sloconfig.strategies import ColocationStrategy
    from koord.controllers.manager.overcommit.explain.recent_offers import OfferHistory
    from koord.controllers.manager.overcommit.state.overcommit_cache import OvercommitCache

_ZERO = Quantity()


class ExplainedUsage(msgspec.Struct, frozen=True, rename="camel"):
    """What a part of a node uses, as its agent reports.

    Attributes:
        what: node, system, hostApplications, LS (all pods that are not BE) or BE.
        cpuMilli, memoryBytes: the usage.
        pods: how many pods that is; None for what is none.
        requestCpuMilli, requestMemoryBytes: what those pods ask for; None where the agent gives no
            summary by class.
    """

    what: str
    cpu_milli: int
    memory_bytes: int
    pods: int | None = None
    request_cpu_milli: int | None = None
    request_memory_bytes: int | None = None


class ThirdParty(msgspec.Struct, frozen=True, rename="camel"):
    """What another scheduler holds of batch."""

    name: str
    cpu_milli: int
    memory_bytes: int


class NodeExplanation(msgspec.Struct, frozen=True, rename="camel"):
    """Everything about one node.

    Attributes:
        node: its name.
        nowSeconds: wall time of the answer.
        account: the sums behind batch and mid, term by term.
        cpuSpeed: what batch CPU is multiplied by, as the node's annotation says; 1 without one.
        thirdParties: who holds how much of what is left then.
        applied: by resource, the lines that lead from the sum of the account to what is shown:
            speed, thirdParties, belowZero (they hold more than there is) and notWritten (what is
            shown has not been brought up to date, for it has moved too little or just now); empty
            where nothing is shown.
        shown: what the node shows, by resource: milli-cores and bytes; None where it shows none.
        usage: by class.
        strategy: the co-location strategy of the node.
        history: what was offered over the last hour.
    """

    node: str
    now_seconds: float
    account: OfferBreakdown
    cpu_speed: float
    third_parties: list[ThirdParty]
    applied: dict[str, list[BreakdownLine]]
    shown: dict[str, int | None]
    usage: list[ExplainedUsage]
    strategy: dict[str, Any]
    history: OfferChanges


def explain(
    ledger: OvercommitCache,
    history: OfferHistory,
    node: Node,
    metric: NodeMetric | None,
    strategy: ColocationStrategy,
    now: float,
) -> NodeExplanation:
    """The answer for a node that has a row.

    Args:
        ledger: the figures.
        history: how they moved.
        node: as the API server has it.
        metric: what its agent reported last.
        strategy: what its figures are worked out by.
        now: wall seconds.
    """
    row = ledger.row(node.metadata.name)
    if row is None:
        raise KeyError(f"node {node.metadata.name} is not worked out yet")
    found, speed, parties = account(ledger, row), _speed(node), _third_parties(node)
    shown = {name: _published_amount(node, name) for name in (*BATCH, *MID)}
    return NodeExplanation(
        node=node.metadata.name,
        now_seconds=now,
        account=found,
        cpu_speed=speed,
        third_parties=parties,
        applied={
            name: _applied(name, amount, shown[name], speed, parties)
            for name, amount in _offered(found)
        },
        shown=shown,
        usage=_usage(metric) if metric is not None else [],
        strategy=codec.to_document(strategy),
        history=history.of(row, now),
    )


def _speed(node: Node) -> float:
    try:
        return max(1.0, nodes.cpu_normalization_ratio(node))
    except KoordError:
        return 1.0


def _third_parties(node: Node) -> list[ThirdParty]:
    try:
        found = nodes.third_party_allocations(node).allocations
    except KoordError:
        return []
    return [
        ThirdParty(each.name, *(each.resources.get(name, _ZERO).value() for name in BATCH))
        for each in found
        if each.priority == PriorityClass.BATCH
    ]


def _offered(breakdown: OfferBreakdown) -> Iterator[tuple[str, int]]:
    for names_of, pair in ((BATCH, breakdown.batch), (MID, breakdown.mid)):
        if pair is not None:
            yield from zip(names_of, (pair.cpu.offered, pair.memory.offered), strict=True)


def _applied(
    name: str, offered: int, published: int | None, speed: float, parties: Sequence[ThirdParty]
) -> list[BreakdownLine]:
    """What is done to an offer before it is shown, in the order of ``extended``."""
    if published is None:
        return []
    found = []
    if name == BATCH[0]:
        found.append(
            BreakdownLine("speed", amplified(Quantity.from_value(offered), speed).value() - offered)
        )
    if name in BATCH:
        field = "cpu_milli" if name == BATCH[0] else "memory_bytes"
        found.append(BreakdownLine("thirdParties", -sum(getattr(each, field) for each in parties)))
    left = offered + total(found)
    found += [
        BreakdownLine("belowZero", max(0, -left)),
        BreakdownLine("notWritten", published - max(0, left)),
    ]
    return [line for line in found if line.amount]


def _published_amount(node: Node, name: str) -> int | None:
    amount = node.status.allocatable.get(name)
    return None if amount is None else amount.value(Rounding.UP)


def _usage(metric: NodeMetric) -> list[ExplainedUsage]:
    status = metric.status
    if status.node_metric is None:
        return []
    best_effort = [each for each in status.pods_metric if each.qos == QoSClass.BE]
    others = [each for each in status.pods_metric if each.qos != QoSClass.BE]
    applications = [each.usage for each in status.host_application_metric]
    found = [
        ExplainedUsage("node", *_sum([status.node_metric.node_usage])),
        ExplainedUsage("system", *_sum([status.node_metric.system_usage])),
    ]
    if applications:
        found.append(ExplainedUsage("hostApplications", *_sum(applications)))
    for what, pods, summary in (
        ("LS", others, status.ls_metric),
        ("BE", best_effort, status.be_metric),
    ):
        used = _sum(each.pod_usage for each in pods)
        found.append(ExplainedUsage(what, *used, len(pods), *_request(summary)))
    return found


def _request(summary: ClassSummary | None) -> tuple[int, int] | tuple[None, None]:
    return (None, None) if summary is None else _pair(summary.request)


def _sum(parts: Iterable[ResourceMap | None]) -> tuple[int, int]:
    pairs = [_pair(part.resources) for part in parts if part is not None]
    return sum(cpu for cpu, _ in pairs), sum(memory for _, memory in pairs)


def _pair(amounts: ResourceList) -> tuple[int, int]:
    cpu, memory = (amounts.get(name, _ZERO) for name in (names.CPU, names.MEMORY))
    return cpu.milli(Rounding.UP), memory.value(Rounding.UP)
