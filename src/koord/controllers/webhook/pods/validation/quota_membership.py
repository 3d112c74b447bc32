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
    from koord.controllers.cluster.pod_quotas import PodQuotas

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
    pod: Pod, found: PodQuotas, *, by_label_alone: bool = False
) -> Iterator[KoordError]:
    """A pod of a quota that has children.

    Args:
        pod: with its namespace.
        found: quotas that there are.
        by_label_alone: the namespace does not choose a quota.
    """
    namespace = pod.metadata.namespace
    name = found.name_for(pod.metadata.labels, namespace, by_label_alone=by_label_alone)
    if name == quotas.DEFAULT_QUOTA:
        return
    quota = found.named(name, namespace)
    if quota is not None and quotas.is_parent(quota):
        expected = f"a quota without children, which {quota.title} may have"
        yield KoordError(pod.title, _NAME, name, expected)


def membership_warnings(pod: Pod, found: PodQuotas) -> Iterator[KoordError]:
    """A label that does not count: no such quota, or one that is not for the pod's namespace."""
    labels, namespace = pod.metadata.labels, pod.metadata.namespace
    name = labels.get(keys.QUOTA_NAME, "")
    if not name or name in (quotas.DEFAULT_QUOTA, quotas.SYSTEM_QUOTA, quotas.ROOT_QUOTA):
        return
    if found.is_out_of_reach(labels, namespace):
        expected = (
            f"a quota that reaches namespace {namespace}: the label does not count "
            f"(annotation {keys.QUOTAS_FROM} of the Namespace)"
        )
        yield KoordError(pod.title, _NAME, name, expected)
    elif found.named(name, namespace) is None:
        expected = f"the name of an ElasticQuota: the pod uses {quotas.DEFAULT_QUOTA}"
        yield KoordError(pod.title, _NAME, name, expected)
