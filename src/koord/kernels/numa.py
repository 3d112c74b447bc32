# SPDX-License-Identifier: Apache-2.0
"""NUMA alignment: what zones have left, how requests spread over them, hints, merge and policies.

A zone is a NUMA node, named by its id (0 to 1023, at most 64 of them, sparse ids allowed). Sets of
zones are integer masks by *position* in `Zones`, which is ascending by id. Amounts are plain
integers in base units, CPU (`"cpu"`) in milli, as mappings ``{zone id: {resource: amount}}``.

The rules are those of Koordinator's NodeNUMAResource plugin and of the kubelet's topology manager;
``docs/kernels/numa.md`` tells them in full. Who asks the same machine often makes a `Frame` of its
zones and resources once, and tables of it. Every function is pure. Wrong input raises ValueError,
an unknown zone id KeyError, both with one line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from koord._native.cluster import numa as _native
from koord.kernels._numa_table import Frame, ZoneTable
from koord.kernels._numa_types import (
    EXCLUSIVES,
    POLICIES,
    STATUSES,
    Amounts,
    CpuBinding,
    Decision,
    Distribution,
    EffectivePolicy,
    Exclusive,
    Hint,
    HintList,
    Pool,
    Provider,
    Scorer,
    Strategy,
    TopologyPolicy,
    Zones,
    ZoneStatus,
    by_position,
    columns_of,
    count,
    hint_of,
    int64,
)

__all__ = [
    "Amounts",
    "CpuBinding",
    "Decision",
    "Distribution",
    "EffectivePolicy",
    "Exclusive",
    "Frame",
    "Hint",
    "HintList",
    "Pool",
    "Provider",
    "Scorer",
    "Strategy",
    "TopologyPolicy",
    "ZoneStatus",
    "ZoneTable",
    "Zones",
    "admit",
    "available",
    "distribute",
    "effective_policy",
    "enumerate_masks",
    "generate_hints",
    "merge",
    "reported_policy",
    "zone_id",
    "zone_status",
]


def enumerate_masks(zones: int) -> list[int]:
    """All non-empty masks over 1 to 16 zones: by size, then 0, 1, 2, 01, 02, 12, 012."""
    return _native.enumerate_masks(count("zones", zones))


def available(
    total: Amounts,
    used: Amounts,
    *,
    reusable: Amounts | None = None,
    bound_cpus: Mapping[int, int] | None = None,
    cpu_ratio: float = 1.0,
) -> dict[int, dict[str, int]]:
    """What every zone has left: ``total - (used - reusable)``, both clamped at zero.

    Zones without an entry in ``used`` are untouched. With a ``cpu_ratio`` above 1 each of the
    ``bound_cpus`` (count by zone) uses that many times 1000m, rounded up over the zone.
    """
    zones = Zones(total)
    # Amplified CPUs are in use also where no table mentions CPU.
    amplified = {0: {"cpu": 0}} if cpu_ratio > 1 else {}
    names = _names(total, used, reusable or {}, amplified)
    left = _native.available(
        columns_of(total, zones, names),
        zones.mask(used),
        columns_of(used, zones, names),
        columns_of(reusable or {}, zones, names),
        by_position(bound_cpus or {}, zones),
        cpu_ratio,
    )
    result: dict[int, dict[str, int]] = {zone: {} for zone in zones.ids}
    for name, column in zip(names, left, strict=True):
        for position, amount in enumerate(column.amount):
            if column.listed >> position & 1:
                result[zones.ids[position]][name] = amount
    return result


def distribute(
    available: Amounts,
    requests: Mapping[str, int],
    affinity: Iterable[int],
    *,
    cpus: CpuBinding | None = None,
) -> Distribution:
    """Spreads requests evenly over the zones of ``affinity``.

    For each resource that some zone lists, zones give in ascending order of what they have (ties by
    id), each at most an even share of what remains. With ``cpus`` CPU moves in whole ones (whole
    cores under required FullPCPUs), and a required policy caps a zone by what it can bind.
    """
    zones = Zones(available)
    names = _names(available, {0: requests})
    requested = sorted(requests)
    demands = _demands(requests, requests, names)
    taken, missing = _native.distribute(
        columns_of(available, zones, names),
        demands,
        zones.mask(affinity),
        len(zones),
        None if cpus is None else cpus._to_native(zones),
    )
    by_zone: dict[int, dict[str, int]] = {}
    for position, zone in enumerate(zones.ids):
        shares = {n: taken[i * len(zones) + position] for i, n in enumerate(requested)}
        if any(shares.values()):
            by_zone[zone] = {name: amount for name, amount in shares.items() if amount}
    return Distribution(by_zone, tuple(requested[i] for i in missing))


def generate_hints(
    total: Amounts,
    available: Amounts,
    requests: Mapping[str, int],
    policy: TopologyPolicy,
    *,
    pools: Sequence[Pool] = (),
    amplified: Mapping[str, int] | None = None,
    scorer: Scorer | None = None,
) -> dict[str, HintList]:
    """The sets of zones on which a pod fits, for each requested resource that some zone lists.

    Scores and missing resources are judged by ``available``; a set of zones is feasible when one of
    the ``pools`` (by default ``available`` itself) can serve all requests on it. ``amplified`` are
    the requests as scoring sees them. An empty list means that nothing fits. At most 16 zones.
    """
    zones = Zones(total)
    chosen = pools or (Pool(available),)
    names = _names(total, available, {0: requests}, *(pool.available for pool in chosen))
    requested = sorted(requests)
    scored = {**requests, **(amplified or {})}
    lists = _native.generate_hints(
        len(zones),
        columns_of(total, zones, names),
        columns_of(available, zones, names),
        _demands(requests, scored, names),
        [pool._to_native(zones, names) for pool in chosen],
        None if scorer is None else scorer._to_native(names),
        policy == TopologyPolicy.RESTRICTED,
    )
    pairs = zip(requested, lists, strict=True)
    return {name: HintList._wrap(hints) for name, hints in pairs if hints is not None}


def merge(
    zones: Zones,
    lists: Iterable[Sequence[Hint]],
    *,
    exclusive: Exclusive = Exclusive.NONE,
    statuses: Mapping[int, ZoneStatus] | None = None,
) -> Hint:
    """The best combination of one hint a list, as if every combination had been tried in turn.

    Preferred combinations come first, then narrower ones; among these a later one takes over with a
    lower mask or a higher score. ``statuses`` are by zone id, idle where missing.
    """
    return hint_of(
        _native.merge(
            zones._native,
            EXCLUSIVES[exclusive],
            _statuses(statuses, zones),
            [_hint_list(hints) for hints in lists],
        )
    )


def admit(
    policy: TopologyPolicy,
    zones: Zones,
    providers: Iterable[Provider],
    *,
    exclusive: Exclusive = Exclusive.NONE,
    statuses: Mapping[int, ZoneStatus] | None = None,
) -> Decision:
    """Merges the providers' hints and judges the result by the policy.

    A provider that failed rejects the pod with its message. Resources are taken in the providers'
    order, and in each by name.
    """
    natives = [
        _native.Provider(
            provider.failure,
            tuple(
                (name, None if hints is None else _hint_list(hints))
                for name, hints in provider.hints.items()
            ),
        )
        for provider in providers
    ]
    decision = _native.admit(
        POLICIES[policy],
        zones._native,
        EXCLUSIVES[exclusive],
        _statuses(statuses, zones),
        natives,
    )
    return Decision(hint_of(decision.hint), decision.admitted, decision.reasons)


def reported_policy(names: Iterable[str], *, compatible: bool = False) -> TopologyPolicy:
    """The first of a node's reported policy names that means a policy.

    Understands every name of the kubelet and of NodeResourceTopology and raises ValueError for any
    other; with ``compatible`` only the three that Koordinator's scheduler recognises count.
    """
    return TopologyPolicy[_native.reported_policy(list(names), compatible).name]


def zone_id(name: str) -> int | None:
    """The id in a NodeResourceTopology zone name such as ``node-10``; None for another name."""
    match = re.fullmatch(r"(?:(?!node-).)*node-([0-9]{1,9})", name)
    return int(match[1]) if match else None


def zone_status(single_pods: int, shared_pods: int) -> ZoneStatus:
    """A zone's status, from how many pods hold CPUs on it alone and on others as well."""
    pods = count("single pods", single_pods), count("shared pods", shared_pods)
    return ZoneStatus[_native.zone_status(*pods).name]


