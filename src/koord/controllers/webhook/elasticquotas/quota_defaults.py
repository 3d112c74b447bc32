# SPDX-License-Identifier: Apache-2.0
"""What a new ElasticQuota is given that it does not say.

Rule: docs/reference/admission.md#defaults-of-a-new-quota.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koord.api import codec
from koord.api.kinds.meta import ResourceList
from koord.api.protocol import annotation, keys, quotas
from koord.base.errors import Code, KoordError
from koord.controllers.cluster.quota_validation import PARENT_FIELD
from koord.controllers.webhook.framework.admission_decision import RuleEffect

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from koord.api.kinds.quota import ElasticQuota
    from koord.base.documents import Document
    from koord.controllers.cluster.quota_groups import QuotaGroup

_RULE = "defaults-of-a-new-quota"


def parent_name(document: Document) -> str:
    """The name of the parent that a quota asks for; the root where it says none."""
    labels = (document.get("metadata") or {}).get("labels") or {}
    return labels.get(keys.QUOTA_PARENT) or quotas.ROOT_QUOTA


def has_weight(item: ElasticQuota) -> bool:
    """Whether a quota says its shared weight itself."""
    return bool(item.metadata.annotations.get(keys.QUOTA_SHARED_WEIGHT))


def fill_defaults(
    document: Document, title: str, groups: Mapping[str, QuotaGroup]
) -> Iterator[RuleEffect]:
    """Fills in parent, tree and shared weight, in place; the root quota is left alone.

    Args:
        document: the quota, which must be well-formed as a whole.
        title: of the quota, for errors.
        groups: those that are known, by name.

    Raises:
        KoordError: its parent is not known, or its shared weight cannot be read.
    """
    metadata = document.setdefault("metadata", {})
    if metadata.get("name") == quotas.ROOT_QUOTA:
        return
    labels = _part(metadata, "labels")
    if not labels.get(keys.QUOTA_PARENT):
        labels[keys.QUOTA_PARENT] = quotas.ROOT_QUOTA
        yield RuleEffect(_RULE, "", f"{PARENT_FIELD} = {quotas.ROOT_QUOTA}")
    name = labels[keys.QUOTA_PARENT]
    if not labels.get(keys.QUOTA_TREE_ID) and name != quotas.ROOT_QUOTA:
        parent = groups.get(name)
        if parent is None:
            expected = "the name of a quota that exists"
            raise KoordError(title, PARENT_FIELD, name, expected, Code.NOT_FOUND)
        if parent.tree:
            labels[keys.QUOTA_TREE_ID] = parent.tree
            source = f"ElasticQuota {name}"
            yield RuleEffect(_RULE, source, f"labels[{keys.QUOTA_TREE_ID}] = {parent.tree}")
    yield from _fill_weight(_part(metadata, "annotations"), document, title)


def _fill_weight(
    annotations: dict[str, Any], document: Document, title: str
) -> Iterator[RuleEffect]:
    field = annotation.field_of(keys.QUOTA_SHARED_WEIGHT)
    most = codec.convert(
        (document.get("spec") or {}).get("max") or {}, ResourceList, title, "spec.max"
    )
    text = annotations.get(keys.QUOTA_SHARED_WEIGHT)
    if text:
        given = annotation.parse(text, ResourceList, title, field)
        weight = {**{name: given[name] for name in given if name in most}}
        weight |= {name: amount for name, amount in most.items() if name not in given}
        if weight.keys() == given.keys():
            return
    else:
        weight = most
    shown = annotation.text({name: str(weight[name]) for name in sorted(weight)})
    annotations[keys.QUOTA_SHARED_WEIGHT] = shown
    yield RuleEffect(_RULE, "", f"{field} = {shown}")


def _part(metadata: dict[str, Any], name: str) -> dict[str, Any]:
    if not isinstance(metadata.get(name), dict):
        metadata[name] = {}
    part: dict[str, Any] = metadata[name]
    return part
