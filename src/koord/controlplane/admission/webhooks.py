# SPDX-License-Identifier: Apache-2.0
"""Mutating and validating webhooks: found by configuration, called, their answers carried out.

Configurations are taken in order of their names, webhooks in the order of their list.
"""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from koord.base import rng
from koord.base.documents import Document
from koord.controlplane.admission.admission_review import (
    ReviewError,
    ReviewResponse,
    request,
    response_of,
    variables_of,
)
from koord.controlplane.admission.plugin import LookupCache
from koord.controlplane.admission.webhook_client import WebhookCallError
from koord.controlplane.admission.webhook_rules import WebhookMatcher, WriteKind, may_cover
from koord.controlplane.api_errors import bad_request, forbidden, internal
from koord.controlplane.cel.access_checks import checks_by, judge_of
from koord.controlplane.cel.conditions import VARIABLES, are_met
from koord.controlplane.cel.expression import EvaluationError
from koord.controlplane.patching import json_patch
from koord.kube.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from koord.controlplane.admission.webhook_client import WebhookClient
    from koord.controlplane.authorization.rbac import Authorizer
    from koord.controlplane.extension import Attributes, Reader
    from koord.controlplane.resource import Resource


MUTATING = "mutatingwebhookconfigurations.admissionregistration.k8s.io"
VALIDATING = "validatingwebhookconfigurations.admissionregistration.k8s.io"
_HARMLESS = ("None", "NoneOnDryRun")


@dataclass(frozen=True)
class _WebhookCall:
    """One webhook that a request goes to."""

    webhook: Document
    as_resource: Resource


