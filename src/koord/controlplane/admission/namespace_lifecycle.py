# SPDX-License-Identifier: Apache-2.0
"""Nothing is made in a namespace that is not there or is going away."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.controlplane.admission.plugin import AdmissionPlugin, LookupCache
from koord.controlplane.api_errors import failure, forbidden
from koord.kube.errors import StatusCause, StatusDetails

if TYPE_CHECKING:
    from koord.controlplane.extension import Attributes, Reader

IMMORTAL = frozenset(("default", "kube-system", "kube-public"))
NAMESPACES = "namespaces"


class NamespaceLifecycle(AdmissionPlugin):
    """Kubernetes' plugin NamespaceLifecycle: nothing is created in a namespace that is not there or
    that ends.
    """

    mutates = True
    depends_on = (NAMESPACES,)

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._terminating = LookupCache(reader, NAMESPACES, self._look_up)

    def mutate(self, attributes: Attributes) -> None:
        """Refuses with 404 or 403; changes nothing. Comes first, so that nothing runs in vain."""
        resource = attributes.resource
        if attributes.operation == "CREATE":
            if resource.namespaced:
                self._check(attributes)
        elif (
            attributes.operation == "DELETE"
            and resource.storage == NAMESPACES
            and attributes.name in IMMORTAL
        ):
            raise forbidden(resource, attributes.name, "this namespace may not be deleted")

    def _check(self, attributes: Attributes) -> None:
        namespace = attributes.namespace
        terminating = self._terminating.get(namespace)
        if terminating is None:
            details = StatusDetails(name=namespace, kind=NAMESPACES)
            raise failure(404, "NotFound", f'namespaces "{namespace}" not found', details)
        if not terminating:
            return
        why = (
            f"unable to create new content in namespace {namespace} because it is being terminated"
        )
        refusal = forbidden(attributes.resource, attributes.name, why)
        cause = StatusCause(
            "NamespaceTerminating",
            f"namespace {namespace} is being terminated",
            "metadata.namespace",
        )
        assert refusal.status.details is not None
        refusal.status.details.causes.append(cause)
        raise refusal

    def _look_up(self, name: str) -> bool | None:
        namespace = self._reader.document(NAMESPACES, "", name)
        if namespace is None:
            return None
        return bool((namespace.get("status") or {}).get("phase") == "Terminating")
