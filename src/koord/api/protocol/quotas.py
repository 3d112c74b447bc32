# SPDX-License-Identifier: Apache-2.0
"""A quota group's place and switches in its labels, its amounts in its annotations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api.kinds.meta import ResourceList
from koord.api.kinds.quota import ElasticQuota, ElasticQuotaSpec, GroupQuota
from koord.api.protocol import annotation, keys
from koord.api.protocol.resources import CPU, MEMORY
from koord.base.errors import KoordError
from koord.kernels.quantity import Quantity

if TYPE_CHECKING:
    from koord.api.kinds.meta import Object
    from koord.api.kinds.pod import Pod

ROOT_QUOTA = "koordinator-root-quota"
SYSTEM_QUOTA = "koordinator-system-quota"
DEFAULT_QUOTA = "koordinator-default-quota"

# The parent of the groups without a tree of their own, those of quota.koordinator.sh.
GROUPS_PARENT = "koord-guide"

_ZERO = Quantity()


def parent(quota: ElasticQuota) -> str:
    """The name of the parent group; the root for an empty label, ``""`` for the root itself."""
    if quota.metadata.name == ROOT_QUOTA:
        return ""
    return quota.metadata.labels.get(keys.QUOTA_PARENT) or ROOT_QUOTA


def is_parent(quota: ElasticQuota) -> bool:
    """Whether the group is an inner node of the tree."""
    return _is_true(quota, keys.QUOTA_IS_PARENT)


def is_tree_root(quota: ElasticQuota) -> bool:
    """Whether the group is the root of a tree other than the default one."""
    return _is_true(quota, keys.QUOTA_IS_ROOT)


def tree_id(quota: ElasticQuota) -> str:
    """The tree of the group, ``""`` for the default one."""
    return quota.metadata.labels.get(keys.QUOTA_TREE_ID, "")


def ignores_default_tree(quota: ElasticQuota) -> bool:
    """Whether the tree's total is left in the default tree's."""
    return _is_true(quota, keys.QUOTA_IGNORE_DEFAULT_TREE)


def allows_lending(quota: ElasticQuota) -> bool:
    """Whether others may use what the group does not; only ``"false"`` says no."""
    return quota.metadata.labels.get(keys.QUOTA_ALLOW_LENT_RESOURCE) != "false"


def allows_force_update(quota: ElasticQuota) -> bool:
    """Whether admission skips the sums of min and the guarantee."""
    return _is_true(quota, keys.QUOTA_ALLOW_FORCE_UPDATE)


def pod_quota_name(pod: Pod) -> str:
    """The group a pod names, ``""`` for none."""
    return pod.metadata.labels.get(keys.QUOTA_NAME, "")


def is_quota_preemptible(pod: Pod) -> bool:
    """Whether the pod may be preempted to give its group's quota back; only ``"false"`` says no."""
    return pod.metadata.labels.get(keys.QUOTA_PREEMPTIBLE) != "false"


def shared_weight(quota: ElasticQuota) -> ResourceList:
    """The weights by which idle quota is shared: the annotation's, or the group's max.

    A missing, malformed or all-zero annotation counts as none.
    """
    try:
        weight = annotation.read(quota, keys.QUOTA_SHARED_WEIGHT, ResourceList) or {}
    except KoordError:
        weight = {}
    has_weight = any(amount != _ZERO for amount in weight.values())
    return weight if has_weight else dict(quota.spec.max)


def amounts(quota: ElasticQuota, key: str) -> ResourceList:
    """A resource list among the group's annotations; empty if absent or ``""``.

    Args:
        quota: the group.
        key: one of the ``QUOTA_...`` keys whose value is a resource list.

    Raises:
        KoordError: malformed.
    """
    return annotation.read(quota, key, ResourceList, empty_is_absent=True) or {}


def namespaces(quota: ElasticQuota) -> list[str]:
    """Namespaces whose pods without a label use the group; none if malformed."""
    try:
        return annotation.read(quota, keys.QUOTA_NAMESPACES, list[str]) or []
    except KoordError:
        return []


def resource_keys(profile: Object) -> list[str]:
    """The resources of an ElasticQuotaProfile's tree: cpu and memory if not said, none if empty.

    Raises:
        KoordError: malformed.
    """
    found = annotation.read(profile, keys.QUOTA_RESOURCE_KEYS, list[str])
    return [CPU, MEMORY] if found is None else found


def strictly_checked_keys(quota: ElasticQuota) -> list[str]:
    """The resources whose max may not be set below what is used.

    Raises:
        KoordError: malformed.
    """
    return annotation.read(quota, keys.QUOTA_MAX_STRICT_CHECK_RESOURCE_KEYS, list[str]) or []


def ceiling(quota: GroupQuota) -> ResourceList:
    """How far a group may grow: per resource the lesser of max and hard, or the one there is."""
    limits = dict(quota.spec.max)
    for name, amount in quota.spec.hard.items():
        limits[name] = min(limits[name], amount) if name in limits else amount
    return limits


def as_tree_group(quota: GroupQuota) -> ElasticQuota:
    """The group of the default tree that a quota without a tree stands for.

    It is a child of ``koord-guide``, named ``namespace/name``; min stays, max and the shared
    weight are its :func:`ceiling`. Its priority is the tree's to apply.
    """
    limits = ceiling(quota)
    group = ElasticQuota(spec=ElasticQuotaSpec(min=dict(quota.spec.min), max=limits))
    group.metadata.namespace = quota.metadata.namespace
    group.metadata.name = f"{quota.metadata.namespace}/{quota.metadata.name}"
    group.metadata.labels = {keys.QUOTA_PARENT: GROUPS_PARENT, keys.QUOTA_IS_PARENT: "false"}
    group.metadata.annotations = {keys.QUOTA_SHARED_WEIGHT: annotation.text(limits)}
    return group


def _is_true(quota: ElasticQuota, key: str) -> bool:
    return quota.metadata.labels.get(key) == "true"
