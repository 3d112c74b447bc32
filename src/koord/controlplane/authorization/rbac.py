# SPDX-License-Identifier: Apache-2.0
"""Role-based access control: roles say what, bindings to whom; nothing takes a right away.

Rule: Kubernetes' documentation of RBAC authorization. Reference:
docs/controlplane.md#who-may-come-in.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from koord.controlplane.authorization.identity import ACCOUNT_PREFIX, Identity
from koord.controlplane.kinds.validation.workload_spec import matches as selects

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from koord.base.documents import Document
    from koord.controlplane.authorization.access import AccessRequest
    from koord.controlplane.extension import Reader

ROLES, ROLE_BINDINGS, CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS = STORAGES = (
    "roles.rbac.authorization.k8s.io", "rolebindings.rbac.authorization.k8s.io",
    "clusterroles.rbac.authorization.k8s.io", "clusterrolebindings.rbac.authorization.k8s.io",
)  # fmt: skip


@dataclass(frozen=True)
class GrantedRule:
    """A rule that somebody has.

    Attributes:
        rule: of a role.
        reason: by which binding, of which role, to which subject.
    """

    rule: Document
    reason: str


@dataclass(frozen=True)
class AccessVerdict:
    """Whether something is allowed, and why."""

    allowed: bool
    reason: str = ""


_VERDICTS_KEPT = 4_096
# Reviews ask about whatever somebody thinks of, up to 128 KiB of it.
_LONGEST_KEPT = 1_024


@dataclass
class _Bindings:
    """Bindings by subject, and the rules of roles.

    Attributes:
        by_subject: by kind and name (of accounts ``namespace:name``): what is bound to it, each
            with the namespace that it is good for; empty for all.
        rules: by namespace and name of a role; cluster roles have no namespace.
        verdicts: decisions that hold whatever the object's name is; ``access`` names none.
    """

    by_subject: dict[tuple[str, str], list[tuple[str, Document, Document]]] = field(
        default_factory=dict
    )
    rules: dict[tuple[str, str], list[Document]] = field(default_factory=dict)
    verdicts: dict[tuple[str, tuple[str, ...], AccessRequest], AccessVerdict] = field(
        default_factory=dict
    )


class Authorizer:
    """Answers by the stored roles and bindings.

    Args:
        reader: has them.
        enforced: whether they count; everything is allowed where they do not.
    """

    def __init__(self, reader: Reader, enforced: bool = True) -> None:
        self._reader, self._enforced = reader, enforced
        self._generation = -1
        self._bindings = _Bindings()

    def verdict(self, identity: Identity, access: AccessRequest) -> AccessVerdict:
        """Whether somebody may do something."""
        if identity.is_master or not self._enforced:
            return AccessVerdict(True, "")
        verdicts = self._read().verdicts
        key = (identity.name, identity.groups, access.of_any_name())
        found = verdicts.get(key)
        if found is None:
            found, is_of_all_names = self._decided(identity, access)
            if is_of_all_names and _length(access) <= _LONGEST_KEPT:
                if len(verdicts) >= _VERDICTS_KEPT:
                    verdicts.clear()
                verdicts[key] = found
        return found

    def _decided(self, identity: Identity, access: AccessRequest) -> tuple[AccessVerdict, bool]:
        """A decision, and whether it is the same for objects of all names."""
        is_of_all_names = True
        for granted in self.rules_of(identity, access.namespace):
            if _is_about(granted.rule, access):
                names = access.resource and granted.rule.get("resourceNames")
                is_of_all_names = is_of_all_names and not names
                if not names or access.name in names:
                    return AccessVerdict(True, granted.reason), is_of_all_names
        return AccessVerdict(False), is_of_all_names

    def rules_of(self, identity: Identity, namespace: str) -> Iterator[GrantedRule]:
        """All that somebody has in a namespace; what holds everywhere comes first.

        Args:
            identity: who.
            namespace: empty for what holds everywhere alone.
        """
        found = self._read()
        bound = [
            (scope, binding, subject)
            for key in _keys(identity)
            for scope, binding, subject in found.by_subject.get(key, ())
            if scope in ("", namespace)
        ]
        for scope, binding, subject in sorted(bound, key=_order):
            reference = binding["roleRef"]
            is_cluster = reference["kind"] == "ClusterRole"
            role = ("" if is_cluster else scope, reference["name"])
            reason = _reason(scope, binding, subject)
            for rule in found.rules.get(role, ()):
                yield GrantedRule(rule, reason)

    def rules_by_name(self, namespace: str, kind: str, name: str) -> list[Document]:
        """The rules of a role.

        Args:
            namespace: of a Role.
            kind: ``Role`` or ``ClusterRole``.
            name: of the role.
        """
        return self._read().rules.get(("" if kind == "ClusterRole" else namespace, name), [])

    def _read(self) -> _Bindings:
        generation = self._reader.generation(*STORAGES)
        if generation != self._generation:
            self._bindings, self._generation = self._indexed(), generation
        return self._bindings

    def _indexed(self) -> _Bindings:
        found = _Bindings()
        for storage in (CLUSTER_ROLE_BINDINGS, ROLE_BINDINGS):
            for binding in self._reader.documents(storage):
                scope = binding["metadata"].get("namespace", "")
                for subject in binding.get("subjects") or ():
                    key = _key_of(subject, scope)
                    found.by_subject.setdefault(key, []).append((scope, binding, subject))
        for role in self._reader.documents(ROLES):
            meta = role["metadata"]
            found.rules[meta["namespace"], meta["name"]] = role.get("rules") or []
        cluster_roles = list(self._reader.documents(CLUSTER_ROLES))
        for role in cluster_roles:
            found.rules["", role["metadata"]["name"]] = _aggregated(role, cluster_roles)
        return found


def allows(rule: Document, access: AccessRequest) -> bool:
    """Whether one rule covers what is asked for."""
    names = access.resource and rule.get("resourceNames")
    return _is_about(rule, access) and (not names or access.name in names)


def _is_about(rule: Document, access: AccessRequest) -> bool:
    """Whether it covers it for objects of some name."""
    verbs = rule.get("verbs") or ()
    if "*" not in verbs and access.verb not in verbs:
        return False
    if not access.resource:
        return any(_covers(url, access.path) for url in rule.get("nonResourceURLs") or ())
    groups = rule.get("apiGroups") or ()
    return ("*" in groups or access.group in groups) and any(
        _is_of(each, access) for each in rule.get("resources") or ()
    )


def _is_of(resource: str, access: AccessRequest) -> bool:
    """``pods``, ``pods/log``, ``*/log``, ``*``."""
    if resource == "*":
        return True
    if not access.subresource:
        return resource == access.resource
    return resource in (f"{access.resource}/{access.subresource}", f"*/{access.subresource}")


def _covers(url: str, path: str) -> bool:
    return path.startswith(url[:-1]) if url.endswith("*") else path == url


def _aggregated(
    role: Document, cluster_roles: Sequence[Document], path: tuple[str, ...] = ()
) -> list[Document]:
    """A cluster role's rules; of one that aggregates those of all that it selects.

    Args:
        role: which.
        cluster_roles: all.
        path: the roles that asked for this one, which are not asked again.
    """
    selectors = (role.get("aggregationRule") or {}).get("clusterRoleSelectors")
    if not selectors:
        return role.get("rules") or []
    path = (*path, role["metadata"]["name"])
    return [
        rule
        for other in cluster_roles
        if other["metadata"]["name"] not in path
        and any(selects(each, other["metadata"].get("labels") or {}) for each in selectors)
        for rule in _aggregated(other, cluster_roles, path)
    ]


def _keys(identity: Identity) -> list[tuple[str, str]]:
    keys = [("User", identity.name), *(("Group", group) for group in identity.groups)]
    if identity.name.startswith(ACCOUNT_PREFIX):
        keys.append(("ServiceAccount", identity.name.removeprefix(ACCOUNT_PREFIX)))
    return keys


def _key_of(subject: Document, scope: str) -> tuple[str, str]:
    if subject["kind"] == "ServiceAccount":
        return "ServiceAccount", f"{subject.get('namespace') or scope}:{subject['name']}"
    return subject["kind"], subject["name"]


def _order(bound: tuple[str, Document, Document]) -> tuple[str, str]:
    return bound[0], bound[1]["metadata"]["name"]


def _reason(scope: str, binding: Document, subject: Document) -> str:
    kind, name = (
        ("RoleBinding", f"{binding['metadata']['name']}/{scope}")
        if scope
        else ("ClusterRoleBinding", binding["metadata"]["name"])
    )
    who = f'{subject["kind"]} "{subject["name"]}'
    who += f'/{subject.get("namespace") or scope}"' if subject["kind"] == "ServiceAccount" else '"'
    reference = binding["roleRef"]
    return f'RBAC: allowed by {kind} "{name}" of {reference["kind"]} "{reference["name"]}" to {who}'


def _length(access: AccessRequest) -> int:
    """Characters of all that is asked about but a name."""
    where = (access.group, access.resource, access.subresource, access.namespace, access.path)
    return len(access.verb) + sum(map(len, where))
