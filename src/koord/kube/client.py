# SPDX-License-Identifier: Apache-2.0
"""Typed verbs of the Kubernetes API, the same over HTTP and in process.

Every verb raises ApiError where the server refuses, TransportError where no answer comes, and
KoordError for names that cannot be and answers that do not decode.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, Unpack, overload

from koord.api import codec
from koord.api.kinds.meta import Object
from koord.api.kinds.registry import KINDS, Kind
from koord.base.documents import Document
from koord.kube.codec.decoder import decoded, decoder_of
from koord.kube.patches import Patch
from koord.kube.read_client import ReadClient, selectors
from koord.kube.requests.options import (
    SelectionOptions,
    WriteOptions,
    kind_of_object,
    place_of,
    query,
    resolve,
    whole,
)
from koord.kube.requests.paths import collection_path, object_path
from koord.kube.requests.subresources import Scale, binding, delete_options, eviction
from koord.kube.transport.messages import Request, Response

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from koord.base.metrics import MetricRegistry
    from koord.kube.dry_run import DryRun
    from koord.kube.errors import ApiError, TransportError
    from koord.kube.requests.retry import RetryPolicy
    from koord.kube.transport.messages import Transport

T = TypeVar("T")
S = TypeVar("S", bound=Object | Document)
_POD = next(kind for kind in KINDS if kind.name == "Pod")


class Client(ReadClient):
    """Typed access to an API server.

    Args:
        transport: how requests get there. The client does not close it.
        field_manager: who is named as owner of written fields.
        policy: what is tried again.
        requests_per_second: of the rate limiter; None for none, as in process.
        burst: how many requests may go at once before the rate counts.
        timeout_seconds: for a call with all its tries, where the call names none.
        registry: where calls are counted.
        dry_run: takes all that would be written; then nothing but reads is sent.
    """

    def __init__(
        self,
        transport: Transport,
        field_manager: str = "koord",
        policy: RetryPolicy | None = None,
        requests_per_second: float | None = 50.0,
        burst: int = 100,
        timeout_seconds: float = 60.0,
        registry: MetricRegistry | None = None,
        dry_run: DryRun | None = None,
    ) -> None:
        super().__init__(
            transport, policy, requests_per_second, burst, timeout_seconds, registry, dry_run
        )
        self._field_manager = field_manager
        self._plain_query = query(fieldManager=field_manager)  # Of most writes.

    def fence(self, check: Callable[[], None]) -> None:
        """Has every write but those of Leases and Events ask first, each try of it.

        Args:
            check: raises where this process may not write, as
                :meth:`koord.kube.election.LeaderElector.check` does. The last one given counts.
        """
        self._calls.fence = check

    async def create(self, value: S, namespace: str = "", **options: Unpack[WriteOptions]) -> S:
        """Creates an object, and gives it as the server stored it.

        Args:
            value: typed or a document; a name, or a ``generateName``, and what the kind requires.
            namespace: where the object does not say.
            options: see :class:`koord.kube.requests.options.WriteOptions`.
        """
        kind = kind_of_object(value, options.get("kind"))
        _, namespace = place_of(value, kind, namespace)
        return await self._write("POST", collection_path(kind, namespace), kind, value, options)

    async def post(
        self, value: Object | Document, namespace: str = "", **options: Unpack[WriteOptions]
    ) -> None:
        """Creates an object of which nobody asks how it is stored; arguments as of create."""
        kind = kind_of_object(value, options.get("kind"))
        _, namespace = place_of(value, kind, namespace)
        await self._send("POST", collection_path(kind, namespace), kind, value, options)

    def pipelines(self, target: type[Object] | Kind) -> bool:
        """Whether :meth:`post_all` serves for a kind: it is over HTTP, and nothing paces it."""
        return self._calls.pipelines(resolve(target)[0])

    async def post_all(self, values: Sequence[Object]) -> list[ApiError | TransportError | None]:
        """Creates objects in one go, of which nobody asks how they are stored.

        For what may be created twice without harm: where the connection breaks, those without an
        answer may be there all the same.

        Args:
            values: at least one, of a kind that :meth:`pipelines`.

        Returns:
            What each failed of, in order; None where it did not.
        """
        kind = kind_of_object(values[0])
        requests = []
        for value in values:
            path = collection_path(kind, place_of(value, kind, "")[1])
            requests.append(self._request("POST", path, kind, value, {}))
        outcomes = await self._calls.send_all(requests, kind)
        return [None if isinstance(each, Response) else each for each in outcomes]

    async def update(
        self, value: S, namespace: str = "", subresource: str = "", **options: Unpack[WriteOptions]
    ) -> S:
        """Replaces an object, and gives it as the server stored it.

        With a resource version the server refuses (409) if the object has changed meanwhile. A
        typed object holds only the fields that koord knows: of kinds that others write to as well,
        patch, or update a document (:class:`koord.api.Draft`).

        Args:
            value: typed or a document.
            namespace: where the object does not say.
            subresource: replace only that part, e.g. ``status``.
            options: see :class:`koord.kube.requests.options.WriteOptions`.
        """
        kind = kind_of_object(value, options.get("kind"))
        name, namespace = place_of(value, kind, namespace)
        path = object_path(kind, name, namespace, subresource)
        return await self._write("PUT", path, kind, value, options)

    async def update_status(
        self, value: S, namespace: str = "", **options: Unpack[WriteOptions]
    ) -> S:
        """Replaces an object's status; see :meth:`update`."""
        return await self.update(value, namespace, "status", **options)

    async def apply(
        self,
        value: S,
        namespace: str = "",
        *,
        force: bool = False,
        subresource: str = "",
        **options: Unpack[WriteOptions],
    ) -> S:
        """Applies the fields of an object that the field manager wants (server-side apply).

        Args:
            value: typed or a document, with just these fields.
            namespace: where the object does not say.
            force: take over fields that others own, which is a 409 otherwise.
            subresource: apply to that part, e.g. ``status``.
            options: see :class:`koord.kube.requests.options.WriteOptions`.
        """
        kind = kind_of_object(value, options.get("kind"))
        name, namespace = place_of(value, kind, namespace)
        target: Any = type(value) if isinstance(value, Object) else kind
        options["kind"] = kind
        applied: S = await self._patch(
            target,
            name,
            Patch.apply(whole(value, kind)),
            namespace,
            subresource,
            query(force=force),
            options,
        )
        return applied

    @overload
    async def patch(
        self,
        target: type[T],
        name: str,
        patch: Patch,
        namespace: str = "",
        subresource: str = "",
        **options: Unpack[WriteOptions],
    ) -> T: ...
    @overload
    async def patch(
        self,
        target: Kind,
        name: str,
        patch: Patch,
        namespace: str = "",
        subresource: str = "",
        **options: Unpack[WriteOptions],
    ) -> Document: ...
    async def patch(
        self, target: Any, name: str, patch: Patch, namespace: str = "", subresource: str = "",
        **options: Unpack[WriteOptions],
    ) -> Any:  # fmt: skip
        """Changes an object, and gives it as the server stored it.

        Args:
            target: a type for a typed answer, a Kind for a whole document.
            name: of the object.
            patch: the change.
            namespace: of the object.
            subresource: change only that part, e.g. ``status``.
            options: see :class:`koord.kube.requests.options.WriteOptions`.
        """
        return await self._patch(target, name, patch, namespace, subresource, (), options)

    async def delete(
        self,
        target: type[Object] | Kind,
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        resource_version: str = "",
        grace_period_seconds: int | None = None,
        propagation: str = "",
        dry_run: bool = False,
        timeout_seconds: float | None = None,
    ) -> None:
        """Deletes an object, or marks it if it has finalizers or a grace period.

        Args:
            target: type or Kind.
            name: of the object.
            namespace: of the object.
            uid: delete only the object with it, else 409.
            resource_version: delete only this version, else 409.
            grace_period_seconds: 0 deletes a pod at once; None for the pod's own.
            propagation: ``Foreground``, ``Background`` or ``Orphan`` for what it owns.
            dry_run: delete nothing.
            timeout_seconds: for all tries together.
        """
        kind, _ = resolve(target)
        body = delete_options(uid, resource_version, grace_period_seconds, propagation, dry_run)
        path = object_path(kind, name, namespace)
        request = Request("DELETE", path, body=codec.to_json(body))
        await self._calls.send(request, kind, bool(uid or resource_version), timeout_seconds)

    async def delete_collection(
        self,
        target: type[Object] | Kind,
        *,
        grace_period_seconds: int | None = None,
        propagation: str = "",
        dry_run: bool = False,
        **options: Unpack[SelectionOptions],
    ) -> None:
        """Deletes the selected objects of a kind; arguments as of :meth:`delete`."""
        kind, _ = resolve(target, options.get("kind"))
        body = delete_options("", "", grace_period_seconds, propagation, dry_run)
        path = collection_path(kind, options.get("namespace", ""))
        request = Request("DELETE", path, selectors(options), body=codec.to_json(body))
        await self._calls.send(request, kind, False, options.get("timeout_seconds"))

    async def bind(self, pod: Object, node: str, *, timeout_seconds: float | None = None) -> None:
        """Puts a pod on a node; 409 if it has one, or is another pod of that name by now."""
        meta = pod.metadata
        path = object_path(_POD, meta.name, meta.namespace, "binding")
        body = binding(meta.name, meta.namespace, meta.uid, node)
        request = Request("POST", path, body=body)
        # A pod is bound once: the second try of one that worked is a 409.
        await self._calls.send(request, _POD, False, timeout_seconds)

    async def evict(
        self,
        name: str,
        namespace: str,
        *,
        uid: str = "",
        resource_version: str = "",
        grace_period_seconds: int | None = None,
        dry_run: bool = False,
        timeout_seconds: float | None = None,
    ) -> None:
        """Deletes a pod if its disruption budget allows; 429 if not; arguments as of delete."""
        options = delete_options(uid, resource_version, grace_period_seconds, "", dry_run)
        path = object_path(_POD, name, namespace, "eviction")
        request = Request("POST", path, body=eviction(name, namespace, options))
        await self._calls.send(request, _POD, False, timeout_seconds)

    async def set_scale(
        self, target: type[Object] | Kind, name: str, replicas: int, namespace: str = "",
        *, timeout_seconds: float | None = None,
    ) -> Scale:  # fmt: skip
        """Sets the number of replicas, whatever it was."""
        kind, _ = resolve(target)
        path = object_path(kind, name, namespace, "scale")
        patch = Patch.merge({"spec": {"replicas": replicas}})
        asked = query(fieldManager=self._field_manager)
        request = Request("PATCH", path, asked, patch.body, patch.content_type)
        # The same number twice is no different from once.
        answer = await self._calls.send(request, kind, True, timeout_seconds)
        return codec.decode_json(answer.body, Scale, f"{kind.name} scale")

    async def _write(
        self, method: str, path: str, kind: Kind, value: S, options: WriteOptions
    ) -> S:
        answer = await self._send(method, path, kind, value, options)
        into: Any = type(value) if isinstance(value, Object) else dict
        stored: S = await decoded(decoder_of(kind, into), answer.body)
        return stored

    def _send(
        self, method: str, path: str, kind: Kind, value: Object | Document, options: WriteOptions
    ) -> Coroutine[Any, Any, Response]:
        request = self._request(method, path, kind, value, options)
        repeatable = method == "PUT" and _has_version(value)
        return self._calls.send(request, kind, repeatable, options.get("timeout_seconds"))

    def _request(
        self, method: str, path: str, kind: Kind, value: Object | Document, options: WriteOptions
    ) -> Request:
        body = codec.to_json(whole(value, kind))
        return Request(method, path, self._write_query(options), body)

    async def _patch(
        self,
        target: Any,
        name: str,
        patch: Patch,
        namespace: str,
        subresource: str,
        extra: tuple[tuple[str, str], ...],
        options: WriteOptions,
    ) -> Any:
        kind, into = resolve(target, options.get("kind"))
        path = object_path(kind, name, namespace, subresource)
        asked = self._write_query(options) + extra
        request = Request("PATCH", path, asked, patch.body, patch.content_type)
        seconds = options.get("timeout_seconds")
        answer = await self._calls.send(request, kind, patch.conditional, seconds)
        return await decoded(decoder_of(kind, into), answer.body)

    def _write_query(self, options: WriteOptions) -> tuple[tuple[str, str], ...]:
        if not options:
            return self._plain_query
        return query(
            fieldManager=options.get("field_manager") or self._field_manager,
            fieldValidation=options.get("field_validation", ""),
            dryRun="All" if options.get("dry_run") else "",
        )


def _has_version(value: Object | Document) -> bool:
    if isinstance(value, Object):
        return bool(value.metadata.resource_version)
    return bool(value.get("metadata", {}).get("resourceVersion"))
