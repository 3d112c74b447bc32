# SPDX-License-Identifier: Apache-2.0
"""What the built-in controllers share: views of the cluster, and the hands that carry out plans."""

from __future__ import annotations

import asyncio
from itertools import groupby
from typing import TYPE_CHECKING, Any, Protocol

from koord.api import codec
from koord.api.draft import merge_patch
from koord.api.kinds.meta import Object, ObjectReference
from koord.api.kinds.node import Node
from koord.api.kinds.pod import Pod
from koord.api.kinds.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from koord.base import faults
from koord.base.documents import Document
from koord.controlplane.controllers.base.objects import (
    CLAIM,
    CONTROLLER_REVISION,
    DAEMON_SET,
    JOB,
    NODE,
    POD,
    REPLICA_SET,
    STATEFUL_SET,
    STORAGE_CLASS,
    VOLUME,
    Owner,
    Revision,
)
from koord.controlplane.controllers.base.plans import (
    Action,
    Create,
    Delete,
    ObjectEvent,
    PatchAction,
)
from koord.controlplane.controllers.base.views import KindView
from koord.kube import patches
from koord.kube.errors import ApiError, PodRefusalError, causes_of
from koord.kube.informers.informer import Informer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

    from koord.api.kinds.registry import Kind
    from koord.base.clock import Clock
    from koord.kube.client import Client
    from koord.kube.events import EventType

# Writes of one plan that are under way together.
_TOGETHER = 64
_SETTLE_SECONDS = 5.0
# Owners that tell of every pod they make or take down.
_TELLING = (REPLICA_SET, STATEFUL_SET, DAEMON_SET, JOB)
_TYPES: dict[Kind, type[Any]] = {
    POD: Pod,
    NODE: Node,
    CONTROLLER_REVISION: Revision,
    CLAIM: PersistentVolumeClaim,
    VOLUME: PersistentVolume,
    STORAGE_CLASS: StorageClass,
}
_INDEXERS: dict[Kind, dict[str, Any]] = {
    POD: {"node": lambda pod: (pod.spec.node_name,) if pod.spec.node_name else ()}
}


class Recorder(Protocol):
    """Where events go; :class:`koord.kube.events.EventRecorder` is one."""

    def event(
        self, about: ObjectReference, event_type: EventType, reason: str, message: str
    ) -> None:
        """Writes an event about an object."""
        ...


