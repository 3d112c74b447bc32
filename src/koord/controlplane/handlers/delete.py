# SPDX-License-Identifier: Apache-2.0
"""The verbs delete and deletecollection: preconditions, grace, finalizers, propagation."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from koord.controlplane.api_errors import conflict_of
from koord.controlplane.extension import Attributes
from koord.controlplane.handlers.metadata import FOREGROUND, ORPHAN, timestamp
from koord.controlplane.handlers.write import RequestTarget, Verbs, WriteResult
from koord.controlplane.requests.options import check_delete
from koord.controlplane.storage import conversion

if TYPE_CHECKING:
    from koord.base.documents import Document
    from koord.controlplane.resource import Context, Resource

_FINALIZER_OF = {"Foreground": FOREGROUND, "Orphan": ORPHAN}


class Deletion:
    """Deletes objects, or marks them where something must happen first."""

    def __init__(self, verbs: Verbs) -> None:
        self._verbs = verbs

    async def delete(
        self, target: RequestTarget, options: Document, context: Context
    ) -> WriteResult:
        """Deletes one object.

        Args:
            options: ``DeleteOptions``.

        Returns:
            The object where it stays for now, else a ``Status`` (or, of some kinds, the object).

        Raises:
            ApiError: 404; 409 where a precondition fails; what admission says.
        """
        resource, verbs = target.resource, self._verbs
        check_delete(options)
        while True:
            entry = verbs.present(target)
            old, document = await verbs.worker.call(
                len(entry.body), _documents, resource, entry.body
            )
            _check_preconditions(resource, old, options)
            attributes = Attributes(
                "DELETE", resource, "", target.namespace, target.name, None, old, context, options
            )
            await verbs.admission.mutate(attributes)
            await verbs.admission.validate(attributes)
            if verbs.entry(target) is entry:
                break
        if mark(resource, document, options, context):
            body = entry.body if document == old else verbs.put(resource, document, context)
            return WriteResult(body, warnings=attributes.warnings)
        if document != old:  # Watches are told of the mark first.
            verbs.put(resource, document, context)
        body = verbs.remove(resource, document, context)
        if not resource.strategy.returns_deleted:
            body = deleted_status(resource, document)
        return WriteResult(body, warnings=attributes.warnings)


def _documents(resource: Resource, body: bytes) -> tuple[Document, Document]:
    """What a stored text says, for admission to look at and to be marked."""
    return conversion.document(resource, body), conversion.document(resource, body)


def deleted_status(resource: Resource, document: Document) -> bytes:
    """The answer to a deletion that is done."""
    meta = document["metadata"]
    details = {"name": meta["name"], "group": resource.group, "kind": resource.plural,
               "uid": meta["uid"]}  # fmt: skip
    return conversion.encode({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
        "details": {key: value for key, value in details.items() if value},
    })  # fmt: skip


def _check_preconditions(resource: Resource, old: Document, options: Document) -> None:
    wanted: dict[str, Any] = options.get("preconditions") or {}
    meta = old["metadata"]
    for key, label, found, done in (
        ("uid", "UID", meta["uid"], "deleted and then recreated"),
        ("resourceVersion", "ResourceVersion", meta["resourceVersion"], "modified"),
    ):
        if wanted.get(key) and wanted[key] != found:
            why = (
                f"the {label} in the precondition ({wanted[key]}) does not match the {label} in "
                f"record ({found}). The object might have been {done}"
            )
            raise conflict_of(resource, meta["name"], why)


def mark(resource: Resource, document: Document, options: Document, context: Context) -> bool:
    """Marks an object for deletion; False where it can go at once."""
    strategy, meta = resource.strategy, document["metadata"]
    asked = options.get("gracePeriodSeconds")
    grace = strategy.grace_period_seconds(document, asked) if strategy.graceful else 0
    finalizers = _finalizers(meta.get("finalizers") or [], options)
    if (cleanup := strategy.cleanup_finalizer) and "deletionTimestamp" not in meta:
        finalizers = [*(name for name in finalizers if name != cleanup), cleanup]
    if finalizers:
        meta["finalizers"] = finalizers
    else:
        meta.pop("finalizers", None)
    stays = bool(grace or finalizers or strategy.stays(document))
    if not stays and not strategy.graceful:
        return False
    began = meta.get("deletionTimestamp")
    if began is None or grace < meta.get("deletionGracePeriodSeconds", 0):
        now = datetime.fromisoformat(context.now).timestamp()
        if began is not None:  # The grace that is left is counted from the first request.
            now = datetime.fromisoformat(began).timestamp() - meta["deletionGracePeriodSeconds"]
        meta["deletionTimestamp"] = timestamp(now + grace)
        meta["deletionGracePeriodSeconds"] = grace
        if began is None and "generation" in meta and not strategy.cleanup_finalizer:
            meta["generation"] += 1
        strategy.prepare_delete(document, context)
    return stays


def _finalizers(present: list[str], options: Document) -> list[str]:
    """Finalizers after the propagation policy has been heard."""
    policy = options.get("propagationPolicy")
    if policy is None and options.get("orphanDependents") is not None:
        policy = "Orphan" if options["orphanDependents"] else "Background"
    if policy is None:
        return present
    others = [name for name in present if name not in (FOREGROUND, ORPHAN)]
    return [*others, _FINALIZER_OF[policy]] if policy in _FINALIZER_OF else others
