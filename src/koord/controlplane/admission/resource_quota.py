# SPDX-License-Identifier: Apache-2.0
"""ResourceQuotas: refuse what goes beyond them, and count what does not.

What is used stands in the quota's status. It grows in the step that stores the object, so that no
two writes can share what is left; it shrinks when the controller of quotas counts anew.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from koord.controlplane.api_errors import forbidden
from koord.controlplane.quotas import evaluators, pods
from koord.controlplane.quotas.amounts import (
    QuotaAmounts,
    added,
    amounts_of,
    growth,
    only,
    section,
    texts_of,
    words,
)

if TYPE_CHECKING:
    from koord.base.clock import Clock
    from koord.base.documents import Document
    from koord.controlplane.extension import Attributes, Reader
    from koord.kube.errors import ApiError

QUOTAS = "resourcequotas"
Put = Callable[[str, "Document"], None]


class ResourceQuotas:
    """Kubernetes' plugin ResourceQuota, for all quotas of a namespace in order of their names.

    Args:
        reader: where the quotas are.
        clock: says which pods are past their deletion.
        put: stores a document of a resource as it is.
    """

    def __init__(self, reader: Reader, clock: Clock, put: Put) -> None:
        self._reader, self._clock, self._put = reader, clock, put

    def count_in(self, namespace: str) -> bool:
        """Whether a namespace has a quota."""
        return next(self._reader.documents(QUOTAS, namespace), None) is not None

    def admit(self, attributes: Attributes) -> None:
        """Refuses a write that a quota has no room for; has it counted once it is stored.

        Raises:
            ApiError: 403.
        """
        new, old, namespace = attributes.document, attributes.old, attributes.namespace
        storage = attributes.resource.storage
        if new is None or not (namespace and attributes.resource.namespaced):
            return
        operation, subresource = attributes.operation, attributes.subresource
        if not evaluators.handles(storage, operation, subresource, new, old):
            return
        quotas = self._reader.documents(QUOTAS, namespace)
        for quota in [quota for quota in quotas if self._covers(quota, attributes)]:
            self._charge(quota, attributes)

    def _covers(self, quota: Document, attributes: Attributes) -> bool:
        """Whether a quota is about an object.

        Raises:
            ApiError: it is, and wants more said, or does not know yet what is used.
        """
        storage, document = attributes.resource.storage, attributes.document
        assert document is not None
        names = evaluators.names_for(storage, section(quota, "status", "hard"))
        if not names or not evaluators.is_in_scope(storage, document, quota):
            return False
        name = quota["metadata"]["name"]
        if storage == evaluators.PODS and (lacking := pods.missing(document, names)):
            raise _refused(attributes, f"failed quota: {name}: {lacking}")
        if not set(names) <= section(quota, "status", "used").keys():
            listed = ",".join(sorted(names))
            raise _refused(attributes, f"status unknown for quota: {name}, resources: {listed}")
        return True

    def _charge(self, quota: Document, attributes: Attributes) -> None:
        status = quota["status"]
        hard, used = amounts_of(status["hard"]), amounts_of(status.get("used"))
        wanted = {name: n for name, n in self._wanted(quota, attributes).items() if n}
        wanted = only(wanted, hard)
        new = added(used, wanted)
        exceeded = [name for name in wanted if new[name] > hard[name]]
        if exceeded:
            parts = (words(only(amounts, exceeded)) for amounts in (wanted, used, hard))
            requested, before, limited = parts
            name = quota["metadata"]["name"]
            why = f"exceeded quota: {name}, requested: {requested}, used: {before}, "
            raise _refused(attributes, f"{why}limited: {limited}")
        if wanted:
            status["used"] = texts_of(new)
            attributes.on_stored.append(lambda: self._put(QUOTAS, quota))

    def _wanted(self, quota: Document, attributes: Attributes) -> QuotaAmounts:
        """By how much a write would raise what is used of a quota."""
        storage, now = attributes.resource.storage, self._clock.wall_seconds()
        assert attributes.document is not None
        after = evaluators.usage(storage, attributes.document, now)
        if attributes.old is None or not evaluators.is_in_scope(storage, attributes.old, quota):
            return after
        return growth(after, evaluators.usage(storage, attributes.old, now))


def _refused(attributes: Attributes, why: str) -> ApiError:
    return forbidden(attributes.resource, attributes.name, why)