def effective_policy(
    node: TopologyPolicy, pod: TopologyPolicy, exclusive: Exclusive = Exclusive.NONE
) -> EffectivePolicy:
    """The pod's policy if it has one, else the node's; two different ones are a conflict.

    A pod that sets a policy but no exclusive rule gets `Exclusive.REQUIRED`.
    """
    policy, rule, conflict = _native.effective_policy(
        POLICIES[node],
        POLICIES[pod],
        EXCLUSIVES[exclusive],
    )
    return EffectivePolicy(TopologyPolicy[policy.name], Exclusive[rule.name], conflict)


def _hint_list(hints: Sequence[Hint]) -> _native.HintList:
    return (hints if isinstance(hints, HintList) else HintList(hints))._native


def _statuses(statuses: Mapping[int, ZoneStatus] | None, zones: Zones) -> list[_native.Status]:
    if not statuses:
        return [STATUSES[ZoneStatus.IDLE]] * len(zones)
    zones.mask(statuses)
    return [STATUSES[statuses.get(zone, ZoneStatus.IDLE)] for zone in zones.ids]


def _names(*tables: Amounts) -> list[str]:
    return sorted({name for table in tables for amounts in table.values() for name in amounts})


def _demands(
    requests: Mapping[str, int], scored: Mapping[str, int], names: Sequence[str]
) -> list[_native.Demand]:
    return [
        _native.Demand(names.index(name), int64(name, requests[name]), int64(name, scored[name]))
        for name in sorted(requests)
    ]
