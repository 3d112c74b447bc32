# SPDX-License-Identifier: Apache-2.0
"""Gangs, reservations, quotas and nodes' devices, each with its pods, their nodes and quotas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koord.api import codec
from koord.api.kinds.node import Node
from koord.api.kinds.quota import ElasticQuota, GroupQuota, PodGroup
from koord.api.kinds.reservation import FAILED, READY, Reservation
from koord.base.errors import nearest
from koord.controllers.scheduler.explain import gang_forecast as gangs
from koord.controllers.scheduler.explain.pod_summaries import MOST, PodSummaries

if TYPE_CHECKING:
    from collections.abc import Iterable

    from koord.api.kinds.reservation import ReservationStatus
    from koord.controllers.cluster.pods import PodInfo
    from koord.controllers.scheduler.explain.attempt_history import AttemptHistory
    from koord.controllers.scheduler.scheduler import Scheduler

Answer = dict[str, Any]


class ObjectExplainer:
    """Explains for one scheduler. An object that cannot be read is explained, too.

    All methods raise KeyError, with a line for people, where there is no such object or the plugin
    that knows it is not enabled.

    Args:
        scheduler: whose.
        history: of its attempts.
    """

    def __init__(self, scheduler: Scheduler, history: AttemptHistory) -> None:
        self._scheduler = scheduler
        self._history = history
        self._lines = PodSummaries(scheduler, history)
        self._invalid = scheduler.world.invalid

    def gang(self, namespace: str, name: str) -> Answer:
        """What a gang needs and has, what a plan for it would come to, and where its pods are."""
        key = f"{namespace}/{name}"
        cache = self._plugin("Coscheduling").gangs
        found = cache.gangs.get(key)
        problem = self._invalid.message(PodGroup, key) or (found.error if found is not None else "")
        if found is None and not problem:
            raise KeyError(f"cannot find gang {key}: no pod names it, and there is no PodGroup")
        answer: Answer = {"gang": key, "problem": problem}
        group = self._scheduler.world.view(PodGroup).get(key)
        if group is not None:
            answer["phase"] = group.status.phase or "Pending"
        if found is None:
            return answer
        if found.declared is not None:
            answer |= {"minimum": found.minimum, "mode": found.declared.mode}
        members = [self._lines.info(member.pod) for member in found.members.values()]
        planned = self._planned(members)
        if planned is not None:
            answer["plan"] = planned
        return answer | self._pods(members)

    def reservation(self, name: str) -> Answer:
        """What a reservation holds, what of it is used, and by whom."""
        plugin = self._plugin("Reservation")
        problem = self._invalid.message(Reservation, name)
        value = self._scheduler.world.view(Reservation).get(name)
        if value is None:
            if problem:
                return {"reservation": name, "problem": problem}
            raise KeyError(f"cannot find reservation {name}{self._meant(Reservation, name)}")
        uid, status = value.metadata.uid, value.status
        record = plugin.book.get(uid)
        last = self._history.last(uid)
        answer: Answer = {
            "reservation": name,
            "problem": problem or (record.error if record is not None else "") or _ended(status),
            "phase": status.phase or "Pending",
            "node": status.node_name,
            "allocateOnce": value.spec.allocate_once,
            "allocatable": {key: str(each) for key, each in status.allocatable.items()},
            "allocated": {key: str(each) for key, each in status.allocated.items()},
            "conditions": [
                {"type": each.type, "status": each.status, "reason": each.reason,
                 "message": each.message}
                for each in status.conditions
            ],
        }  # fmt: skip
        queued = self._scheduler.queue.get(uid)
        if queued is not None:
            answer["state"] = self._lines.state(uid, None)
            answer["quota"] = self._lines.of([queued.info])[0].quota
        if last is not None and last.message:
            answer["last"] = codec.to_document(last)
        owners = list(record.owners.values()) if record is not None else []
        return answer | self._pods(owners)

    def device(self, node: str) -> Answer:
        """The cards of a node, and who holds what of them."""
        plugin = self._plugin("DeviceShare")
        accounts = self._scheduler.world.accounts
        row = self._scheduler.world.table.row(node)
        try:
            summary = plugin.debug(["nodeDeviceSummaries", node])
        except KeyError:
            if row is None:
                meant = self._meant(Node, node)
                raise KeyError(f"cannot find node {node}{meant}") from None
            why = f"node {node} has no Device: no agent has reported cards there"
            return {"node": node, "problem": why}
        holders = plugin.cache.nodes[row].holders if row is not None else {}
        pods = [info for uid in holders if (info := accounts.get(uid)) is not None]
        problems = summary.pop("problems", [])
        return {"node": node, "problem": "; ".join(problems), **summary, **self._pods(pods)}

    def quota(self, name: str, namespace: str = "") -> Answer:
        """A quota's limits and use, and its pods; of one that is not in force, why not.

        Args:
            name: of the group, or of a quota without a tree.
            namespace: of that; empty for a group, whose names are one space, and where only one
                namespace has a quota of the name.

        Raises:
            KeyError: there is none, or several namespaces have one.
        """
        plugin = self._plugin("ElasticQuota")
        found = [] if namespace else self._without_a_tree(name)
        only = found if len(found) == 1 else []
        for group in (f"{namespace}/{name}", name) if namespace else (name, *only):
            problem = self._quota_problem(group)
            figures = plugin.figures_of(group, pods=True)
            if figures is not None:
                pods = {entry.pod.key: entry.pod for entry in plugin.ledger.pods(group)}
                lines = {line.pod: line for line in self._lines.of(pods.values())}
                cached = {self._lines.title(pods[key]): one
                          for key, one in figures["podCache"].items()}  # fmt: skip
                for key, one in cached.items():
                    one["node"] = lines[key].node if key in lines else ""
                return {**figures, "problem": problem, "podCache": cached}
            if problem:
                return {"name": group, "problem": problem}
        meant = " or ".join(found[:3]) or nearest(name, plugin.groups.names())
        hint = f"; did you mean {meant}?" if meant else ""
        raise KeyError(f"cannot find quota {name}{hint}")

    def _without_a_tree(self, name: str) -> list[str]:
        """Keys of the quotas of a name that stand for themselves in their namespaces."""
        view = self._scheduler.world.view(GroupQuota)
        return sorted(key for key, each in view.items() if each.metadata.name == name)

    def _quota_problem(self, group: str) -> str:
        """Of the object of a group: of any namespace, for a quota of a tree."""
        plugin = self._plugin("ElasticQuota")
        found: list[tuple[type[ElasticQuota | GroupQuota], str]] = [(GroupQuota, group)]
        for key, item in self._scheduler.world.view(ElasticQuota).items():
            if item.metadata.name == group:
                found.append((ElasticQuota, key))
                error = plugin.problem(item)
                if error is not None:
                    return str(error)
        guide = self._scheduler.world.view(GroupQuota).get(group)
        error = plugin.problem(guide) if guide is not None else None
        if error is not None:
            return str(error)
        said = (self._invalid.message(kind, key) for kind, key in found)
        return next((text for text in said if text), "") or self._invalid.named(ElasticQuota, group)

    def _planned(self, members: list[PodInfo]) -> Any:
        """What a plan for a gang would come to, by the first pod that waits."""
        for info in sorted(members, key=lambda each: each.key):
            profile = info.pod.spec.scheduler_name
            planner = self._scheduler.planners.get(profile)
            decider = self._scheduler.deciders.get(profile)
            if planner is None or decider is None or info.row >= 0:
                continue
            return codec.to_document(gangs.look(planner, info, decider))
        return None

    def _pods(self, pods: Iterable[PodInfo]) -> Answer:
        every = list(pods)
        lines = self._lines.of(every)
        return {
            "pods": [codec.to_document(line) for line in lines],
            "notShown": max(0, len(every) - MOST),
            "quotas": [codec.to_document(line) for line in self._lines.quotas(lines)],
        }

    def _plugin(self, name: str) -> Any:
        plugin = self._lines.plugin(name)
        if plugin is None:
            raise KeyError(f"no plugin {name} is enabled")
        return plugin

    def _meant(self, kind: type[Reservation | Node], name: str) -> str:
        known = [key for key, _ in self._scheduler.world.view(kind).items()]
        meant = nearest(name, known)
        return f"; did you mean {meant}?" if meant else ""


def _ended(status: ReservationStatus) -> str:
    """Why a Reservation ended, where it says so."""
    if status.phase != FAILED:
        return ""
    return next((each.message for each in status.conditions if each.type == READY), "")
