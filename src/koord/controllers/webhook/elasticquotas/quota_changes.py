# SPDX-License-Identifier: Apache-2.0
"""What of a quota must not change, and when one must not go.

Rules: docs/reference/admission.md#when-it-is-checked and #among-the-others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from koord.api.protocol import annotation, keys, quotas
from koord.base.errors import Code, KoordError
from koord.controllers.cluster.quota_validation import PARENT_FIELD, TREE_FIELD

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from koord.api.kinds.quota import ElasticQuota
    from koord.controllers.cluster.quota_groups import QuotaGroup
    from koord.controllers.webhook.elasticquotas.quota_topology import QuotaTopology

NAMESPACES_FIELD = annotation.field_of(keys.QUOTA_NAMESPACES)
_IS_PARENT_FIELD = f"labels[{keys.QUOTA_IS_PARENT}]"
_UNCHANGEABLE = (quotas.SYSTEM_QUOTA, quotas.ROOT_QUOTA)
_LASTING = (*_UNCHANGEABLE, quotas.DEFAULT_QUOTA)
_LABELS = (keys.QUOTA_PARENT, keys.QUOTA_IS_PARENT, keys.QUOTA_TREE_ID)
_MOST_NAMES = 2


class BoundPods(Protocol):
    """The pods that are there."""

    def naming(self, quota: str) -> Sequence[str]:
        """Pods whose label names a quota, as ``namespace/name``, sorted."""
        ...

    def any_in(self, namespace: str) -> bool:
        """Whether a namespace has any."""
        ...


def is_unchanged(old: ElasticQuota, new: ElasticQuota) -> bool:
    """Whether nothing that is checked has changed."""
    before, after = old.metadata, new.metadata
    return (
        old.spec == new.spec
        and all(before.labels.get(key, "") == after.labels.get(key, "") for key in _LABELS)
        and before.annotations.get(keys.QUOTA_NAMESPACES, "")
        == after.annotations.get(keys.QUOTA_NAMESPACES, "")
    )


def name_problems(item: ElasticQuota) -> Iterator[KoordError]:
    """Groups that the scheduler keeps itself, and nobody changes."""
    if item.metadata.name in _UNCHANGEABLE:
        expected = "another name: koord's scheduler keeps that group itself"
        yield KoordError(item.title, "metadata.name", item.metadata.name, expected)


def namespace_problems(
    item: ElasticQuota, old: ElasticQuota | None, tree: QuotaTopology
) -> Iterator[KoordError]:
    """Namespaces that a quota did not list, and that another has or that it does not reach."""
    name, own = item.metadata.name, item.metadata.namespace
    listed = quotas.namespaces(old) if old is not None else []
    for namespace in quotas.namespaces(item):
        if namespace in listed:
            continue
        taken = tree.bound_to(namespace)
        if taken is not None and taken != name:
            expected = f"namespaces without a quota; {taken} has it"
            yield KoordError(item.title, NAMESPACES_FIELD, namespace, expected)
        elif not tree.reaches(own, namespace):
            expected = f"namespaces that let quotas of {own} in by {keys.QUOTAS_FROM}"
            yield KoordError(item.title, NAMESPACES_FIELD, namespace, expected)


def parent_problems(item: ElasticQuota, tree: QuotaTopology) -> Iterator[KoordError]:
    """A parent that is not there, is below the quota, or does not reach it."""
    name, parent = item.metadata.name, quotas.parent(item)
    if parent in ("", quotas.ROOT_QUOTA):
        return
    above = tree.item(parent)
    if above is None:
        expected = "the name of a quota that exists"
        yield KoordError(item.title, PARENT_FIELD, parent, expected, Code.NOT_FOUND)
    elif tree.is_below(parent, name):
        yield KoordError(item.title, PARENT_FIELD, parent, "a parent that is not below the quota")
    elif not tree.reaches(above.metadata.namespace, item.metadata.namespace):
        expected = f"a parent of a namespace that {item.metadata.namespace} lets in"
        yield KoordError(item.title, PARENT_FIELD, parent, expected)


def change_problems(
    old: ElasticQuota, before: QuotaGroup, after: QuotaGroup, children: int, pods: BoundPods
) -> Iterator[KoordError]:
    """What becomes of ``is-parent`` and of the tree.

    Args:
        old: the object as it was.
        before: its group.
        after: the group as it is to be.
        children: how many it has.
        pods: those that are there.
    """
    if before.is_parent and not after.is_parent and children:
        expected = f'"true" while it has children ({children})'
        yield KoordError(after.title, _IS_PARENT_FIELD, "false", expected)
    if after.is_parent and not before.is_parent and _has_pods(old, pods):
        yield KoordError(after.title, _IS_PARENT_FIELD, "true", "no pods that use the quota")
    if before.tree != after.tree:
        expected = f"{before.tree or 'nothing'}, for it cannot change"
        yield KoordError(after.title, TREE_FIELD, after.tree, expected)


def _has_pods(old: ElasticQuota, pods: BoundPods) -> bool:
    name = old.metadata.name
    if pods.naming(name) or pods.any_in(name):
        return True
    return any(pods.any_in(namespace) for namespace in quotas.namespaces(old))


def deletion_problems(item: ElasticQuota, children: int, pods: BoundPods) -> Iterator[KoordError]:
    """Why a quota must stay."""
    name = item.metadata.name
    if name in _LASTING:
        yield KoordError(item.title, "metadata.name", name, "a group that may go")
    elif children:
        expected = f"a quota without children; it has {children}"
        yield KoordError(item.title, "", "deletion", expected)
    elif using := pods.naming(name):
        more = ", ..." if len(using) > _MOST_NAMES else ""
        listed = ", ".join(using[:_MOST_NAMES]) + more
        expected = f"a quota without pods; {len(using)} name it: {listed}"
        yield KoordError(item.title, "", "deletion", expected)