class Runtime:
    """Views, writes and events of one set of controllers.

    Args:
        client: the way to the API server.
        clock: wall time of conditions and deadlines.
        recorder: where events go.
    """

    def __init__(self, client: Client, clock: Clock, recorder: Recorder) -> None:
        self.client = client
        self.clock = clock
        self.views: dict[Kind, KindView[Any]] = {}
        self._recorder = recorder
        self._tasks: asyncio.TaskGroup | None = None
        self._informers: dict[KindView[Any], asyncio.Task[None]] = {}

    @property
    def now(self) -> float:
        """Wall seconds."""
        return self.clock.wall_seconds()

    def view(self, kind: Kind, project: type[Any] = Owner) -> KindView[Any]:
        """The one view of a kind; it fills while :meth:`run` goes on.

        Args:
            kind: what is seen.
            project: the type, where the kind has none of its own here.
        """
        found = self.views.get(kind)
        if found is None:
            chosen = _TYPES.get(kind, project)
            informer = Informer(self.client, kind, project=chosen)
            found = KindView(kind, chosen, informer, _INDEXERS.get(kind))
            self.views[kind] = found
            self._begin(found)
        return found

    def view_of_resource(self, kind: Kind) -> KindView[Any]:
        """A view of a resource, at whatever version: the one there is, else of metadata alone."""
        for known, view in self.views.items():
            if (known.group, known.plural) == (kind.group, kind.plural):
                return view
        return self.view(kind, Object)

    def forget(self, view: KindView[Any]) -> None:
        """Ends a view that :meth:`view_of_resource` began, of a resource no longer served."""
        view.clear()
        self.views.pop(view.kind, None)
        task = self._informers.pop(view, None)
        if task is not None:
            task.cancel()

    async def run(self) -> None:
        """Keeps the views true until cancelled."""
        try:
            async with asyncio.TaskGroup() as self._tasks:
                for view in self.views.values():
                    self._begin(view)
                while True:
                    await asyncio.sleep(_SETTLE_SECONDS)
                    for view in self.views.values():
                        view.drop_unconfirmed()
        finally:
            self._tasks = None

    async def synced(self) -> None:
        """Waits until every view has its first list."""
        await asyncio.gather(*(view.informer.synced() for view in self.views.values()))

    def _begin(self, view: KindView[Any]) -> None:
        if self._tasks is not None:
            name = f"informer of {view.kind.plural}"
            self._informers[view] = self._tasks.create_task(view.informer.run(), name=name)

    def record_event(self, regarding: Object, kind: Kind, note: ObjectEvent) -> None:
        """Records an event on an object."""
        metadata = regarding.metadata
        about = ObjectReference(
            api_version=kind.api_version,
            kind=kind.name,
            namespace=metadata.namespace,
            name=metadata.name,
            uid=metadata.uid,
            resource_version=metadata.resource_version,
        )
        self._recorder.event(about, note.type, note.reason, note.message)

    async def carry_out(self, actions: Sequence[Action], kind: Kind, owner: Object) -> None:
        """Does what a plan says, in its order; runs of one type go out together.

        Creates start slowly (1, 2, 4, ...), so that a quota that is used up is asked once.

        Raises:
            ApiError: the server refused; what was not begun is left.
            TransportError: no answer came.
        """
        for action_type, run in groupby(actions, type):
            group = list(run)
            size = 1 if action_type is Create else _TOGETHER
            while group:
                batch, group = group[:size], group[size:]
                await _together([self._one(action, kind, owner) for action in batch])
                size = min(2 * size, _TOGETHER)

    async def write_status(self, kind: Kind, owner: Owner, status: Document) -> None:
        """Makes the status what it should be, against the version that was read.

        An object that is gone needs none.

        Raises:
            ApiError: 409 if the object has changed; or another refusal.
        """
        change = merge_patch(owner.status, status)
        if not change:
            return
        metadata = owner.metadata
        bound = {"uid": metadata.uid, "resourceVersion": metadata.resource_version}
        body = {"metadata": bound, "status": change}
        write = PatchAction(kind, metadata.namespace, metadata.name, body, "status")
        await _unless(404, self._patch(write))

    async def _one(self, action: Action, kind: Kind, owner: Object) -> None:
        match action:
            case ObjectEvent():
                self.record_event(owner, kind, action)
            case Create():
                await self._create(action, kind, owner)
            case PatchAction():
                await _unless(404, self._patch(action))
            case Delete():
                await self._delete(action, kind, owner)

    async def _create(self, action: Create, kind: Kind, owner: Object) -> None:
        faults.point("controllers.create")
        try:
            document = await self.client.create(action.document, action.namespace, kind=action.kind)
        except ApiError as error:
            if action.exists_ok and error.reason == "AlreadyExists":
                return
            if any(cause.reason == "NamespaceTerminating" for cause in causes_of(error)):
                # Nothing can be made there any more, and what is there will go.
                return
            if action.kind == POD:
                said = f"Error creating: {error.status.message}"
                self.record_event(owner, kind, ObjectEvent("FailedCreate", said, "Warning"))
                raise PodRefusalError(error.status) from error
            raise
        self._wrote(action.kind, document)
        if action.kind == POD and kind in _TELLING:
            name = document["metadata"]["name"]
            self.record_event(
                owner,
                kind,
                ObjectEvent("SuccessfulCreate", _action_text("create", name, kind, owner)),
            )

    async def _patch(self, action: PatchAction) -> None:
        faults.point("controllers.patch")
        make = patches.Patch.strategic if action.strategic else patches.Patch.merge
        document = await self.client.patch(
            action.kind, action.name, make(action.body), action.namespace, action.subresource
        )
        self._wrote(action.kind, document)

    async def _delete(self, action: Delete, kind: Kind, owner: Object) -> None:
        faults.point("controllers.delete")
        call = self.client.delete(
            action.kind,
            action.name,
            action.namespace,
            uid=action.uid,
            resource_version=action.resource_version,
            propagation=action.propagation or "",
            grace_period_seconds=action.grace_period_seconds,
        )
        # Gone, another object of that name by now, or a newer version, which is looked at again.
        if not await _unless(404, _unless(409, call)):
            return
        view = self.views.get(action.kind)
        if view:
            view.record_deletion(action.namespace, action.name, action.uid)
        if action.kind == POD and kind in _TELLING:
            said = _action_text("delete", action.name, kind, owner)
            self.record_event(owner, kind, ObjectEvent("SuccessfulDelete", said))

    def _wrote(self, kind: Kind, document: Document) -> None:
        view = self.views.get(kind)
        if view:
            view.record_write(codec.convert(document, view.project, kind.name))


def _action_text(verb: str, name: str, kind: Kind, owner: Object) -> str:
    if kind == STATEFUL_SET:
        return f"{verb} Pod {name} in StatefulSet {owner.metadata.name} successful"
    return f"{verb.capitalize()}d pod: {name}"


async def _unless(code: int, call: Awaitable[object]) -> bool:
    """Makes a call of which one refusal does not matter; whether it was accepted."""
    try:
        result = await call
    except ApiError as error:
        if error.http_status != code:
            raise
        return False
    return result is not False


async def _together(calls: Sequence[Awaitable[None]]) -> None:
    """Waits for all; raises the first failure once none is under way any more."""
    results = await asyncio.gather(*calls, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
