# SPDX-License-Identifier: Apache-2.0
"""Which kinds a server serves: aggregated discovery, or group by group where it has none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from koord.api import codec
from koord.api.kinds.registry import Kind, kind_of
from koord.base.errors import KoordError
from koord.kube.transport.messages import JSON, Request

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from koord.kube.transport.messages import Response


_AGGREGATED = f"{JSON};g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


class ServedKind(msgspec.Struct, frozen=True):
    """A kind that a server serves.

    Attributes:
        kind: how it is named; the ``type_path`` is empty where koord has no type for it.
        verbs: what can be done to it.
        subresources: e.g. ``("status", "scale")``.
    """

    kind: Kind
    verbs: tuple[str, ...]
    subresources: tuple[str, ...] = ()


class _DiscoveryKind(msgspec.Struct, gc=False):
    kind: str = ""


class _Subresource(msgspec.Struct, gc=False):
    subresource: str = ""


class _DiscoveryResource(msgspec.Struct, rename="camel", gc=False):
    """One resource, in either form: only the names of some fields differ."""

    resource: str = ""
    name: str = ""
    scope: str = ""
    namespaced: bool = False
    response_kind: _DiscoveryKind | None = None
    kind: str = ""
    verbs: list[str] = []
    short_names: list[str] | None = None
    subresources: list[_Subresource] | None = None


class _DiscoveryVersion(msgspec.Struct, rename="camel", gc=False):
    version: str = ""
    group_version: str = ""
    resources: list[_DiscoveryResource] | None = None


class _DiscoveryMetadata(msgspec.Struct, gc=False):
    name: str = ""


class _Group(msgspec.Struct, gc=False):
    metadata: _DiscoveryMetadata = msgspec.field(default_factory=_DiscoveryMetadata)
    name: str = ""
    versions: list[_DiscoveryVersion] | None = None


class _Groups(msgspec.Struct, gc=False):
    kind: str = ""
    items: list[_Group] | None = None
    groups: list[_Group] | None = None


async def discover(send: Callable[[Request], Awaitable[Response]]) -> list[ServedKind]:
    """Asks for everything that is served.

    Args:
        send: a call that tries again and raises ApiError.
    """
    served: list[ServedKind] = []
    for root in ("/api", "/apis"):
        answer = await send(Request("GET", root, accept=f"{_AGGREGATED},{JSON}"))
        found = codec.decode_json(answer.body, _Groups, f"{root} discovery")
        if found.kind == "APIGroupDiscoveryList":
            for group in found.items or []:
                for version in group.versions or []:
                    served += _aggregated(group.metadata.name, version)
            continue
        # /api lists its versions by name only, and there is but one.
        names = [v.group_version for g in found.groups or [] for v in g.versions or []]
        for name in names if root == "/apis" else ["v1"]:
            answer = await send(Request("GET", f"{root}/{name}"))
            listed = codec.decode_json(answer.body, _DiscoveryVersion, f"{name} discovery")
            served += _plain(name, listed.resources or [])
    return served


async def serves(send: Callable[[Request], Awaitable[Response]], kind: Kind) -> bool:
    """Whether a server says that it has a kind at its version.

    A 404 to a list may be somebody else's, as of a proxy that lost its way: only an API server can
    tell what it serves.

    Args:
        send: a call that tries again and raises ApiError.
        kind: of any group but the core, which every server has.

    Raises:
        KoordError: whoever answered is no API server.
    """
    answer = await send(Request("GET", "/apis"))
    found = codec.decode_json(answer.body, _Groups, "/apis discovery")
    if found.kind != "APIGroupList":
        raise KoordError("/apis", "kind", found.kind, "APIGroupList, from a Kubernetes API server")
    names = {
        version.group_version for group in found.groups or [] for version in group.versions or []
    }
    if kind.api_version not in names:
        return False
    answer = await send(Request("GET", f"/apis/{kind.api_version}"))
    listed = codec.decode_json(answer.body, _DiscoveryVersion, f"{kind.api_version} discovery")
    return any(resource.name == kind.plural for resource in listed.resources or [])


def _aggregated(group: str, version: _DiscoveryVersion) -> Iterator[ServedKind]:
    for resource in version.resources or []:
        if resource.response_kind is None:
            continue
        kind = _kind(
            group, version.version, resource.response_kind.kind, resource.resource,
            resource.scope == "Namespaced", resource,
        )  # fmt: skip
        parts = tuple(part.subresource for part in resource.subresources or [])
        yield ServedKind(kind, tuple(resource.verbs), parts)


def _plain(group_version: str, resources: list[_DiscoveryResource]) -> Iterator[ServedKind]:
    group, _, version = group_version.rpartition("/")
    for resource in resources:
        if "/" in resource.name:
            continue
        before = f"{resource.name}/"
        parts = [r.name.removeprefix(before) for r in resources if r.name.startswith(before)]
        kind = _kind(group, version, resource.kind, resource.name, resource.namespaced, resource)
        yield ServedKind(kind, tuple(resource.verbs), tuple(parts))


def _kind(
    group: str, version: str, name: str, plural: str, namespaced: bool, resource: _DiscoveryResource
) -> Kind:
    known = kind_of(f"{group}/{version}" if group else version, name)
    path, custom = (known.type_path, known.custom) if known else ("", False)
    short = tuple(resource.short_names or ())
    return Kind(group, version, name, plural, namespaced, path, short, custom)
