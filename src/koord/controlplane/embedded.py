# SPDX-License-Identifier: Apache-2.0
"""An API server to embed: all its parts wired, started and stopped in order."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import tempfile
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from koord.base import rng
from koord.base.clock import SystemClock, VirtualLoop
from koord.base.worker import Worker
from koord.controlplane.admission import WebhookClient, chain
from koord.controlplane.authorization.account_tokens import AccountTokens
from koord.controlplane.authorization.default_roles import default_roles
from koord.controlplane.authorization.identity import ADMINISTRATOR
from koord.controlplane.catalog import Catalog
from koord.controlplane.credentials import kubeconfig, pki
from koord.controlplane.customresources.definitions import CRDS, CustomResources
from koord.controlplane.frontends.inprocess import InProcessTransport
from koord.controlplane.frontends.kubernetes_service import KubernetesService
from koord.controlplane.kinds import registry
from koord.controlplane.server import Server
from koord.controlplane.storage import conversion
from koord.controlplane.storage.collection import HistoryLimits
from koord.controlplane.storage.conversion import StoreReader
from koord.controlplane.storage.event_retention import EventLimits, EventRetention
from koord.controlplane.storage.journal import StorageJournal
from koord.controlplane.storage.store import Store, StoreWrite
from koord.controlplane.subresources import table
from koord.controlplane.virtual.review_pages import TOKEN_REVIEWS, token_review
from koord.kube.errors import ApiError, Status
from koord.kube.transport.messages import MERGE_PATCH, Request

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence

    from koord.base.clock import Clock
    from koord.controlplane.authorization.identity import Identity
    from koord.controlplane.extension import VirtualApi
    from koord.controlplane.frontends.http import HttpServer
    from koord.kube.transport.messages import Transport

    Controller = Callable[["Transport", "Clock"], Coroutine[Any, Any, None]]

_AUTHENTICATION = "extension-apiserver-authentication"
_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
_PRIORITY_CLASSES = {
    "system-cluster-critical": (2_000_000_000, "Used for system critical pods that must run in "
                                "the cluster, but can be moved to another node if necessary."),
    "system-node-critical": (2_000_001_000, "Used for system critical pods that must not be moved "
                             "from their current node."),
}  # fmt: skip


@dataclass(frozen=True)
class Options:
    """How a server runs.

    Attributes:
        data: folder that keeps state, certificates and token; None for none of them.
        port: 0 for any free one; None for no HTTP at all (calls in the process only).
        insecure: plain HTTP without a token.
        rbac: roles say who may what; without, everybody who gets in may do everything.
        seed: of uids and generated names; None for a fresh one.
        controllers: coroutine functions that run while the server does.
        further: by path prefix, which is a group below ``/apis/``, APIs that are not stored.
        webhooks: how webhooks are reached; services in this process are registered there.
        notices: by storage, e.g. ``ingresses.networking.k8s.io``, the ``Warning`` that whoever
            creates an object there is given.
    """

    data: Path | None = None
    host: str = "127.0.0.1"
    port: int | None = None
    insecure: bool = False
    rbac: bool = True
    clock: Clock = field(default_factory=SystemClock)
    seed: int | None = None
    limits: HistoryLimits = field(default_factory=HistoryLimits)
    events: EventLimits = field(default_factory=EventLimits)
    bookmark_seconds: float = 60.0
    controllers: Sequence[Controller] = ()
    further: Mapping[str, VirtualApi] = field(default_factory=dict)
    webhooks: WebhookClient = field(default_factory=WebhookClient)
    notices: Mapping[str, str] = field(default_factory=dict)


class EmbeddedControlPlane:
    """An API server in this process.

    Example:
        >>> async def main() -> None:
        ...     async with EmbeddedControlPlane(Options(port=0)) as plane:
        ...         print(plane.url)
    """

    def __init__(self, options: Options | None = None) -> None:
        self.options = options or Options()
        self._credentials: pki.Credentials | None = None
        self._front: HttpServer | None = None
        self._journal: StorageJournal | None = None
        # What has been started, to be ended the other way round.
        self._started = AsyncExitStack()
        seed = secrets.randbits(64) if self.options.seed is None else self.options.seed
        self._random = rng.stream(seed, "controlplane")

    async def __aenter__(self) -> EmbeddedControlPlane:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Loads what is kept, then listens, then starts the controllers.

        Raises:
            KoordError: the data cannot be read, or the port is taken; nothing is left behind.
        """
        try:
            await self._start()
        except BaseException:
            await self.stop()
            raise

    async def _start(self) -> None:
        options = self.options
        catalog = Catalog(registry.resources())
        self.store = self._open_store()
        self.admission = chain(
            StoreReader(self.store), options.clock, caller=options.webhooks,
            equivalents=catalog.at_all_versions, store=self._put, of_kind=catalog.of_kind,
            rbac=options.rbac,
        )  # fmt: skip
        self._started.push_async_callback(self.admission.close)
        self._started.push_async_callback(options.webhooks.close)
        # On virtual time all of a request's patience is over before a thread has begun.
        virtual = isinstance(asyncio.get_running_loop(), VirtualLoop)
        worker = Worker(threaded=options.port is not None and not virtual)
        self._started.callback(worker.close)
        self._tokens = AccountTokens(self._token_key(), StoreReader(self.store), options.clock)
        self.server = Server(
            self.store, catalog, options.clock, self._random, self.admission,
            table.handlers(self._tokens),
            further=options.further, bookmark_seconds=options.bookmark_seconds,
            notices=options.notices, worker=worker, rbac=options.rbac,
        )  # fmt: skip
        custom = CustomResources(self.server, options.clock)
        self._load(catalog, custom)
        custom.follow()
        fresh = self.store.version == 1
        await self._first_objects()
        if fresh:
            self.store.begin()
        retention = EventRetention(self.store, options.clock, options.events)
        self._started.callback(retention.stop)
        retention.start()
        if options.port is not None:
            front = await self._listen(options.port)
            await self._publish_authority()
            service = KubernetesService(
                self.store, InProcessTransport(self.server), front.host, front.port
            )
            self._started.push_async_callback(service.stop)
            await service.start()
        for controller in options.controllers:
            task = asyncio.create_task(controller(self.transport(), options.clock))
            self._started.push_async_callback(_cancel, task)

    async def stop(self) -> None:
        """Stops the controllers, ends watches and connections, closes the journal."""
        await self._started.aclose()
        self._front = self._journal = None

    def transport(self, identity: Identity = ADMINISTRATOR) -> InProcessTransport:
        """A way in without HTTP; closed when the server stops.

        Args:
            identity: who comes that way.
        """
        transport = InProcessTransport(self.server, identity)
        self._started.push_async_callback(transport.close)
        return transport

    @property
    def url(self) -> str:
        """Where the server listens; empty without HTTP."""
        return self._front.url if self._front is not None else ""

    @property
    def authority(self) -> bytes:
        """PEM of what clients trust; empty without TLS."""
        return self._credentials.authority if self._credentials is not None else b""

    @property
    def credentials_folder(self) -> Path | None:
        """Where its keys lie; None without TLS."""
        return self._credentials.folder if self._credentials is not None else None

    @property
    def kubeconfig(self) -> str:
        """The text of a kubeconfig that reaches the server."""
        return kubeconfig.text(self.url, self._credentials)

    def _token_key(self) -> bytes:
        """Signs tokens of accounts; the same after a restart on the same data."""
        if self.options.port is None or self.options.insecure:
            return secrets.token_bytes(32)
        folder = self.options.data
        if folder is None:
            name = self._started.enter_context(tempfile.TemporaryDirectory(prefix="koord-"))
            folder = Path(name)
        self._credentials = pki.credentials(folder / "pki")
        return hashlib.sha256(b"service accounts " + self._credentials.token.encode()).digest()

    def _put(self, storage: str, document: dict[str, Any]) -> None:
        """Stores a document without selectable fields, past all rules."""
        self.store.put(storage, document, ())

    def _open_store(self) -> Store:
        options = self.options
        if options.data is None:
            return Store(limits=options.limits)
        self._journal = StorageJournal(options.data / "state.db")
        self._started.callback(self._journal.close)
        versions = self._journal.versions()
        version = max(versions.values(), default=1)
        store = Store(self._journal, options.limits, version, versions)
        self._started.callback(store.flush)
        return store

    def _load(self, catalog: Catalog, custom: CustomResources) -> None:
        """Takes over what the journal keeps: definitions first, since they say what the rest is."""
        if self._journal is None:
            return
        later = []
        for kept in self._journal.load():
            if kept.storage != CRDS:
                later.append(kept)
            else:
                self.store.load(kept.storage, conversion.loaded(catalog.stored(CRDS), kept))
        custom.serve_all()
        defined, orphans = self.store.collection(CRDS).entries, []
        for kept in later:
            resource = catalog.stored(kept.storage)
            if resource is None and kept.storage not in defined:
                orphans.append(StoreWrite(kept.storage, kept.key, kept.version, None))
            else:
                self.store.load(kept.storage, conversion.loaded(resource, kept))
        if orphans:  # The server was killed between a definition's removal and theirs.
            self._journal.commit(orphans)

    async def _listen(self, port: int) -> HttpServer:
        from koord.controlplane.frontends.http import HttpServer

        options, tls, token = self.options, None, None
        if self._credentials is not None:
            tls, token = self._credentials.context(), self._credentials.token
            self.server.pages[TOKEN_REVIEWS] = token_review(token, self._tokens)
        front = HttpServer(self.server, options.host, port, tls, token, self._tokens)
        await front.start()
        self._started.push_async_callback(front.stop)
        self._front = front
        return front

    async def _first_objects(self) -> None:
        """What every cluster has from the start."""
        transport = InProcessTransport(self.server)
        for name in _NAMESPACES:
            await _ensure(transport, "/api/v1/namespaces", {"metadata": {"name": name}})
        for name, (value, description) in _PRIORITY_CLASSES.items():
            document = {"metadata": {"name": name}, "value": value, "description": description}
            await _ensure(transport, "/apis/scheduling.k8s.io/v1/priorityclasses", document)
        for plural, role in default_roles():
            await _ensure(transport, f"/apis/rbac.authorization.k8s.io/v1/{plural}", role)

    async def _publish_authority(self) -> None:
        """Tells whom components of a control plane are to trust that serve requests themselves.

        What an earlier run has told is made true again: the folder may have other credentials now.
        """
        kept = self._credentials
        data = {"client-ca-file": kept.client_authority.decode()} if kept is not None else {}
        document = {"metadata": {"name": _AUTHENTICATION}, "data": data}
        path = "/api/v1/namespaces/kube-system/configmaps"
        transport = InProcessTransport(self.server)
        await _ensure(transport, path, document)
        told = msgspec.json.encode({"data": {"client-ca-file": data.get("client-ca-file")}})
        request = Request("PATCH", f"{path}/{_AUTHENTICATION}", (), told, MERGE_PATCH)
        answer = await transport.send(request)
        if answer.status != 200:
            raise ApiError(msgspec.json.decode(answer.body, type=Status))


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def _ensure(transport: Transport, path: str, document: dict[str, Any]) -> None:
    answer = await transport.send(Request("POST", path, body=msgspec.json.encode(document)))
    if answer.status not in (201, 409):
        raise ApiError(msgspec.json.decode(answer.body, type=Status))
