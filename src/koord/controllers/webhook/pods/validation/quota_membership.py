# SPDX-License-Identifier: Apache-2.0
"""Which quotas pods may use: those without children, and the same one for good.

Rule: docs/reference/admission.md#quota-membership.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api.protocol import keys, quotas
from koord.base.errors import KoordError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from koord.api.kinds.pod import Pod
    from koord.controllers.webhook.elasticquotas.quota_topology import QuotaTopology

_NAME = f"labels[{keys.QUOTA_NAME}]"
_PREEMPTIBLE = f"labels[{keys.QUOTA_PREEMPTIBLE}]"


def preemptible_problems(pod: Pod, old: Pod) -> Iterator[KoordError]:
    """A change of whether a pod may be preempted within its quota."""
    now = pod.metadata.labels.get(keys.QUOTA_PREEMPTIBLE, "")
    before = old.metadata.labels.get(keys.QUOTA_PREEMPTIBLE, "")
    if now != before:
        expected = f"{before!r} as before" if before else "none as before"
        yield KoordError(pod.title, _PREEMPTIBLE, now or None, f"{expected}: it is fixed")


def parent_problems(
    pod: Pod, tree: QuotaTopology, *, by_label_alone: bool = False
) -> Iterator[KoordError]:
    """A pod of a quota that has children.

    Args:
        pod: with its namespace.
        tree: quotas that there are.
        by_label_alone: the namespace does not choose a quota.
    """
    meta = pod.metadata
    name = tree.of_pod(meta.labels, meta.namespace, label_only=by_label_alone)
    group = tree.groups.get(name)
    if name != quotas.DEFAULT_QUOTA and group is not None and group.is_parent:
        expected = f"a quota without children, which {group.title} may have"
        yield KoordError(pod.title, _NAME, name, expected)


def membership_warnings(pod: Pod, tree: QuotaTopology) -> Iterator[KoordError]:
    """A label that does not count: no such quota, or one that is not for the pod's namespace."""
    namespace = pod.metadata.namespace
    name = pod.metadata.labels.get(keys.QUOTA_NAME, "")
    if not name or name in (quotas.DEFAULT_QUOTA, quotas.SYSTEM_QUOTA, quotas.ROOT_QUOTA):
        return
    item = tree.item(name)
    if item is None:
        expected = f"the name of an ElasticQuota: the pod uses {quotas.DEFAULT_QUOTA}"
        yield KoordError(pod.title, _NAME, name, expected)
    elif not tree.reaches(item.metadata.namespace, namespace):
        expected = (
            f"a quota that reaches namespace {namespace}: the label does not count "
            f"(annotation {keys.QUOTAS_FROM} of the Namespace)"
        )
        yield KoordError(pod.title, _NAME, name, expected)
