# SPDX-License-Identifier: Apache-2.0
"""Roles and bindings that every cluster has from its start.

Rule: Kubernetes' documentation of RBAC authorization, "Default roles and role bindings". Those of
kube-apiserver's own controllers are not here: built-in controllers are administrators.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from koord.base.documents import Document

_GROUP = "rbac.authorization.k8s.io"
_BOOTSTRAPPED = {"kubernetes.io/bootstrapping": "rbac-defaults"}
_READ = ["get", "list", "watch"]
_WRITE = ["create", "delete", "deletecollection", "patch", "update"]
_AGGREGATE = f"{_GROUP}/aggregate-to-"
_WORKLOADS = {
    "apps": ["daemonsets", "deployments", "deployments/scale", "replicasets", "replicasets/scale",
             "statefulsets", "statefulsets/scale"],
    "autoscaling": ["horizontalpodautoscalers"],
    "batch": ["cronjobs", "jobs"],
    "networking.k8s.io": ["ingresses", "networkpolicies"],
    "policy": ["poddisruptionbudgets"],
    "": ["configmaps", "endpoints", "events", "persistentvolumeclaims", "pods",
         "replicationcontrollers", "serviceaccounts", "services"],
}  # fmt: skip
_SEEN_ALONE = ["bindings", "limitranges", "namespaces", "namespaces/status", "pods/log",
               "pods/status", "resourcequotas", "resourcequotas/status"]  # fmt: skip
_OF_EDITORS = ["pods/attach", "pods/exec", "pods/portforward", "pods/proxy", "secrets",
               "services/proxy"]  # fmt: skip


def default_roles() -> Iterator[tuple[str, Document]]:
    """Each with its plural."""
    anything: list[Any] = [_rule("*", "*", ["*"]), _paths(["*"], "*")]
    yield _role("cluster-admin", anything)
    yield _role("system:discovery", [_paths(["get"], *_discovery())])
    yield _role("system:public-info-viewer", [_paths(["get"], *_public())])
    yield _role("system:basic-user", [
        _rule("authorization.k8s.io", "selfsubjectaccessreviews,selfsubjectrulesreviews",
              ["create"]),
        _rule("authentication.k8s.io", "selfsubjectreviews", ["create"]),
    ])  # fmt: skip
    view = [_rule(group, ",".join(names), _READ) for group, names in _WORKLOADS.items()]
    view.append(_rule("", ",".join(_SEEN_ALONE), _READ))
    edit = [_rule(group, ",".join(names), _WRITE) for group, names in _WORKLOADS.items()]
    edit += [
        _rule("", ",".join(_OF_EDITORS), [*_READ, *_WRITE]),
        _rule("", "pods/eviction,serviceaccounts/token", ["create"]),
        _rule("", "serviceaccounts", ["impersonate"]),
    ]
    admin = [
        _rule("authorization.k8s.io", "localsubjectaccessreviews", ["create"]),
        _rule(_GROUP, "roles,rolebindings", [*_READ, *_WRITE]),
    ]
    for name, rules, above in (
        ("view", view, "edit"),
        ("edit", edit, "admin"),
        ("admin", admin, ""),
    ):
        labels = {f"{_AGGREGATE}{name}": "true"}
        yield _role(f"system:aggregate-to-{name}", rules, labels)
        more = {f"{_AGGREGATE}{above}": "true"} if above else {}
        yield _aggregate(name, more)
    yield _binding("cluster-admin", "system:masters")
    yield _binding("system:discovery", "system:authenticated")
    yield _binding("system:basic-user", "system:authenticated")
    yield _binding("system:public-info-viewer", "system:authenticated", "system:unauthenticated")


def _role(name: str, rules: list[Any], labels: Document | None = None) -> tuple[str, Document]:
    meta = {"name": name, "labels": {**_BOOTSTRAPPED, **(labels or {})}}
    return "clusterroles", {"metadata": meta, "rules": rules}


def _aggregate(name: str, labels: Document) -> tuple[str, Document]:
    """A role whose rules are those of all that are labelled for it."""
    meta = {"name": name, "labels": {**_BOOTSTRAPPED, **labels}}
    selector = {"matchLabels": {f"{_AGGREGATE}{name}": "true"}}
    rule = {"clusterRoleSelectors": [selector]}
    return "clusterroles", {"metadata": meta, "aggregationRule": rule, "rules": None}


def _binding(role: str, *groups: str) -> tuple[str, Document]:
    subjects = [{"apiGroup": _GROUP, "kind": "Group", "name": group} for group in groups]
    reference = {"apiGroup": _GROUP, "kind": "ClusterRole", "name": role}
    meta = {"name": role, "labels": dict(_BOOTSTRAPPED)}
    document = {"metadata": meta, "roleRef": reference, "subjects": subjects}
    return "clusterrolebindings", document


def _rule(group: str, resources: str, verbs: list[str]) -> Document:
    return {"apiGroups": [group], "resources": resources.split(","), "verbs": verbs}


def _paths(verbs: list[str], *urls: str) -> Document:
    return {"nonResourceURLs": list(urls), "verbs": verbs}


def _public() -> list[str]:
    return ["/healthz", "/livez", "/readyz", "/version", "/version/"]


def _discovery() -> list[str]:
    found = ["/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*"]
    return [*found, *_public()]
