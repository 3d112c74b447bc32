# SPDX-License-Identifier: Apache-2.0
"""What a scheduler believes, against what one that begins now makes of the API's lists.

Columns, promised nodes, what every plugin tells of itself, and what both say of pods: who may go
where, and what each node is worth. The second one has no kept answers, so those of the first are
held against it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
import numpy as np

from koord.api.kinds.node import Node
from koord.base import rng
from koord.base.errors import KoordError
from koord.controllers.cluster.pods import PodInfo
from koord.controllers.scheduler.cache.local_views import LocalViews
from koord.controllers.scheduler.cluster_state import ClusterState
from koord.controllers.scheduler.config.load import SchedulerConfiguration, decode, shipped_document
from koord.controllers.scheduler.debug import state_dump
from koord.controllers.scheduler.explain.pod_explainer import as_it_came
from koord.controllers.scheduler.framework.cycle import Cycle
from koord.controllers.scheduler.framework.feasibility import best_node
from koord.controllers.scheduler.registry import Registry
from koord.controllers.scheduler.scheduler import Scheduler

# Differ by what happened before, on purpose: counters, and versions of kept figures.
_IGNORED = frozenset(("version", "runtimeVersion", "createTime", "OnceResourceSatisfied",
                      "onceResourceSatisfied", "BindingMemberPods", "WaitingGangIDs"))  # fmt: skip


def configuration(registry: Registry) -> SchedulerConfiguration:
    """What is shipped; quotas are held to the limits of those above them too."""
    document = shipped_document("koord-scheduler", "default-scheduler")
    for profile in document["profiles"]:
        given = next(each for each in profile["pluginConfig"] if each["name"] == "ElasticQuota")
        given["args"] = {**given["args"], "enableCheckParentQuota": True}
    return decode(document, "the histories' configuration", registry)


def anew(lists: dict[type, list[Any]], clock: Any, seed: int, page: int = 0) -> Scheduler:
    """A scheduler that is told of all objects, kind by kind in an order drawn by lot.

    Args:
        lists: the objects.
        clock: the time.
        seed: of the order.
        page: how many of a kind it is told of at once; 0 for one by one.
    """
    registry = Registry(outside=[])
    wish = configuration(registry)
    views = LocalViews()
    world = ClusterState(views, clock, None, None, None, "koord-scheduler")
    made = Scheduler(world, wish.profiles, registry, wish.queue)
    kinds = sorted(lists, key=lambda each: each.__name__)
    rng.stream(seed, "order").shuffle(kinds)
    for kind in kinds:
        for start in range(0, len(lists[kind]), page) if page else ():
            views.view(kind).put_page(lists[kind][start : start + page])
        for each in () if page else lists[kind]:
            views.view(kind).put(each)
    return made


def differences(live: Scheduler, fresh: Scheduler, probes: Iterable[Any]) -> list[str]:
    """One line a difference, none where both believe the same."""
    found = []
    names = sorted(live.world.table.names())
    if names != sorted(fresh.world.table.names()):
        return [f"nodes: {names} are {sorted(fresh.world.table.names())}"]
    for name in names:
        found += _compare(f"node {name}", *(_columns(each, name) for each in (live, fresh)))
    promised = (_plain(state_dump.queue(each)["nominated"]) for each in (live, fresh))
    found += _compare("promised", *promised)
    paths = [*_paths(live, names)]
    for plugin, path in paths:
        pair = (_told(each, plugin, path) for each in (live, fresh))
        found += _compare(f"{plugin} {'/'.join(path)}", *pair)
    for pod in probes:
        pair = (verdict(each, pod) for each in (live, fresh))
        found += _compare(f"verdict on {pod.metadata.name}", *pair)
    return found


def left_over(fresh: Scheduler, pods: Iterable[Any]) -> list[str]:
    """One line a pod that waits while all filters agree on a node for it."""
    found = []
    for pod in pods:
        waits = not pod.spec.node_name and not pod.spec.scheduling_gates
        if waits and not pod.metadata.deletion_timestamp and pod.status.phase in ("", "Pending"):
            chosen = verdict(fresh, pod).get("chosen")
            found += [f"{pod.metadata.name} waits, and would go to {chosen}"] if chosen else []
    return found


def _columns(scheduler: Scheduler, name: str) -> dict[str, Any]:
    found = state_dump.node(scheduler, name)
    for part in ("allocatable", "requested", "remaining"):
        found[part] = {key: value for key, value in found[part].items() if value}
    found["usedPorts"] = sorted(found["usedPorts"], key=repr)
    row = scheduler.world.table.row(name)
    node = scheduler.world.table.nodes[row] if row is not None else None
    found["node"] = node.metadata.resource_version if isinstance(node, Node) else None
    return found


def _paths(scheduler: Scheduler, names: list[str]) -> Iterable[tuple[str, list[str]]]:
    gangs = [p for p in scheduler.plugins if p.name == "Coscheduling"]
    for name in names:
        yield "NodeNUMAResource", ["nodes", name]
        yield "DeviceShare", ["nodeDeviceSummaries", name]
        yield "Reservation", ["nodeReservations", name]
        yield "LoadAwareScheduling", ["node", name]
    yield "ElasticQuota", ["quotas"]
    quota = next(p for p in scheduler.plugins if p.name == "ElasticQuota")
    for group in quota.debug(["quotas"]):
        yield "ElasticQuota", ["quotas", group["name"]]
    for gang in sorted(gangs[0].gangs.gangs):
        yield "Coscheduling", ["gang", *gang.split("/")]


def _told(scheduler: Scheduler, name: str, path: list[str]) -> Any:
    plugin = next(p for p in scheduler.plugins if p.name == name)
    try:
        return _plain(msgspec.to_builtins(plugin.debug(path)))
    except (KeyError, ValueError, KoordError) as error:
        return str(error)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items() if key not in _IGNORED}
    if isinstance(value, list):
        return sorted((_plain(each) for each in value), key=repr)
    return value


def verdict(scheduler: Scheduler, pod: Any) -> dict[str, Any]:
    """What all filters and scores say of a pod as if it were new, by node."""
    decider = scheduler.deciders["koord-scheduler"]
    asks = scheduler.world.shapes.info(as_it_came(pod))
    counted = scheduler.world.accounts.get(pod.metadata.uid)
    with decider.accounts.what_if():
        if counted is not None and counted.row >= 0:
            decider.accounts.drop(counted)
        cycle = Cycle(PodInfo(asks.pod, asks.shape), decider.table)
        decision = decider.attempt(cycle)
        early = decision.diagnosis.early if decision.diagnosis is not None else None
        if early is not None:
            return {"early": early.text}
        kept = decider.evaluator.entry(cycle)
        table = decider.table
        refused = {
            table.name(row): _refusing(decider, int(kept.rejected[row]))
            for row in np.flatnonzero(table.open[: table.size]).tolist()
        }
        fitting = np.flatnonzero((kept.rejected[: table.size] == 0) & table.open[: table.size])
        if cycle.allowed is not None:
            fitting = fitting[cycle.allowed[fitting]]
        for plugin in decider.plugins.pre_score:
            plugin.pre_score(cycle, fitting)
        _, parts = best_node.totals(cycle, kept, decider.plugins.score, fitting)
        worth = {
            name: {table.name(int(row)): int(part[at]) for at, row in enumerate(fitting)}
            for name, part in parts.items()
            if len(fitting)
        }
        chosen = table.name(decision.row) if decision.row >= 0 else ""
        return {"refused": refused, "worth": worth, "chosen": chosen}


def _refusing(decider: Any, bits: int) -> list[str]:
    filters = decider.evaluator.filters
    return [plugin.name for number, plugin in enumerate(filters) if bits >> number & 1]


def _compare(what: str, live: Any, fresh: Any) -> list[str]:
    if live == fresh:
        return []
    if isinstance(live, dict) and isinstance(fresh, dict):
        return [
            line
            for key in sorted({*live, *fresh}, key=str)
            for line in _compare(f"{what}.{key}", live.get(key), fresh.get(key))
        ]
    return [f"{what}: {live!r}, anew {fresh!r}"]
