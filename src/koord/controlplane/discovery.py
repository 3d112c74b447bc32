# SPDX-License-Identifier: Apache-2.0
"""``/api`` and ``/apis``: which groups, versions and resources there are, plain and aggregated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koord.controlplane.api_errors import no_such_page

if TYPE_CHECKING:
    from collections.abc import Iterable

    from koord.base.documents import Document
    from koord.controlplane.resource import Resource

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

# What a subresource takes and gives where it is not the resource's own kind.
_SUBRESOURCE_KINDS = {
    "scale": ("autoscaling", "v1", "Scale"),
    "binding": ("", "v1", "Binding"),
    "eviction": ("policy", "v1", "Eviction"),
    "token": ("authentication.k8s.io", "v1", "TokenRequest"),
    "exec": ("", "v1", "PodExecOptions"),
    "attach": ("", "v1", "PodAttachOptions"),
    "portforward": ("", "v1", "PodPortForwardOptions"),
    "proxy": ("", "v1", "PodProxyOptions"),
}
_SUBRESOURCE_VERBS = {
    "binding": ["create"],
    "eviction": ["create"],
    "token": ["create"],
    "finalize": ["update"],
    "log": ["get"],
    "exec": ["create", "get"],
    "attach": ["create", "get"],
    "portforward": ["create", "get"],
    "proxy": ["create", "delete", "get", "patch", "update"],
}
# The order of kube-apiserver's groups (priorities of its APIServices); others follow by name.
_PREFERRED = (
    "", "apps", "events.k8s.io", "authentication.k8s.io", "authorization.k8s.io", "autoscaling",
    "batch", "policy", "networking.k8s.io", "rbac.authorization.k8s.io", "storage.k8s.io",
    "admissionregistration.k8s.io", "apiextensions.k8s.io", "scheduling.k8s.io",
    "coordination.k8s.io", "node.k8s.io", "discovery.k8s.io",
)  # fmt: skip
# Behind all others, which are by name: clients take a name without a group from the first group
# that has it, and ``elasticquota`` means that of scheduling.sigs.k8s.io to people.
_LAST = "quota.koordinator.sh"


def core_versions() -> Document:
    """``/api``."""
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}


def groups(resources: Iterable[Resource]) -> Document:
    """``/apis``."""
    listed = [_group(name, versions) for name, versions in _versions(resources) if name]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": listed}


def group(resources: Iterable[Resource], name: str) -> Document:
    """``/apis/GROUP``.

    Raises:
        ApiError: 404.
    """
    for found, versions in _versions(resources):
        if found == name and name:
            return {"kind": "APIGroup", "apiVersion": "v1", **_group(name, versions)}
    raise no_such_page()


def resource_list(resources: Iterable[Resource], name: str, version: str) -> Document:
    """``/apis/GROUP/VERSION`` and ``/api/v1``.

    Raises:
        ApiError: 404.
    """
    found = [r for r in resources if (r.group, r.version) == (name, version)]
    if not found:
        raise no_such_page()
    listed = [entry for resource in found for entry in _listed(resource)]
    listed.sort(key=lambda entry: entry["name"])
    group_version = f"{name}/{version}" if name else version
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": group_version,
        "resources": listed,
    }


def aggregated(resources: Iterable[Resource], core: bool) -> Document:
    """``/api`` (core) or ``/apis`` as an ``APIGroupDiscoveryList``."""
    items = []
    known = list(resources)
    for name, versions in _versions(known):
        if core is (name == ""):
            found = [_aggregated_version(known, name, version) for version in versions]
            metadata = (
                {"name": name, "creationTimestamp": None} if name else {"creationTimestamp": None}
            )
            items.append({"metadata": metadata, "versions": found})
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    }


def _versions(resources: Iterable[Resource]) -> list[tuple[str, list[str]]]:
    """Groups in order, each with its versions, the preferred first."""
    found: dict[str, list[str]] = {}
    for resource in resources:
        versions = found.setdefault(resource.group, [])
        if resource.version not in versions:
            versions.append(resource.version)
    order = {name: index for index, name in enumerate(_PREFERRED)}
    names = sorted(found, key=lambda name: (name == _LAST, order.get(name, len(order)), name))
    return [(name, sorted(found[name], key=stability, reverse=True)) for name in names]


def stability(version: str) -> tuple[int, int, int, str]:
    """Sorts v2 over v1 over v1beta2 over v1alpha1 (apimachinery's version priority)."""
    import re

    match = re.fullmatch(r"v(\d+)(?:(alpha|beta)(\d+))?", version)
    if match is None:
        return (0, 0, 0, version)
    level = {None: 3, "beta": 2, "alpha": 1}[match[2]]
    return (level, int(match[1]), int(match[3] or 0), version)


def _group(name: str, versions: list[str]) -> Document:
    listed = [{"groupVersion": f"{name}/{v}", "version": v} for v in versions]
    return {"name": name, "versions": listed, "preferredVersion": listed[0]}


def _listed(resource: Resource) -> list[dict[str, Any]]:
    main: dict[str, Any] = {
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": sorted(resource.verbs),
    }
    if resource.short_names:
        main["shortNames"] = list(resource.short_names)
    if resource.categories:
        main["categories"] = list(resource.categories)
    return [main, *(_listed_subresource(resource, name) for name in resource.subresources)]


def _listed_subresource(resource: Resource, name: str) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "name": f"{resource.plural}/{name}",
        "singularName": "",
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": _SUBRESOURCE_VERBS.get(name, ["get", "patch", "update"]),
    }
    if name in _SUBRESOURCE_KINDS:
        group, version, kind = _SUBRESOURCE_KINDS[name]
        entry["kind"] = kind
        if (group, version) != (resource.group, resource.version):
            entry |= {"group": group, "version": version}
    return entry


def _aggregated_version(resources: list[Resource], name: str, version: str) -> Document:
    found = [r for r in resources if (r.group, r.version) == (name, version)]
    listed = [_aggregated(resource) for resource in sorted(found, key=lambda r: r.plural)]
    return {"version": version, "freshness": "Current", "resources": listed}


def _aggregated(resource: Resource) -> Document:
    entry: Document = {
        "resource": resource.plural,
        "responseKind": _response_kind(resource.group, resource.version, resource.kind),
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": sorted(resource.verbs),
    }
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    if resource.subresources:
        entry["subresources"] = [
            {
                "subresource": name,
                "responseKind": _response_kind(
                    *_SUBRESOURCE_KINDS.get(name, (resource.group, resource.version, resource.kind))
                ),
                "verbs": _SUBRESOURCE_VERBS.get(name, ["get", "patch", "update"]),
            }
            for name in sorted(resource.subresources)
        ]
    return entry


def _response_kind(group: str, version: str, kind: str) -> dict[str, str]:
    return {"group": group, "version": version, "kind": kind}


def is_aggregated(accept: str) -> bool:
    """Whether the ``Accept`` header asks for the aggregated form first."""
    first = accept.partition(",")[0].replace(" ", "")
    return "as=APIGroupDiscoveryList" in first and "v=v2beta1" not in first
