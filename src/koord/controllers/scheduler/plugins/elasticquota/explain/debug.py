# SPDX-License-Identifier: Apache-2.0
"""Quotas for people and tools: the debug answer, and why a pod is over its quota."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koord.controllers.scheduler.plugins.elasticquota.state.group_usage import (
    as_texts,
    group_keys,
    group_usage,
)
from koord.kernels.quota import Figure, Verdict
from koord.kernels.quota_report import quantity_text

if TYPE_CHECKING:
    from koord.controllers.cluster.pods import PodInfo
    from koord.controllers.scheduler.plugins.elasticquota.admission import RuntimeQuotaAdmission
    from koord.controllers.scheduler.plugins.elasticquota.state.quota_ledger import QuotaLedger
    from koord.controllers.scheduler.plugins.elasticquota.state.quota_trees import (
        GroupKey,
        QuotaTrees,
    )

_SELF = {
    "selfRequest": Figure.SELF_REQUEST,
    "selfUsed": Figure.SELF_USED,
    "selfNonPreemptibleRequest": Figure.SELF_NON_PREEMPTIBLE_REQUEST,
    "selfNonPreemptibleUsed": Figure.SELF_NON_PREEMPTIBLE_USED,
}
_AGAINST = {
    Verdict.OVER_RUNTIME: "runtime",
    Verdict.OVER_MIN: "min",
    Verdict.OVER_PARENT_RUNTIME: "runtime of an ancestor",
    Verdict.DETACHED: "an ancestor that does not exist",
}


def quotas(
    groups: QuotaTrees, ledger: QuotaLedger, tree: str | None = None, *, pods: bool = False
) -> list[dict[str, Any]]:
    """All groups but the roots, tree by tree, parents first.

    Rule: docs/reference/quota-scheduling.md#status.

    Args:
        groups: the trees.
        ledger: whose pods.
        tree: only the groups of this tree.
        pods: with the pods charged to each.
    """
    places = [place for place in group_keys(groups) if tree in (None, place.tree_id)]
    return [quota(groups, ledger, place, pods=pods) for place in places]


def quota(
    groups: QuotaTrees, ledger: QuotaLedger, place: GroupKey, *, pods: bool = False
) -> dict[str, Any]:
    """One group; amounts as quantities."""
    tree = groups.tree(place.tree_id)
    now = group_usage(tree, place.group)
    found: dict[str, Any] = {
        "name": place.group,
        "parentName": now.spec.parent,
        "isParent": now.spec.is_parent,
        "runtimeVersion": groups.version,
        "allowLentResource": now.spec.allow_lent,
        "tree": place.tree_id,
        "max": as_texts(now.spec.max),
        "min": as_texts(now.spec.min),
        "autoScaleMin": as_texts(now.scaled_min),
        "used": as_texts(now.used),
        "nonPreemptibleUsed": as_texts(now.non_preemptible_used),
        "request": as_texts(now.request),
        "nonPreemptibleRequest": as_texts(now.non_preemptible_request),
        "sharedWeight": as_texts(now.spec.weight or now.spec.max),
        "runtime": as_texts(now.runtime),
        "childRequest": as_texts(now.child_request),
        "allocated": as_texts(now.allocated),
        "guaranteed": as_texts(now.guaranteed),
    }
    for key, figure in _SELF.items():
        found[key] = as_texts(tree.figure(place.group, figure))
    if now.spec.priority:
        found["priority"] = now.spec.priority
    if pods:
        found["podCache"] = {
            entry.pod.key: {
                "isAssigned": entry.used,
                "resource": as_texts(_masked(entry.amounts.forth, now.spec.max)),
            }
            for entry in ledger.pods(place.group)
        }
    return found


def why(
    groups: QuotaTrees, ledger: QuotaLedger, admission: RuntimeQuotaAdmission, pod: PodInfo
) -> dict[str, Any]:
    """Whose quota a pod uses, and where it is over it: by resource how much, held against what.

    Returns:
        JSON-able. ``over`` is empty for a pod that is admitted; ``sharing`` tells for each of its
        resources how the limit came about.
    """
    claim = ledger.claim(pod.shape)
    refusal = admission.check(pod)
    answer: dict[str, Any] = {
        "admitted": refusal is None,
        "quota": claim.place.group if claim.place else None,
        "tree": claim.place.tree_id if claim.place else None,
        "path": groups.ancestors(claim.place)[::-1] if claim.place else [],
        "message": refusal.reason if refusal else "",
        "over": [],
    }
    if refusal is None or refusal.decision is None or claim.place is None:
        return answer
    decision, tree = refusal.decision, groups.tree(claim.place.tree_id)
    answer["against"] = _AGAINST[decision.verdict]
    if not decision.exceeded:
        return answer
    group = decision.path[0]
    most = tree.spec(group).max
    for name in decision.exceeded:
        used, asked = decision.used.get(name, 0), decision.request[name]
        limit = decision.limit[name]
        found = {"used": used, "request": asked, "limit": limit, "by": used + asked - limit}
        if name in most:
            found["max"] = most[name]
        texts = {key: quantity_text(name, amount) for key, amount in found.items()}
        over: dict[str, Any] = {"quota": group, "resource": name, **texts}
        if decision.verdict is not Verdict.OVER_MIN:
            over["sharing"] = _sharing(groups, claim.place, group, name)
        answer["over"].append(over)
    return answer


def _sharing(groups: QuotaTrees, place: GroupKey, group: str, resource: str) -> list[str]:
    """How the group's runtime came about, in lines; none for a built-in group."""
    try:
        return str(groups.tree(place.tree_id).explain(group, resource)).splitlines()
    except ValueError:
        return []


def _masked(amounts: dict[str, int], names: Any) -> dict[str, int]:
    return {name: amount for name, amount in amounts.items() if name in names}
