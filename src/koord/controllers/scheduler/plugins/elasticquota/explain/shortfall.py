# SPDX-License-Identifier: Apache-2.0
"""Which limit of which quota would have to be higher for a pod to be admitted: tried, then told."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.controllers.scheduler.plugins.elasticquota.objects.pod_request import reading
from koord.kernels.quota_report import quantity_text

if TYPE_CHECKING:
    from koord.controllers.cluster.pods import PodInfo
    from koord.controllers.scheduler.plugins.elasticquota.admission import RuntimeQuotaAdmission
    from koord.controllers.scheduler.plugins.elasticquota.state.quota_ledger import QuotaLedger
    from koord.controllers.scheduler.plugins.elasticquota.state.quota_trees import QuotaTrees


def raises(
    groups: QuotaTrees, ledger: QuotaLedger, admission: RuntimeQuotaAdmission, pod: PodInfo
) -> list[str]:
    """What to raise, in words; nothing where no single quota is in the way.

    ``max`` comes first; where others need what there is, a higher ``min`` is what helps. The trees
    are as they were afterwards.
    """
    refusal, place = admission.check(pod), ledger.claim(pod.shape).place
    if refusal is None or refusal.decision is None or place is None or not refusal.decision.path:
        return []
    decision, tree = refusal.decision, groups.tree(place.tree_id)
    group = decision.path[0]
    asked, strict = ledger.amounts(pod.shape), reading(pod.shape).non_preemptible
    needed = {
        name: decision.used.get(name, 0) + decision.request[name] for name in decision.exceeded
    }
    spec = tree.spec(group)
    for field, before in (("max", dict(spec.max)), ("min", dict(spec.min))):
        more = {name: most for name, most in needed.items() if before.get(name, 0) < most}
        if not more:
            continue
        tree.update(group, **{field: before | more})
        try:
            helps = tree.fits(place.group, asked, non_preemptible=strict)
        finally:
            tree.update(group, **{field: before})
        if helps:
            texts = [f"{name} {quantity_text(name, most)}" for name, most in sorted(more.items())]
            return [f"raise {field} of the quota {group} to {', '.join(texts)}"]
    return []
