# SPDX-License-Identifier: Apache-2.0
"""What is asked for: a verb on a resource, or on a path that is none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from koord.base.documents import Document
    from koord.controlplane.authorization.identity import Identity


@dataclass(frozen=True)
class AccessRequest:
    """One question.

    Attributes:
        verb: e.g. ``list``; of a path the HTTP method in lower case.
        group: empty for the core group.
        resource: in the plural; empty for a path.
        subresource: empty for the object itself.
        namespace: empty for all, or for what is in none.
        name: empty for all.
        path: of what is no resource.
    """

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""

    @classmethod
    def of_review(cls, spec: Document) -> AccessRequest:
        """What a review asks about."""
        path = spec.get("nonResourceAttributes")
        if path:
            return cls(path.get("verb") or "", path=path.get("path") or "")
        told = spec.get("resourceAttributes") or {}
        return cls(
            told.get("verb") or "", told.get("group") or "", told.get("resource") or "",
            told.get("subresource") or "", told.get("namespace") or "", told.get("name") or "",
        )  # fmt: skip

    def of_any_name(self) -> AccessRequest:
        """The same, of objects of whatever name."""
        if not self.name:
            return self
        return AccessRequest(
            self.verb, self.group, self.resource, self.subresource, self.namespace, "", self.path
        )

    def refusal_text(self, identity: Identity) -> str:
        """Why somebody is refused, in kube-apiserver's words."""
        user = f'User "{identity.name}" cannot {self.verb}'
        if not self.resource:
            return f'{user} path "{self.path}"'
        what = f"{self.resource}/{self.subresource}" if self.subresource else self.resource
        where = f'in the namespace "{self.namespace}"' if self.namespace else "at the cluster scope"
        return f'{user} resource "{what}" in API group "{self.group}" {where}'
