# SPDX-License-Identifier: Apache-2.0
"""What is written back to quota objects: the figures of their groups, where they changed.

Rule: docs/reference/quota-scheduling.md#status. A figure counts as changed if it differs after
zeros are left out; then it is written whole. Functions here say what to write;
``statuscontroller`` writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from koord.api.protocol import annotation, keys, quotas
from koord.controllers.scheduler.plugins.elasticquota.state.group_usage import as_texts
from koord.kernels.quantity import Quantity

if TYPE_CHECKING:
    from koord.api.kinds.meta import ResourceList
    from koord.api.kinds.quota import ElasticQuota, GroupQuota
    from koord.controllers.scheduler.plugins.elasticquota.state.group_usage import GroupUsage

_NOTHING = Quantity()
_ANNOTATIONS = {
    keys.QUOTA_RUNTIME: "runtime",
    keys.QUOTA_REQUEST: "request",
    keys.QUOTA_CHILD_REQUEST: "child_request",
    keys.QUOTA_GUARANTEED: "guaranteed",
    keys.QUOTA_ALLOCATED: "allocated",
    keys.QUOTA_NON_PREEMPTIBLE_REQUEST: "non_preemptible_request",
    keys.QUOTA_NON_PREEMPTIBLE_USED: "non_preemptible_used",
}


def canonical_patch(quota: ElasticQuota, now: GroupUsage) -> dict[str, Any] | None:
    """The merge patch that brings a quota up to date, None if nothing changed.

    Raises:
        KoordError: an annotation that would be compared cannot be read.
    """
    annotations = {}
    for key, field in _ANNOTATIONS.items():
        amounts = as_texts(getattr(now, field))
        if not same(quotas.amounts(quota, key), amounts):
            annotations[key] = annotation.text(amounts)
    patch: dict[str, Any] = {"metadata": {"annotations": annotations}} if annotations else {}
    used = as_texts(now.used)
    if not same(quota.status.used, used):
        patch["status"] = {"used": _replacing(quota.status.used, used)}
    return patch or None


def guide_patch(
    quota: GroupQuota, now: GroupUsage, pods: Mapping[str, Mapping[str, int]]
) -> dict[str, Any] | None:
    """The merge patch of the guide's quota's status, None if nothing changed.

    Args:
        quota: as it is.
        now: its group's figures.
        pods: by name, what each pod that holds a node uses.
    """
    status: dict[str, Any] = {}
    had = quota.status
    for field, before, amounts in (
        ("allocatedQuota", had.allocated_quota, now.runtime),
        ("used", had.used, now.used),
    ):
        texts = as_texts(amounts)
        if not same(before, texts):
            status[field] = _replacing(before, texts)
    held: dict[str, Any] = {}
    for name in sorted(pods):
        before, texts = had.pod_allocated_quota.get(name, {}), as_texts(pods[name])
        if name not in had.pod_allocated_quota or not same(before, texts):
            held[name] = _replacing(before, texts)
    held |= dict.fromkeys(sorted(had.pod_allocated_quota.keys() - pods.keys()))
    if held:
        status["podAllocatedQuota"] = held
    return {"status": status} if status else None


def same(before: ResourceList, texts: Mapping[str, str]) -> bool:
    """Whether two lists are equal once zeros are left out."""
    now = {name: Quantity.parse(text) for name, text in texts.items()}
    return _present(before) == _present(now)


def _present(amounts: ResourceList) -> ResourceList:
    return {name: amount for name, amount in amounts.items() if amount != _NOTHING}


def _replacing(before: ResourceList, texts: Mapping[str, str]) -> dict[str, str | None]:
    """Texts for a merge patch, which keeps what it is not told to delete."""
    return {**dict.fromkeys(sorted(before.keys() - texts.keys())), **texts}
