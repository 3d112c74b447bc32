# SPDX-License-Identifier: Apache-2.0
"""What the root of a quota tree is, given its profile and the nodes: a function of plain values.

Rule: docs/reference/manager.md#quota-roots.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from koord.api import selectors
from koord.api.protocol import annotation, keys, quotas
from koord.api.protocol.numbers import parse_float
from koord.api.protocol.resources import CPU, MEMORY
from koord.base.errors import KoordError
from koord.kernels.quantity import Format, Quantity

if TYPE_CHECKING:
    from collections.abc import Iterable

    from koord.api.kinds.meta import Object, ResourceList
    from koord.api.kinds.node import Node
    from koord.api.kinds.quota import ElasticQuota, ElasticQuotaProfile

UNBOUNDED = Quantity.from_value((2**63 - 1) // 2000)
"""The max of a root: as much as sums of it still fit into 64 bits."""

_FNV_OFFSET, _FNV_PRIME = 0xCBF29CE484222325, 0x100000001B3
_ZERO = Quantity()


class QuotaRoot(NamedTuple):
    """The root group of a tree.

    Attributes:
        min: what the tree has, of the resources that count.
        max: unbounded.
        labels: to set.
        total: allocatable of all nodes.
        unschedulable: the part of it on nodes that take no pods.
    """

    min: ResourceList
    max: ResourceList
    labels: dict[str, str]
    total: ResourceList
    unschedulable: ResourceList


def root(profile: ElasticQuotaProfile, nodes: Iterable[Node]) -> QuotaRoot:
    """The root group of a profile's tree.

    Args:
        profile: with its tree's label.
        nodes: all there are.

    Raises:
        KoordError: the node selector cannot be evaluated.
        ValueError: an amount is beyond 64 bits.
    """
    selector = profile.spec.node_selector
    if selector is not None:
        selectors.check(selector, profile.title, "spec.nodeSelector")
    total: ResourceList = {}
    unschedulable: ResourceList = {}
    for node in nodes:
        if selectors.matches(selector, node.metadata.labels):
            _add(total, node.status.allocatable)
            if not _takes_pods(node):
                _add(unschedulable, node.status.allocatable)
    if profile.spec.resource_ratio is not None:
        ratio = _ratio(profile)
        total, unschedulable = _scaled(total, ratio), _scaled(unschedulable, ratio)
    names = _resource_keys(profile)
    return QuotaRoot(
        {name: total.get(name, _ZERO) for name in names},
        dict.fromkeys(names, UNBOUNDED),
        {
            keys.QUOTA_PROFILE: profile.metadata.name,
            **profile.spec.quota_labels,
            keys.QUOTA_TREE_ID: profile.metadata.labels.get(keys.QUOTA_TREE_ID, ""),
            keys.QUOTA_IS_ROOT: "true",
        },
        total,
        unschedulable,
    )


def changes(published: ElasticQuota | None, wanted: QuotaRoot) -> dict[str, Any]:
    """What to patch of a group, as a merge patch; empty if nothing is to be done.

    Labels and annotations of others stay. Amounts are compared by what they are, not as texts.
    """
    found: dict[str, Any] = {}
    labels = published.metadata.labels if published is not None else {}
    new_labels = {key: text for key, text in wanted.labels.items() if labels.get(key) != text}
    lists = {
        keys.QUOTA_TOTAL_RESOURCE: wanted.total,
        keys.QUOTA_UNSCHEDULABLE_RESOURCE: wanted.unschedulable,
    }
    texts = {
        key: annotation.text(dict(sorted(amounts.items())))
        for key, amounts in lists.items()
        if published is None or _quota_value(published, key) != amounts
    }
    metadata = {
        name: value for name, value in (("labels", new_labels), ("annotations", texts)) if value
    }
    if metadata:
        found["metadata"] = metadata
    spec = {}
    for name, amounts in (("min", wanted.min), ("max", wanted.max)):
        old: ResourceList = getattr(published.spec, name) if published is not None else {}
        if old != amounts:
            spec[name] = {**dict.fromkeys(old), **{key: str(q) for key, q in amounts.items()}}
    if spec:
        found["spec"] = spec
    return found


def tree_id(profile: Object) -> str:
    """The name of a tree that has none: the hash of ``namespace/name``, decimal."""
    return str(fnv1a(f"{profile.metadata.namespace}/{profile.metadata.name}"))


def fnv1a(text: str) -> int:
    """The 64-bit FNV-1a hash (http://www.isthe.com/chongo/tech/comp/fnv)."""
    number = _FNV_OFFSET
    for byte in text.encode():
        number = (number ^ byte) * _FNV_PRIME % 2**64
    return number


def _quota_value(quota: ElasticQuota, key: str) -> ResourceList | None:
    """A resource list among a group's annotations; None if there is none, or no such."""
    if key not in quota.metadata.annotations:
        return None
    try:
        return quotas.amounts(quota, key)
    except KoordError:
        return None


def _add(to: ResourceList, amounts: ResourceList) -> None:
    for name, amount in amounts.items():
        to[name] = to[name] + amount if name in to else amount


def _takes_pods(node: Node) -> bool:
    ready = any(c.type == "Ready" and c.status == "True" for c in node.status.conditions)
    return ready and not node.spec.unschedulable


def ratio_problem(profile: ElasticQuotaProfile) -> KoordError | None:
    """Why a profile's ratio counts as 1; None where it counts as it is, or is absent."""
    text = profile.spec.resource_ratio
    if text is None:
        return None
    field = "spec.resourceRatio"
    try:
        if 0 < parse_float(text, profile.title, field) <= 1:
            return None
    except KoordError:
        pass
    return KoordError(profile.title, field, text, "a number above 0, at most 1")


def _ratio(profile: ElasticQuotaProfile) -> float:
    text = profile.spec.resource_ratio
    if text is None or ratio_problem(profile) is not None:
        return 1.0
    return parse_float(text, profile.title, "")


def _resource_keys(profile: ElasticQuotaProfile) -> list[str]:
    try:
        return quotas.resource_keys(profile)
    except KoordError:
        return [CPU, MEMORY]


def _scaled(amounts: ResourceList, ratio: float) -> ResourceList:
    """Products of doubles, cut to whole units; a ratio of 1 rounds amounts above 2**53 too."""
    return {name: _multiplied(name, amount, ratio) for name, amount in amounts.items()}


def _multiplied(name: str, amount: Quantity, ratio: float) -> Quantity:
    if name == CPU:
        return Quantity.from_milli(int(amount.milli() * ratio))
    form = Format.BINARY_SI if name == MEMORY else Format.DECIMAL_SI
    return Quantity.from_value(int(amount.value() * ratio), form)
