# SPDX-License-Identifier: Apache-2.0
"""From a request to an answer: routes to verbs, reads bodies and parameters, words refusals."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from koord.base import log
from koord.base.loop_share import LARGE_BYTES
from koord.base.worker import Worker
from koord.controlplane import discovery
from koord.controlplane.api_errors import (
    bad_request,
    internal,
    method_not_allowed,
    no_such_page,
    no_such_path,
)
from koord.controlplane.authorization.identity import identity_of
from koord.controlplane.authorization.impersonation import refused
from koord.controlplane.authorization.rbac import Authorizer
from koord.controlplane.extension import AdmitAll, Attributes
from koord.controlplane.handlers import metadata, scale
from koord.controlplane.handlers.create_cache import CreateCache
from koord.controlplane.handlers.delete import Deletion
from koord.controlplane.handlers.patch import Patches, patched_scale
from koord.controlplane.handlers.read import Reads
from koord.controlplane.handlers.write import RequestTarget, Verbs, WriteResult
from koord.controlplane.kinds.pod.strategy import PodStrategy
from koord.controlplane.metrics import ServerMetrics
from koord.controlplane.nonresource import pages
from koord.controlplane.openapi import OpenApiPages
from koord.controlplane.requests import options, representations, routes
from koord.controlplane.requests.access import access_of
from koord.controlplane.requests.bodies import checked, decoded, plain, weight_bytes
from koord.controlplane.resource import Context
from koord.controlplane.storage import conversion
from koord.controlplane.storage.conversion import StoreReader
from koord.controlplane.subresources.binding import bind
from koord.controlplane.subresources.plain_binding import PlainBindings
from koord.controlplane.subresources.request import SubresourceRequest
from koord.controlplane.virtual import reviews
from koord.controlplane.virtual.review_pages import review_pages
from koord.kube.errors import ApiError
from koord.kube.transport.messages import JSON, Response

if TYPE_CHECKING:
    import random
    from collections.abc import Mapping

    from koord.base.clock import Clock
    from koord.base.documents import Document
    from koord.controlplane.catalog import Catalog
    from koord.controlplane.extension import Admission, VirtualApi
    from koord.controlplane.resource import Resource
    from koord.controlplane.storage.store import Store
    from koord.controlplane.storage.watch import WatchCursor
    from koord.controlplane.subresources.request import Handlers
    from koord.kube.transport.messages import Request

# Of a whole collection, before others have their turn.
_DELETIONS_A_TURN = 32
_NO_QUERY: dict[str, str] = {}
_log = log.get("controlplane")


class Server:
    """An API server without its ways in.

    Args:
        clock: for creation times and ages.
        random: for uids and generated names.
        handlers: of subresources with rules of their own.
        further: by path prefix, which is a group below ``/apis/``, APIs that are not stored.
        notices: by storage, what whoever creates an object there is warned of.
        worker: does what large objects cost; None does it at once.
        rbac: whether roles say who may what.
    """

    def __init__(
        self,
        store: Store,
        catalog: Catalog,
        clock: Clock,
        random: random.Random,
        admission: Admission | None = None,
        handlers: Handlers | None = None,
        further: Mapping[str, VirtualApi] | None = None,
        bookmark_seconds: float = 60.0,
        notices: Mapping[str, str] | None = None,
        worker: Worker | None = None,
        rbac: bool = True,
    ) -> None:
        self.store = store
        self.catalog = catalog
        self.reader = StoreReader(store)
        self.authorizer = Authorizer(self.reader, enforced=rbac)
        self.worker = worker or Worker()
        self.verbs = Verbs(store, admission or AdmitAll(), random, notices, self.worker)
        self.figures = ServerMetrics(store)
        self.pages = pages(self.figures.expose, lambda: store.writable)
        self.pages |= review_pages(self.authorizer)
        self.handlers = dict(handlers or {})
        self.virtual_apis: dict[str, VirtualApi] = {
            **reviews.apis(self.authorizer),
            **(further or {}),
        }
        self._openapi = OpenApiPages(catalog)
        self._reads = Reads(store, bookmark_seconds, self.worker)
        self._deletion = Deletion(self.verbs)
        self._create_cache = CreateCache(self.verbs.admission)
        self._patches = Patches(self.verbs)
        self._bindings = PlainBindings(store, self.verbs.admission, PodStrategy.selectable, clock)
        self._clock = clock

    async def handle(self, request: Request) -> Response | WatchCursor:
        """The answer to any request; every refusal is one too."""
        failures = self.store.failures
        try:
            self._authorize(request)
            plain = self._bindings.bind(request) if request.method == "POST" else None
            answer = plain or await self._route(request)
            if not self.store.is_settled:
                await self._committed(answer)
            if self.store.failures != failures and request.method not in ("GET", "HEAD"):
                # It may have written more than once, and lost what it wrote before it waited.
                raise internal("the journal took no writes meanwhile")
        except ApiError as error:
            # A thousand things may be wrong with an object, each in some words.
            weight = len(error.status.message)
            answer = await self.worker.call(weight, representations.refusal, error)
        except UnicodeEncodeError:
            answer = representations.refusal(bad_request("the body has half of a surrogate pair"))
        except Exception:
            _log.exception("request failed", extra=log.fields(path=request.path))
            answer = representations.refusal(internal("the request could not be served"))
        if isinstance(answer, Response):
            self.figures.count(request.method, answer.status)
        else:
            self.figures.count("WATCH", 200)
            self.figures.follow(answer)
        return answer

    def _authorize(self, request: Request) -> None:
        identity = identity_of(request)
        if identity.is_master:
            return
        access = access_of(request)
        if not self.authorizer.verdict(identity, access).allowed:
            raise refused(identity, access)

    async def _committed(self, answer: Response | WatchCursor) -> None:
        try:
            await self.store.settled()
        except BaseException:
            if not isinstance(answer, Response):
                answer.end()  # Nobody gets it.
            raise

    async def _route(self, request: Request) -> Response | WatchCursor:
        path = request.path
        if not path.startswith("/api/"):  # There is nothing there but what is stored.
            page = self.pages.get(path.rstrip("/") or "/")
            if page is not None:
                return await page(request)
            for prefix, serve in self.virtual_apis.items():
                if path == prefix or path.startswith(f"{prefix}/"):
                    return await serve(request)
            if path.startswith("/openapi/"):
                return await self._openapi.serve(request)
        if path.rstrip("/").count("/") <= 2:
            return self._discover(request)
        route = routes.parse(path)
        if not route.plural:
            _only_get(request)
            document = discovery.resource_list(self.catalog.resources(), route.group, route.version)
            return _answered(document)
        if (route.group, route.plural, request.method) == ("", "bindings", "POST"):
            route = await self._of_the_pod(route, request)
        resource = self.catalog.find(route.group, route.version, route.plural)
        if resource is None or (route.namespace and not resource.namespaced):
            known = self.catalog.serves(route.group, route.version)
            raise no_such_path() if known else no_such_page()
        query = dict(request.query) if request.query else _NO_QUERY
        if query and request.method in ("POST", "PUT", "PATCH"):
            options.check_write(request.method, query)
        if route.watched:
            query = {**query, "watch": "true"}
        target = RequestTarget(resource, route.namespace, route.name, route.subresource)
        if route.subresource:
            answer = await self._subresource(request, target, query)
        elif route.name:
            answer = await self._one(request, target, query)
        else:
            answer = await self._all(request, target, query)
        if resource.warning and isinstance(answer, Response):
            warnings = (resource.warning, *answer.warnings)
            answer = msgspec.structs.replace(answer, warnings=warnings)
        return answer

    def _discover(self, request: Request) -> Response:
        _only_get(request)
        path = request.path.rstrip("/")
        further = [resource for api in self.virtual_apis.values() for resource in api.resources]
        known = [*self.catalog.resources(), *further]
        if path in ("/api", "/apis"):
            if discovery.is_aggregated(request.accept):
                document = discovery.aggregated(known, path == "/api")
                return _answered(document, discovery.AGGREGATED)
            return _answered(
                discovery.core_versions() if path == "/api" else discovery.groups(known)
            )
        if path.startswith("/api/"):
            return _answered(discovery.resource_list(known, "", path.removeprefix("/api/")))
        if path.startswith("/apis/"):
            return _answered(discovery.group(known, path.removeprefix("/apis/")))
        raise no_such_page()

    async def _all(
        self, request: Request, target: RequestTarget, query: Mapping[str, str]
    ) -> Response | WatchCursor:
        """A request to a whole resource."""
        resource, method = target.resource, request.method
        if method == "POST":
            if resource.namespaced and not target.namespace:
                raise method_not_allowed()
            written = await self._create(request, target, query)
            return self._written(request, resource, written, query)
        if method in ("GET", "HEAD"):
            form = representations.form(request.accept)
            now = self._clock.wall_seconds()
            if options.truth(query.get("watch", "")):
                render = representations.event_renderer(resource, form, query, now)
                return self._reads.watch(resource, target.namespace, query, render)
            if query:
                await self._reads.wait_for_version(query)
            page = await self._reads.list(resource, target.namespace, query)
            return await self._listed(resource, page, form, query)
        if method == "DELETE":
            return await self._delete_all(request, target, query)
        raise method_not_allowed()

    async def _create(
        self, request: Request, target: RequestTarget, query: Mapping[str, str]
    ) -> WriteResult:
        resource, context = target.resource, self.context(request, query)
        repeat = None
        if resource.strategy.has_templates and not context.dry_run and _is_json(request):
            repeat = self._create_cache.lookup(resource, target.namespace, request.body)
            if repeat is not None and repeat.template is not None:
                document = repeat.document(resource)
                if document is not None:
                    return self.verbs.create_repeat(target, document, repeat.template, context)
        document, warnings = await self._body(request, resource, query)
        given = options.of_write("POST", query)
        written = await self.verbs.create(
            target, document, context, given, warnings, weight_bytes=len(request.body)
        )
        if repeat is not None and not written.warnings:
            self._create_cache.store(resource, repeat, written.body, written.fields)
        return written

    async def _one(
        self, request: Request, target: RequestTarget, query: Mapping[str, str]
    ) -> Response | WatchCursor:
        """A request to one object."""
        resource, method = target.resource, request.method
        if resource.namespaced and not target.namespace:
            raise method_not_allowed() if method == "POST" else no_such_path()
        if method in ("GET", "HEAD"):
            if options.truth(query.get("watch", "")):
                query = {**query, "fieldSelector": f"metadata.name={target.name}"}
                return await self._all(request, RequestTarget(resource, target.namespace), query)
            if query:
                await self._reads.wait_for_version(query)
            entry = self.verbs.present(target)
            return self._representation(request, resource, entry.body, query)
        if method == "PUT":
            return await self._put(request, target, query)
        if method == "PATCH":
            written = await self._patches.patch(
                target, request, query, self.context(request, query)
            )
            return self._written(request, resource, written, query)
        if method == "DELETE":
            given = await self._delete_options(request, query)
            context = self.context(request, query, given)
            written = await self._deletion.delete(target, given, context)
            return Response(200, written.body, warnings=tuple(written.warnings))
        raise method_not_allowed()

    async def _put(
        self, request: Request, target: RequestTarget, query: Mapping[str, str]
    ) -> Response:
        resource = target.resource
        sent, warnings = await self._body(request, resource, query)
        meta = metadata.metadata_of(sent)
        name = meta.setdefault("name", target.name)
        if name != target.name:
            raise bad_request(f"the name of the object ({name}) does not match the name on the URL "
                              f"({target.name})")  # fmt: skip
        context, weight = self.context(request, query), len(request.body)
        strategy = resource.strategy
        if strategy.create_on_update and not target.subresource and not self.verbs.entry(target):
            meta.pop("resourceVersion", None)
            written = await self.verbs.create(
                target, sent, context, options.of_write("POST", query), warnings,
                weight_bytes=weight,
            )  # fmt: skip
            return self._written(request, resource, written, query)
        text = msgspec.json.encode(sent)
        written = await self.verbs.update(
            target, lambda _: msgspec.json.decode(text), context, options.of_write("PUT", query),
            weight_bytes=weight,
        )  # fmt: skip
        written.warnings = warnings + written.warnings
        return self._written(request, resource, written, query)

    async def _subresource(
        self, request: Request, target: RequestTarget, query: Mapping[str, str]
    ) -> Response | WatchCursor:
        resource, name = target.resource, target.subresource
        if name not in resource.subresources:
            raise no_such_path()
        handler = self.handlers.get((resource.storage, name)) or self.handlers.get(("*", name))
        if handler is not None:
            document = await self._plain(request) if request.body else None
            context = self.context(request, query)
            call = SubresourceRequest(
                request.method, resource, target.namespace, target.name, document, query, context,
                self.verbs, name,
            )  # fmt: skip
            if request.method == "POST":
                await self._admit(call, query)
            status, answer = await handler(call)
            if handler is bind:
                self._bindings.admitted(target.namespace)
            return Response(status, conversion.encode(answer))
        if name == "scale":
            return await self._scale(request, target, query)
        if request.method in ("GET", "HEAD"):
            return self._representation(request, resource, self.verbs.present(target).body, query)
        if request.method == "PUT":
            return await self._put(request, target, query)
        if request.method == "PATCH":
            written = await self._patches.patch(
                target, request, query, self.context(request, query)
            )
            return self._written(request, resource, written, query)
        raise method_not_allowed()

    async def _plain(self, request: Request) -> Document:
        """The document of a body that no schema reads."""
        body = request.body
        return await self.worker.call(weight_bytes(body), plain, body, request.content_type)

    async def _of_the_pod(self, route: routes.Route, request: Request) -> routes.Route:
        """The older path of bindings names the pod in the body alone."""
        meta = (await self._plain(request)).get("metadata")
        name = str(meta.get("name", "")) if isinstance(meta, dict) else ""
        return route._replace(plural="pods", name=name, subresource="binding")

    async def _admit(self, call: SubresourceRequest, query: Mapping[str, str]) -> None:
        """Takes what is posted to a subresource through admission."""
        attributes = Attributes(
            "CREATE", call.resource, call.subresource, call.namespace, call.name, call.document,
            None, call.context, options.of_write("POST", query),
        )  # fmt: skip
        await self.verbs.admission.mutate(attributes)
        await self.verbs.admission.validate(attributes)

    async def _scale(
        self, request: Request, target: RequestTarget, query: Mapping[str, str]
    ) -> Response:
        resource = target.resource
        if request.method in ("GET", "HEAD"):
            document = conversion.document(resource, self.verbs.present(target).body)
            return _answered(scale.scale_of(resource, document))

        def make(current: Document) -> Document:
            if request.method == "PUT":
                wanted = plain(request.body, request.content_type)
            else:
                wanted = patched_scale(scale.scale_of(resource, current), request)
            return scale.scaled(resource, current, wanted)

        if request.method not in ("PUT", "PATCH"):
            raise method_not_allowed()
        main = RequestTarget(resource, target.namespace, target.name)
        context = self.context(request, query)
        weight = weight_bytes(request.body)
        written = await self.verbs.update(main, make, context, through="scale", weight_bytes=weight)
        document = msgspec.json.decode(written.body)
        return _answered(scale.scale_of(resource, document))

    async def _delete_all(
        self, request: Request, target: RequestTarget, query: Mapping[str, str]
    ) -> Response:
        resource = target.resource
        if "deletecollection" not in resource.verbs:
            raise method_not_allowed()
        given = await self._delete_options(request, query)
        context = self.context(request, query, given)
        page = await self._reads.list(resource, target.namespace, query)
        size = 0
        for number, entry in enumerate(page.entries, 1):
            size += len(entry.body)
            if number % _DELETIONS_A_TURN == 0 or size >= LARGE_BYTES:
                size = 0
                await asyncio.sleep(0)
            one = RequestTarget(resource, entry.namespace, entry.name)
            try:
                await self._deletion.delete(one, given, context)
            except ApiError as error:
                if error.http_status != 404:
                    raise
        return await self._listed(resource, page, representations.form(request.accept), query)

    async def _listed(
        self,
        resource: Resource,
        page: representations.ListPage,
        form: representations.Representation,
        query: Mapping[str, str],
    ) -> Response:
        now = self._clock.wall_seconds()
        # As they are, texts are put together at the speed of memory.
        read = form.shape or conversion.renderer(resource) is not None
        weight = sum(len(entry.body) for entry in page.entries) if read else 0
        body = await self.worker.call(
            weight, representations.listing, resource, page, form, query, now
        )
        return Response(200, body)

    def context(
        self, request: Request, query: Mapping[str, str], given: Document | None = None
    ) -> Context:
        """What surrounds a request."""
        dry_run = bool(query.get("dryRun") or (given or {}).get("dryRun"))
        manager = query.get("fieldManager") or request.user_agent.partition("/")[0] or "unknown"
        now = metadata.timestamp(self._clock.wall_seconds())
        who = identity_of(request)
        return Context(now, who.name, who.groups, manager, dry_run, who.uid, who.extra)

    async def _body(
        self, request: Request, resource: Resource, query: Mapping[str, str]
    ) -> tuple[Document, list[str]]:
        """The document of a body, checked and cleaned by the schema."""
        validation = query.get("fieldValidation") or "Warn"
        weight = weight_bytes(request.body)
        return await self.worker.call(weight, decoded, request, resource, validation)

    async def _delete_options(self, request: Request, query: Mapping[str, str]) -> Document:
        given: Document = {}
        if request.body.strip():
            sent = await self._plain(request)
            given = checked(sent, "", "v1", "DeleteOptions")
        if query.get("propagationPolicy"):
            given["propagationPolicy"] = query["propagationPolicy"]
        if query.get("dryRun"):
            given["dryRun"] = [query["dryRun"]]
        if "gracePeriodSeconds" in query:
            try:
                given["gracePeriodSeconds"] = int(query["gracePeriodSeconds"])
            except ValueError:
                raise bad_request("gracePeriodSeconds: expected an integer") from None
        return given

    def _representation(
        self, request: Request, resource: Resource, body: bytes, query: Mapping[str, str]
    ) -> Response:
        form = representations.form(request.accept)
        render = representations.renderer(resource, form, query, self._clock.wall_seconds())
        return Response(200, render(body) if render else body)

    def _written(
        self, request: Request, resource: Resource, written: WriteResult, query: Mapping[str, str]
    ) -> Response:
        form, body = representations.form(request.accept), written.body
        if form.shape:
            render = representations.renderer(resource, form, query, self._clock.wall_seconds())
            body = render(body) if render else body
        return Response(201 if written.created else 200, body, warnings=tuple(written.warnings))


def _answered(document: Document, content_type: str = JSON) -> Response:
    return Response(200, conversion.encode(document), content_type)


def _is_json(request: Request) -> bool:
    return request.content_type.partition(";")[0].strip() in ("", JSON)


def _only_get(request: Request) -> None:
    if request.method not in ("GET", "HEAD"):
        raise method_not_allowed()