class Webhooks:
    """Calls the webhooks that are configured.

    Args:
        reader: configurations and namespaces.
        caller: how they are reached.
        equivalents: the same resource at all its versions and groups.
        authorizer: answers what conditions ask about rights.
    """

    depends_on = (MUTATING, VALIDATING)

    def __init__(
        self,
        reader: Reader,
        caller: WebhookClient,
        equivalents: Callable[[Resource], Sequence[Resource]],
        authorizer: Authorizer,
    ) -> None:
        self._reader, self._caller, self._authorizer = reader, caller, authorizer
        self._random = rng.stream(0, "admission.review")
        self._labels = LookupCache(reader, "namespaces", self._labels_of)
        self._matcher = WebhookMatcher(self._labels.get, equivalents)
        self._mutating = LookupCache(reader, MUTATING, lambda key: self._about(MUTATING, key))
        self._validating = LookupCache(reader, VALIDATING, lambda key: self._about(VALIDATING, key))

    def may_ask(self, kind: WriteKind, namespace: str) -> bool:
        """Whether any webhook can be for such a write to an object of a namespace.

        Labels of objects and conditions are not looked at: where this is false nobody is called,
        whatever the object.
        """
        key = " ".join(kind)
        return any(
            self._matcher.in_namespace(webhook, namespace)
            for webhook in (*self._mutating.get(key), *self._validating.get(key))
        )

    async def mutate(self, attributes: Attributes) -> bool:
        """Lets mutating webhooks change the document, once more those that ask for it.

        Returns:
            Whether the document has changed.

        Raises:
            ApiError: a webhook refused, or failed under ``failurePolicy: Fail``.
        """
        changed = False
        called: list[Document] = []
        again: list[Document] = []
        for webhook in self._mutating.get(_key(attributes)):
            differs = await self._mutate_by(webhook, attributes)
            if differs:
                changed = True
                again = [entry for entry in called if entry.get("reinvocationPolicy") == "IfNeeded"]
            if differs is not None:
                called.append(webhook)
        for webhook in again:
            await self._mutate_by(webhook, attributes)
        return changed

    async def validate(self, attributes: Attributes) -> None:
        """Asks all validating webhooks at once; the first refusal in their order counts.

        Raises:
            ApiError: a webhook refused, or failed under ``failurePolicy: Fail``.
        """
        calls = [
            _WebhookCall(webhook, as_resource)
            for webhook in self._validating.get(_key(attributes))
            if (as_resource := self._matched(webhook, attributes)) is not None
        ]
        if not calls:
            return
        asked = [self._ask(call, attributes, mutating=False) for call in calls]
        answers: list[ReviewResponse | BaseException | None]
        if len(asked) == 1:
            answers = [await asked[0]]  # which most often needs no task to be answered
        else:
            answers = await asyncio.gather(*asked, return_exceptions=True)
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
            if answer is not None and answer.refusal is not None:
                raise answer.refusal.copy()

    async def _mutate_by(self, webhook: Document, attributes: Attributes) -> bool | None:
        """Calls one webhook; whether it has changed the document, None if it does not match."""
        as_resource = self._matched(webhook, attributes)
        if as_resource is None:
            return None
        answer = await self._ask(_WebhookCall(webhook, as_resource), attributes, mutating=True)
        if answer is None:
            return False
        if answer.refusal is not None:
            raise answer.refusal.copy()
        if not answer.patch or answer.patch.strip() in (b"[]", b"null"):
            return False
        return _apply(webhook["name"], answer.patch, attributes, as_resource)

    def _matched(self, webhook: Document, attributes: Attributes) -> Resource | None:
        """The resource as whose object a webhook wants to see it, its conditions met."""
        as_resource = self._matcher.match(webhook, attributes)
        conditions = webhook.get("matchConditions")
        if as_resource is None or not conditions:
            return as_resource
        judge = judge_of(self._authorizer, attributes.context)
        try:
            with checks_by(judge):
                met = are_met(conditions, variables_of(attributes, as_resource), VARIABLES)
        except EvaluationError as error:
            if webhook.get("failurePolicy") == "Ignore":
                return None
            raise forbidden(attributes.resource, attributes.name, str(error)) from None
        return as_resource if met else None

    async def _ask(
        self, call: _WebhookCall, attributes: Attributes, mutating: bool
    ) -> ReviewResponse | None:
        """The verdict of one webhook; None where its failure is to be ignored."""
        webhook, name = call.webhook, call.webhook["name"]
        if attributes.context.dry_run and webhook.get("sideEffects") not in _HARMLESS:
            raise bad_request(f'admission webhook "{name}" does not support dry run')
        uid = str(uuid.UUID(int=self._random.getrandbits(128), version=4))
        review = request(webhook, attributes, call.as_resource, uid, mutating)
        seconds = webhook.get("timeoutSeconds", 10)
        try:
            answer = await self._caller.call(webhook["clientConfig"], review, seconds)
            found = response_of(name, answer, review, mutating)
        except WebhookCallError as error:
            why = f"failed to call webhook: {error}"
        except ReviewError as error:
            why = f"received invalid webhook response: {error}"
        else:
            attributes.warnings.extend(found.warnings)
            return found
        if webhook.get("failurePolicy") == "Ignore":
            return None
        raise internal(f'failed calling webhook "{name}": {why}')

    def _about(self, storage: str, key: str) -> list[Document]:
        """The webhooks whose rules can be about a kind of write, in the order in which they are
        called.
        """
        kind = WriteKind(*key.split(" "))
        configurations: Iterable[Document] = self._reader.documents(storage)
        ordered = sorted(configurations, key=lambda entry: entry["metadata"]["name"])
        webhooks = (webhook for entry in ordered for webhook in entry.get("webhooks") or ())
        return [webhook for webhook in webhooks if may_cover(webhook, kind)]

    def _labels_of(self, namespace: str) -> dict[str, str] | None:
        found = self._reader.document("namespaces", "", namespace)
        return None if found is None else found["metadata"].get("labels") or {}


def _key(attributes: Attributes) -> str:
    return f"{attributes.operation} {attributes.resource.plural} {attributes.subresource}"


def _apply(name: str, patch: bytes, attributes: Attributes, as_resource: Resource) -> bool:
    """Changes the document by a JSON Patch; whether that made a difference."""
    document = attributes.document
    if document is None:
        raise internal(
            f'admission webhook "{name}" attempted to modify the object, which is not supported '
            "for this operation"
        )
    versions = {key: document[key] for key in ("apiVersion", "kind") if key in document}
    before = {**document, "apiVersion": as_resource.api_version, "kind": as_resource.kind}
    try:
        patched = json_patch(before, patch)
        attributes.resource.schema.prune(patched)
    except ApiError as error:
        raise internal(error.status.message) from None
    if patched == before:
        return False
    document.clear()
    document.update(patched | versions)
    return True
