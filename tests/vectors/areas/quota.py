# SPDX-License-Identifier: Apache-2.0
"""ElasticQuota: the figures of quotas after a history of quotas, pods and nodes, which pods are
admitted, and who may take whose place.

The original's refreshes are repeated until nothing changes before anything is read. Quotas come
after their parents, and one that goes has neither pods nor children. Amounts of 0 are left out.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from koord.api import codec
from koord.api.kinds.node import Node
from koord.api.kinds.pod import Pod
from koord.api.kinds.quota import ElasticQuota
from koord.api.protocol import keys
from koord.controllers.cluster.node_table import NodeTable
from koord.controllers.cluster.pods import PodInfo, Shapes
from koord.controllers.cluster.quota_objects import integer_amounts
from koord.controllers.scheduler.framework.accounts import Accounts
from koord.controllers.scheduler.plugins.elasticquota.admission import RuntimeQuotaAdmission
from koord.controllers.scheduler.plugins.elasticquota.allocation.preemption import QuotaVictimPolicy
from koord.controllers.scheduler.plugins.elasticquota.state.cluster_total import ClusterTotal
from koord.controllers.scheduler.plugins.elasticquota.state.group_usage import group_usage
from koord.controllers.scheduler.plugins.elasticquota.state.quota_ledger import QuotaLedger
from koord.controllers.scheduler.plugins.elasticquota.state.quota_trees import (
    QuotaTreeOptions,
    QuotaTrees,
)
from koord.kernels.quantity import Quantity
from koord.kernels.quota import DEFAULT, ROOT, SYSTEM, Options, Verdict
from tests.vectors import quota_histories
from tests.vectors.area import Difference, Json

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

SEED = 20262
_LIMITS = {
    Verdict.OVER_RUNTIME: "runtime", Verdict.OVER_MIN: "min", Verdict.OVER_PARENT_RUNTIME: "parent",
}  # fmt: skip


def inputs(draw: random.Random) -> list[Json]:
    """Histories: 300 asked for figures, 200 for the admission of a pod, 60 for preemption."""
    return quota_histories.inputs(draw)


def answer(case: Json) -> Json:
    """See :func:`tests.vectors.area.Area.answer`."""
    world = _World(case)
    for step in case["steps"]:
        world.take(step)
    if case["kind"] == "admit":
        return world.admitted(case["ask"])
    if case["kind"] == "preempt":
        policy = QuotaVictimPolicy(
            world.groups, world.ledger, Accounts(NodeTable()), spare_default=case["spareDefault"]
        )
        pods = world.pods
        return [policy.may_preempt(pods[one], pods[other]) for one, other in case["pairs"]]
    return world.figures()


class _World:
    def __init__(self, case: Json) -> None:
        settings = QuotaTreeOptions(
            Options(case["runtime"], case["parents"], case["guarantee"]),
            default_max=_limits(case["defaultMax"]), system_max=_limits(case["systemMax"]),
            scale_min=case["scale"],
        )  # fmt: skip
        self.groups, self.totals, self._shapes = QuotaTrees(settings), ClusterTotal(), Shapes()
        self.ledger = QuotaLedger(self.groups)
        self.quotas: dict[str, ElasticQuota] = {}
        self.pods: dict[str, PodInfo] = {}

    def take(self, step: Json) -> None:
        do, text = step["do"], json.dumps(step.get("object", {})).encode()
        if do == "quota":
            quota = codec.decode_json(text, ElasticQuota, "ElasticQuota")
            problem = self.groups.put(quota)
            assert problem is None, problem
            self.quotas[quota.metadata.name] = quota
        elif do == "dropQuota":
            self.groups.remove(self.quotas.pop(step["name"]))
        elif do == "pod":
            pod = self._shapes.info(codec.decode_json(text, Pod, "Pod"))
            self.pods[pod.pod.metadata.name] = pod
            self.ledger.list_pod(pod)
        elif do == "dropPod":
            self.ledger.unlist(self.pods.pop(step["name"]).uid)
        elif do == "node":
            self.totals.put(codec.decode_json(text, Node, "Node"))
            self.groups.set_total(self.totals.total())
        elif do == "dropNode":
            self.totals.remove(step["name"])
            self.groups.set_total(self.totals.total())

    def figures(self) -> Json:
        tree, found = self.groups.tree(""), {}
        for name in (*self.quotas, DEFAULT, SYSTEM, ROOT):
            now = group_usage(tree, name)
            told = {
                "runtime": now.runtime, "used": now.used, "request": now.request,
                "nonPreemptibleUsed": now.non_preemptible_used,
                "nonPreemptibleRequest": now.non_preemptible_request,
            }  # fmt: skip
            if name in self.quotas:
                told |= {
                    "childRequest": now.child_request, "scaledMin": now.scaled_min,
                    "guaranteed": now.guaranteed, "allocated": now.allocated,
                }  # fmt: skip
            found[name] = {key: _present(amounts) for key, amounts in told.items()}
        return found

    def admitted(self, name: str) -> Json:
        refusal = RuntimeQuotaAdmission(self.groups, self.ledger).check(self.pods[name])
        if refusal is None:
            return {"admitted": True}
        decision = refusal.decision
        if decision is None or decision.verdict not in _LIMITS:
            return {"admitted": False, "limit": refusal.reason}
        found = {
            "admitted": False, "limit": _LIMITS[decision.verdict],
            "exceeded": list(decision.exceeded),
        }  # fmt: skip
        return found | ({"group": decision.path[0]} if found["limit"] == "parent" else {})


def _limits(texts: dict[str, str]) -> dict[str, int]:
    return integer_amounts("", "", {name: Quantity.parse(text) for name, text in texts.items()})


def _present(amounts: dict[str, int]) -> dict[str, int]:
    return {name: amount for name, amount in amounts.items() if amount}


COVERAGE = {
    "core/group_quota_manager.go:OnNodeUpdate": "the rest is for a node that was never added",
    "core/group_quota_manager.go:OnPodUpdate": "the rest is for pods that end, by gates",
    "elasticquota/plugin_helper.go:GetQuotaName": "the rest is for a gate and for failing look-ups",
}


class _End:
    """What is there after a history, and whether a quota went, moved or changed its kind in it."""

    def __init__(self, case: Json) -> None:
        self.quotas: dict[str, Json] = {}
        self.pods: dict[str, Json] = {}
        self.is_rearranged = False
        nodes: dict[str, Json] = {}
        tables = {"quota": self.quotas, "pod": self.pods, "node": nodes}
        for step in case["steps"]:
            if step["do"] == "quota":
                meta = step["object"]["metadata"]
                before = self.quotas.get(meta["name"], step["object"])["metadata"]
                self.is_rearranged |= before["labels"] != meta["labels"]
            self.is_rearranged |= step["do"] == "dropQuota"
            if step["do"] in tables:
                tables[step["do"]][step["object"]["metadata"]["name"]] = step["object"]
            elif step["do"].startswith("drop"):
                del tables[step["do"].removeprefix("drop").lower()][step["name"]]
        self.offered = {name for node in nodes.values() for name in node["status"]["allocatable"]}
        limits = [case["defaultMax"], case["systemMax"]]
        limits += [quota["spec"]["max"] for quota in self.quotas.values()]
        self.limited = {name for limit in limits for name in limit}

    def is_shared(self, quota: str, resource: str) -> bool:
        """Whether the level of a quota shares a resource out."""
        parent = self.quotas[quota]["metadata"]["labels"].get(keys.QUOTA_PARENT)
        return not parent or resource in self.quotas[parent]["spec"]["max"]

    def owns_without_lending(self, resource: str) -> bool:
        """Whether some quota keeps its minimum of a resource."""
        return any(
            resource in quota["spec"]["min"]
            and quota["metadata"]["labels"].get(keys.QUOTA_ALLOW_LENT_RESOURCE) == "false"
            for quota in self.quotas.values()
        )


def _figures_differ(case: Json, theirs: Json, ours: Json) -> str:
    """The first of the reasons for which figures differ, ``""`` if one differs for none."""
    end, found = _End(case), set()
    for quota, figures_of in theirs.items():
        for figure, amounts in figures_of.items():
            now = ours[quota][figure]
            for resource in amounts.keys() | now.keys():
                if amounts.get(resource) != now.get(resource):
                    found.add(_why(case, end, quota, figure, resource))
    return "" if "" in found else min(found)


def _why(case: Json, end: _End, quota: str, figure: str, resource: str) -> str:
    if quota == ROOT and figure == "request":
        return "root-request"
    if quota == ROOT and figure == "runtime" and resource not in end.limited:
        return "root-counted"
    if figure == "scaledMin" and not end.is_shared(quota, resource):
        return "unshared-minimum"
    if figure in ("scaledMin", "runtime") and resource not in end.offered:
        return "gone-resource"
    if case["reset"]:
        return ""
    kept = case["guarantee"] and figure in ("allocated", "guaranteed", "runtime")
    if kept and end.is_rearranged:
        return "kept-guarantee"
    if figure == "runtime" and end.owns_without_lending(resource):
        return "late-minimum"
    return ""


def _differ_by(reason: str) -> Callable[[Json, Json, Json], bool]:
    def covers(case: Json, theirs: Json, ours: Json) -> bool:
        return case["kind"] == "figures" and _figures_differ(case, theirs, ours) == reason

    return covers


def _asked(case: Json, end: _End) -> dict[str, str]:
    spec = end.pods[case["ask"]]["spec"]
    requests: dict[str, str] = spec["containers"][0]["resources"]["requests"]
    return {**requests, **spec.get("overhead", {})}


def _other_resources(case: Json, theirs: Json, ours: Json) -> bool:
    if case["kind"] != "admit" or theirs.get("limit") != "runtime":
        return False
    asked = _asked(case, _End(case))
    own = [name for name in theirs["exceeded"] if asked.get(name, "0") != "0"]
    if own:
        return bool(ours == {**theirs, "exceeded": own})
    return bool(ours.get("limit") != "runtime")


def _asks_for_nothing(case: Json, theirs: Json, ours: Json) -> bool:
    if case["kind"] != "admit" or theirs.get("limit") != "parent":
        return False
    asked = _asked(case, _End(case))
    own = [name for name in theirs["exceeded"] if asked[name] != "0"]
    return bool(not own or ours == {**theirs, "exceeded": own})


def _gone(case: Json, theirs: Json, ours: Json) -> bool:
    if case["kind"] != "admit" or theirs.get("limit") != "runtime":
        return _differ_by("gone-resource")(case, theirs, ours)
    end = _End(case)
    asked = {name for name, text in _asked(case, end).items() if text != "0"}
    differing = asked.intersection(theirs["exceeded"]).symmetric_difference(
        ours.get("exceeded", [])
    )
    return bool(differing) and differing.isdisjoint(end.offered)


def _unnamed_above(case: Json, theirs: Json, ours: Json) -> bool:
    if case["kind"] != "admit" or not theirs["admitted"] or ours["limit"] != "parent":
        return False
    most = _End(case).quotas[ours["group"]]["spec"]["max"]
    return not any(name in most for name in ours["exceeded"])


def _default_limit(case: Json, theirs: Json, ours: Json) -> bool:
    if case["kind"] != "admit" or not case["runtime"] or not theirs["admitted"]:
        return False
    end = _End(case)
    name = end.pods[case["ask"]]["metadata"]["labels"].get(keys.QUOTA_NAME)
    return bool(name not in end.quotas and ours["limit"] == "runtime")


DIFFERENCES = {
    "quota-admission-own-resources": Difference(
        "a pod is refused for resources of its quota that it does not ask for", _other_resources,
    ),
    "quota-admission-zero-request": Difference(
        "an ancestor refuses a pod for a resource of which it asks for 0", _asks_for_nothing,
    ),
    "quota-builtin-limits": Difference(
        "the default group's max limits nothing while runtime quotas are on", _default_limit,
    ),
    "quota-gone-resource": Difference(
        "a resource that no node has any more stays known at 0", _gone,
    ),
    "quota-unnamed-above": Difference(
        "an ancestor whose max does not name a resource may limit it or not, as states came",
        _unnamed_above,
    ),
    "quota-guarantee-leaves": Difference(
        "what a quota that went or moved guaranteed stays with its parents",
        _differ_by("kept-guarantee"),
    ),
    "quota-minimum-from-start": Difference(
        "the level of a quota that does not lend learns of its minimum late",
        _differ_by("late-minimum"),
    ),
    "quota-root-runtime": Difference(
        "the root's runtime has what some quota limits", _differ_by("root-counted"),
    ),
    "quota-root-request": Difference(
        "the root's request depends on earlier states", _differ_by("root-request"),
    ),
    "quota-unshared-minimum": Difference(
        "minimums are scaled in resources that the level does not share out",
        _differ_by("unshared-minimum"),
    ),
}  # fmt: skip
