# SPDX-License-Identifier: Apache-2.0
"""Roles and bindings; what they allow is koord.controlplane.authorization's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koord.base.documents import Document
from koord.controlplane.kinds.table_cells import AGE, NAME, age_of
from koord.controlplane.kinds.validation import names
from koord.controlplane.kinds.validation.causes import Causes
from koord.controlplane.resource import Column, Strategy

if TYPE_CHECKING:
    from koord.kube.errors import StatusCause


GROUP = "rbac.authorization.k8s.io"
_SUBJECTS = ("ServiceAccount", "User", "Group")


class RoleStrategy(Strategy):
    """Roles, and with ``cluster`` ClusterRoles.

    Args:
        cluster: rules may name paths that are no resources.
    """

    create_on_update = True
    columns = (NAME, Column("Created At", type="date"))

    def __init__(self, cluster: bool = False) -> None:
        self._cluster = cluster

    def default(self, document: Document) -> None:
        """Rules are always written, if only as null."""
        document.setdefault("rules", None)

    def validate(self, document: Document) -> list[StatusCause]:
        """Each rule says what may be done to what."""
        causes = Causes()
        for index, rule in enumerate(document.get("rules") or ()):
            self._check_rule(rule, f"rules[{index}]", causes)
        return causes

    def row(self, document: Document, now_seconds: float) -> list[Any]:
        """The cells of one table row."""
        metadata = document["metadata"]
        return [metadata["name"], metadata.get("creationTimestamp")]

    def _check_rule(self, rule: Document, path: str, causes: Causes) -> None:
        if not rule.get("verbs"):
            causes.required(f"{path}.verbs", "verbs must contain at least one value")
        if urls := rule.get("nonResourceURLs"):
            if not self._cluster:
                why = "namespaced rules cannot apply to non-resource URLs"
                causes.invalid(f"{path}.nonResourceURLs", urls, why)
            elif any(rule.get(key) for key in ("apiGroups", "resources", "resourceNames")):
                why = "rules cannot apply to both regular resources and non-resource URLs"
                causes.invalid(f"{path}.nonResourceURLs", urls, why)
            return
        if not rule.get("apiGroups"):
            why = "resource rules must supply at least one api group"
            causes.required(f"{path}.apiGroups", why)
        if not rule.get("resources"):
            why = "resource rules must supply at least one resource"
            causes.required(f"{path}.resources", why)


class RoleBindingStrategy(Strategy):
    """RoleBindings, and with ``cluster`` ClusterRoleBindings."""

    create_on_update = True
    columns = (
        NAME,
        Column("Role"),
        AGE,
        Column("Users", priority=1),
        Column("Groups", priority=1),
        Column("ServiceAccounts", priority=1),
    )

    def __init__(self, cluster: bool = False) -> None:
        self._cluster = cluster
        self._kinds = ("ClusterRole",) if cluster else ("Role", "ClusterRole")

    def default(self, document: Document) -> None:
        """The API groups of role and subjects."""
        reference = document.setdefault("roleRef", {})
        reference.setdefault("apiGroup", GROUP)
        for subject in document.get("subjects") or ():
            if "apiGroup" not in subject and subject.get("kind") in ("User", "Group"):
                subject["apiGroup"] = GROUP

    def validate(self, document: Document) -> list[StatusCause]:
        """The role and the subjects."""
        causes = Causes()
        reference = document["roleRef"]
        if reference["apiGroup"] != GROUP:
            causes.not_supported("roleRef.apiGroup", reference["apiGroup"], (GROUP,))
        if reference.get("kind", "") not in self._kinds:
            causes.not_supported("roleRef.kind", reference.get("kind", ""), self._kinds)
        name = reference.get("name", "")
        if not name:
            causes.required("roleRef.name")
        causes.invalid_all("roleRef.name", name, names.path_segment(name))
        for index, subject in enumerate(document.get("subjects") or ()):
            self._check_subject(subject, f"subjects[{index}]", causes)
        return causes

    def validate_update(self, document: Document, old: Document) -> list[StatusCause]:
        """The role is fixed."""
        causes = Causes(self.validate(document))
        if document["roleRef"] != old["roleRef"]:
            reference = document["roleRef"]
            shown = {
                "APIGroup": reference["apiGroup"],
                "Kind": reference.get("kind", ""),
                "Name": reference.get("name", ""),
            }
            causes.invalid("roleRef", shown, "cannot change roleRef")
        return causes

    def row(self, document: Document, now_seconds: float) -> list[Any]:
        """The cells of one table row."""
        reference = document.get("roleRef") or {}
        subjects = document.get("subjects") or ()
        listed = {kind: [s for s in subjects if s.get("kind") == kind] for kind in _SUBJECTS}
        accounts = [f"{s.get('namespace', '')}/{s['name']}" for s in listed["ServiceAccount"]]
        return [
            document["metadata"]["name"],
            f"{reference.get('kind')}/{reference.get('name')}",
            age_of(document, now_seconds),
            ", ".join(subject["name"] for subject in listed["User"]),
            ", ".join(subject["name"] for subject in listed["Group"]),
            ", ".join(accounts),
        ]

    def _check_subject(self, subject: Document, path: str, causes: Causes) -> None:
        kind, name = subject.get("kind", ""), subject.get("name", "")
        if not name:
            causes.required(f"{path}.name")
        if kind not in _SUBJECTS:
            causes.not_supported(f"{path}.kind", kind, _SUBJECTS)
        elif kind == "ServiceAccount":
            if name:
                causes.invalid_all(f"{path}.name", name, names.dns_subdomain(name))
            if self._cluster and not subject.get("namespace"):
                causes.required(f"{path}.namespace")
