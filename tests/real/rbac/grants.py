# SPDX-License-Identifier: Apache-2.0
"""RBAC rules taken apart into single grants, and requests as the authorizer sees them."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any, NamedTuple

from koord.kube.transport.messages import Request

Document = dict[str, Any]
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch"}


class Grant(NamedTuple):
    """One verb on one resource.

    Attributes:
        namespace: where; empty for everywhere.
        group: of the API; empty for the core one.
        resource: with its subresource after a slash.
        verb: as RBAC calls it.
        name: the only object it is for; empty for all.
    """

    namespace: str
    group: str
    resource: str
    verb: str
    name: str = ""

    def __str__(self) -> str:
        where = f" in {self.namespace}" if self.namespace else ""
        which = f" {self.name}" if self.name else ""
        group = f".{self.group}" if self.group else ""
        return f"{self.verb} {self.resource}{group}{which}{where}"

    def covers(self, used: Grant) -> bool:
        """Whether it allows what was done."""
        return (
            self.namespace in ("", used.namespace)
            and (self.group, self.resource, self.verb) == (used.group, used.resource, used.verb)
            and self.name in ("", used.name)
        )


def granted(documents: Iterable[Document]) -> list[Grant]:
    """All that the (Cluster)Roles of a manifest grant, in order."""
    found = []
    for document in documents:
        if document["kind"] not in ("ClusterRole", "Role"):
            continue
        namespace = document["metadata"].get("namespace", "")
        found += [
            Grant(namespace, group, resource, verb, name)
            for rule in document["rules"]
            for group in rule["apiGroups"]
            for resource in rule["resources"]
            for name in rule.get("resourceNames", [""])
            for verb in rule["verbs"]
        ]
    return found


def without(role: Document, grant: Grant) -> Document:
    """A role that grants all but this."""
    fewer = copy.deepcopy(role)
    fewer["rules"] = [
        {
            "apiGroups": [each.group], "resources": [each.resource], "verbs": [each.verb],
            **({"resourceNames": [each.name]} if each.name else {}),
        }
        for each in granted([role])
        if each != grant
    ]  # fmt: skip
    return fewer


def asked(request: Request) -> Grant | None:
    """What a request needs; None for what is about no resource (discovery, health)."""
    parts = request.path.strip("/").split("/")
    if parts[0] == "api" and len(parts) > 2:
        group, rest = "", parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, rest = parts[1], parts[3:]
    else:
        return None
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    name = rest[1] if len(rest) > 1 else ""
    resource = "/".join((rest[0], *rest[2:]))
    query = dict(request.query)
    verb = _VERBS.get(request.method, "")
    if request.method == "GET":
        verb = "get" if name else "watch" if query.get("watch") in ("1", "true") else "list"
        # The authorizer takes a selection of one name for that name.
        selected = query.get("fieldSelector", "")
        if selected.startswith("metadata.name=") and "," not in selected:
            name = selected.partition("=")[2]
    elif request.method == "DELETE":
        verb = "delete" if name else "deletecollection"
    return Grant(namespace, group, resource, verb, name)
