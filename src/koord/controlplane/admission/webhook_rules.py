# SPDX-License-Identifier: Apache-2.0
"""Which requests a webhook is called for, or a policy asked about."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from koord.base.documents import Document
from koord.controlplane.kinds.validation.workload_spec import matches as selects

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from koord.controlplane.extension import Attributes
    from koord.controlplane.resource import Resource


# Webhooks are never asked about these: a broken one could not be repaired any more.
_EXEMPT = frozenset(
    {
        "mutatingwebhookconfigurations.admissionregistration.k8s.io",
        "validatingwebhookconfigurations.admissionregistration.k8s.io",
        "validatingadmissionpolicies.admissionregistration.k8s.io",
        "validatingadmissionpolicybindings.admissionregistration.k8s.io",
    }
)


class WriteKind(NamedTuple):
    """What a write is, whatever object it is about.

    Attributes:
        operation: CREATE, UPDATE, DELETE or CONNECT.
        plural: of the resource; the same at all its versions and in all its groups.
        subresource: empty for the object itself.
    """

    operation: str
    plural: str
    subresource: str = ""


def may_cover(webhook: Document, kind: WriteKind) -> bool:
    """Whether rules can be about such a write; which group, version, name or scope is not asked."""
    return any(
        _lists(rule.get("operations"), kind.operation)
        and any(_names(each, kind.plural, kind.subresource) for each in rule.get("resources") or ())
        for rule in webhook.get("rules") or ()
    )


class WebhookMatcher:
    """Rules and selectors of webhooks against requests.

    Args:
        namespace_labels: of a namespace by name; None where there is no such namespace.
        equivalents: the same resource at all its versions and groups, itself included.
    """

    def __init__(
        self,
        namespace_labels: Callable[[str], dict[str, str] | None],
        equivalents: Callable[[Resource], Sequence[Resource]],
    ) -> None:
        self._namespace_labels = namespace_labels
        self._equivalents = equivalents

    def match(self, webhook: Document, attributes: Attributes) -> Resource | None:
        """The resource as whose object the webhook wants to see it; None if it does not."""
        return None if attributes.resource.storage in _EXEMPT else self.select(webhook, attributes)

    def select(self, webhook: Document, attributes: Attributes) -> Resource | None:
        """The same by rules and selectors alone.

        Args:
            webhook: has ``rules``, ``matchPolicy``, ``namespaceSelector``, ``objectSelector``.
        """
        found = self._by_rules(webhook, attributes)
        if found is None or not self._in_namespace(webhook, attributes):
            return None
        return found if _selected(webhook.get("objectSelector"), attributes) else None

    def in_namespace(self, webhook: Document, namespace: str) -> bool:
        """Whether a webhook is for what is in a namespace."""
        selector = webhook.get("namespaceSelector")
        return not selector or selects(selector, self._namespace_labels(namespace) or {})

    def _by_rules(self, webhook: Document, attributes: Attributes) -> Resource | None:
        rules = webhook.get("rules") or ()
        for rule in rules:
            if _covers(rule, attributes, attributes.resource):
                return attributes.resource
        if webhook.get("matchPolicy") == "Exact":
            return None
        for resource in self._equivalents(attributes.resource):
            if any(_covers(rule, attributes, resource) for rule in rules):
                return resource
        return None

    def _in_namespace(self, webhook: Document, attributes: Attributes) -> bool:
        selector = webhook.get("namespaceSelector")
        if not selector:
            return True
        if attributes.resource.storage == "namespaces":
            # A namespace is matched by its own labels.
            document = attributes.document or attributes.old or {}
            labels = (document.get("metadata") or {}).get("labels")
            return selects(selector, labels or {})
        return not attributes.namespace or self.in_namespace(webhook, attributes.namespace)


def _covers(rule: Document, attributes: Attributes, resource: Resource) -> bool:
    """Whether a rule speaks of an operation on a resource."""
    scope = rule.get("scope", "*")
    if scope == "Namespaced" and not (attributes.namespace and resource.namespaced):
        return False
    if scope == "Cluster" and attributes.namespace and resource.storage != "namespaces":
        return False
    names = rule.get("resourceNames")
    if names and attributes.name not in names:
        return False
    return (
        _lists(rule.get("operations"), attributes.operation)
        and _lists(rule.get("apiGroups"), resource.group)
        and _lists(rule.get("apiVersions"), resource.version)
        and any(
            _names(pattern, resource.plural, attributes.subresource)
            for pattern in rule.get("resources") or ()
        )
    )


def _lists(values: Sequence[str] | None, value: str) -> bool:
    return bool(values) and ("*" in (values or ()) or value in (values or ()))


def _names(pattern: str, plural: str, subresource: str) -> bool:
    """``pods``, ``pods/status``, ``pods/*``, ``*/status``, ``*`` (no subresources), ``*/*``."""
    main, _, sub = pattern.partition("/")
    return main in ("*", plural) and sub in ("*", subresource)


def _selected(selector: Document | None, attributes: Attributes) -> bool:
    """Whether the new or the old object has the labels."""
    if not selector or not any(selector.values()):
        return True
    for document in (attributes.document, attributes.old):
        if document is not None:
            labels = (document.get("metadata") or {}).get("labels") or {}
            if selects(selector, labels):
                return True
    return False
