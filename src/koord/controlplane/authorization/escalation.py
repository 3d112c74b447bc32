# SPDX-License-Identifier: Apache-2.0
"""Nobody grants more than they have: writes of roles and bindings.

Rule: Kubernetes' documentation of RBAC authorization, "Privilege escalation prevention and
bootstrapping". Rights that come by the verbs ``escalate`` and ``bind`` are exceptions.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from koord.controlplane.admission.plugin import AdmissionPlugin
from koord.controlplane.api_errors import forbidden
from koord.controlplane.authorization.access import AccessRequest
from koord.controlplane.authorization.identity import Identity
from koord.controlplane.authorization.rbac import STORAGES, allows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from koord.base.documents import Document
    from koord.controlplane.authorization.rbac import Authorizer
    from koord.controlplane.extension import Attributes

GROUP = "rbac.authorization.k8s.io"
_ROLES, _BINDINGS = ("roles", "clusterroles"), ("rolebindings", "clusterrolebindings")
_MAX_PARTS = 10_000


class RoleEscalation(AdmissionPlugin):
    """Refuses what would grant more than its author has.

    Args:
        authorizer: says what they have.
    """

    validates = True
    resources = STORAGES
    depends_on = STORAGES

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def validate(self, attributes: Attributes) -> None:
        """Raises ApiError, 403, to refuse."""
        resource, context = attributes.resource, attributes.context
        identity = Identity(context.user, context.groups)
        document = attributes.document
        if resource.group != GROUP or document is None or identity.is_master:
            return
        if resource.plural in _ROLES:
            old = (attributes.old or {}).get("rules")
            if document.get("rules") != old and not self._may("escalate", identity, attributes):
                self._covered(document.get("rules") or (), identity, attributes)
        elif resource.plural in _BINDINGS:
            reference = document["roleRef"]
            kind, name = reference["kind"], reference["name"]
            plural = "clusterroles" if kind == "ClusterRole" else "roles"
            access = AccessRequest("bind", GROUP, plural, "", attributes.namespace, name)
            if not self._authorizer.verdict(identity, access).allowed:
                rules = self._authorizer.rules_by_name(attributes.namespace, kind, name)
                self._covered(rules, identity, attributes)

    def _may(self, verb: str, identity: Identity, attributes: Attributes) -> bool:
        resource = attributes.resource
        access = AccessRequest(
            verb, GROUP, resource.plural, "", attributes.namespace, attributes.name
        )
        return self._authorizer.verdict(identity, access).allowed

    def _covered(
        self, rules: Iterable[Document], identity: Identity, attributes: Attributes
    ) -> None:
        granted = [g.rule for g in self._authorizer.rules_of(identity, attributes.namespace)]
        parts = itertools.islice(_parts(rules), _MAX_PARTS + 1)
        for count, part in enumerate(parts):
            if count == _MAX_PARTS or not any(_covers(rule, part) for rule in granted):
                why = f'user "{identity.name}" (groups={list(identity.groups)}) is attempting to '
                why += f"grant RBAC permissions not currently held: {_rule_text(part)}"
                raise forbidden(attributes.resource, attributes.name, why)


def _parts(rules: Iterable[Document]) -> Iterator[AccessRequest]:
    """Each single right in rules; a star is one, and only a star covers it."""
    for rule in rules:
        verbs = rule.get("verbs") or ()
        for verb, url in itertools.product(verbs, rule.get("nonResourceURLs") or ()):
            yield AccessRequest(verb, path=url)
        resources = itertools.product(
            verbs, rule.get("apiGroups") or (), rule.get("resources") or (),
            rule.get("resourceNames") or ("",),
        )  # fmt: skip
        for verb, group, resource, name in resources:
            main, _, sub = resource.partition("/")
            yield AccessRequest(verb, group, main, sub, "", name)


def _covers(rule: Document, part: AccessRequest) -> bool:
    if part.resource == "*" and not part.subresource and "*" not in (rule.get("resources") or ()):
        return False
    return allows(rule, part)


def _rule_text(part: AccessRequest) -> str:
    if not part.resource:
        return f"{{NonResourceURLs:[{part.path}], Verbs:[{part.verb}]}}"
    what = f"{part.resource}/{part.subresource}" if part.subresource else part.resource
    return f"{{APIGroups:[{part.group}], Resources:[{what}], Verbs:[{part.verb}]}}"
