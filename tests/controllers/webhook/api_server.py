# SPDX-License-Identifier: Apache-2.0
"""An API server of few words, and replicas of admission that see its writes late.

Each write gets the next resource version, and reaches a replica when the test says so, in order.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections import deque
from itertools import count
from typing import TYPE_CHECKING, Any

import msgspec

from koord.api import codec
from koord.api.kinds.quota import ElasticQuota
from koord.base.clock import VirtualClock, VirtualLoop
from koord.controllers.manager.feature_gates import feature_gates
from koord.controllers.scheduler.cache.local_views import LocalViews
from koord.controllers.webhook.framework.admission_decision import AdmissionDecision
from koord.controllers.webhook.framework.admission_request import (
    AdmissionRequest,
    Operation,
    ResourceName,
)
from koord.controllers.webhook.framework.handler import HandlerDependencies
from koord.controllers.webhook.options import WebhookOptions
from koord.kube.errors import ApiError, Status, TransportError

if TYPE_CHECKING:
    from collections.abc import Callable

    from koord.kube.patches import Patch

PREFIX = "quota.scheduling.koordinator.sh/"
_UIDS = count(1)


def quota(name: str, parent: str = "", **more: Any) -> ElasticQuota:
    """A quota; ``min``, ``max`` and other labels or annotations by their last word."""
    labels = {PREFIX + "parent": parent} if parent else {}
    document: dict[str, Any] = {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
        "kind": "ElasticQuota",
        "metadata": {"name": name, "namespace": more.pop("namespace", "default")},
        "spec": {part: more.pop(part) for part in ("min", "max") if part in more},
        "status": {"used": more.pop("used", {})},
    }
    annotations = {}
    for key, value in more.items():
        word = PREFIX + key.replace("_", "-")
        if isinstance(value, str):
            labels[word] = value
        else:
            annotations[word] = json.dumps(value)
    document["metadata"] |= {"labels": labels, "annotations": annotations}
    return codec.decode_json(codec.to_json(document), ElasticQuota, "quota")


def request(
    operation: str, new: Any, old: Any = None, *, dry_run: bool = False, **more: Any
) -> AdmissionRequest:
    """A request about typed objects or documents."""
    it = new if new is not None else old
    meta = it["metadata"] if isinstance(it, dict) else codec.to_document(it)["metadata"]
    return AdmissionRequest(
        uid=f"uid-{next(_UIDS)}",
        operation=Operation(operation),
        kind=more.pop("kind", "ElasticQuota"),
        resource=more.pop("resource", ResourceName("scheduling.sigs.k8s.io", "elasticquotas")),
        namespace=meta.get("namespace", ""),
        name=meta.get("name", ""),
        dry_run=dry_run,
        raw_object=None if new is None else codec.to_json(new),
        raw_old_object=None if old is None else codec.to_json(old),
        **more,
    )


class Server:
    """Objects of all kinds, by kind and key; and replicas that follow them."""

    def __init__(self) -> None:
        self.objects: dict[tuple[type, str], Any] = {}
        self.version = 0
        self.replicas: list[Replica] = []
        self.clock = VirtualClock(1000.0)
        self.lose_answers = 0
        self.writes = 0
        self.draw: random.Random | None = None
        self.put_before_patch: Callable[[], Any] = lambda: None

    async def pause(self) -> None:
        """Lets others go on for a while, where the test draws lots."""
        if self.draw is not None and self.draw.random() < 0.7:
            await asyncio.sleep(self.draw.choice([0.0, 0.0, 0.01, 0.1]))

    async def deliver(self, rounds: int, longest_seconds: float) -> None:
        """Brings replicas what was written, bit by bit."""
        assert self.draw is not None
        for _ in range(rounds):
            await asyncio.sleep(self.draw.uniform(0, longest_seconds))
            replica = self.draw.choice(self.replicas)
            replica.catch_up(self.draw.randint(1, 4))

    def put(self, item: Any) -> Any:
        """Stores an object, whatever was there."""
        self.version += 1
        stored = msgspec.structs.replace(
            item,
            metadata=msgspec.structs.replace(item.metadata, resource_version=str(self.version)),
        )
        self.objects[type(item), _key(item)] = stored
        for replica in self.replicas:
            replica.late.append(("put", stored))
        return stored

    def remove(self, item: Any) -> None:
        """Deletes an object."""
        self.version += 1
        stored = self.objects.pop((type(item), _key(item)))
        for replica in self.replicas:
            replica.late.append(("remove", stored))

    def get(self, kind: type, name: str, namespace: str = "") -> Any:
        """What is stored."""
        return self.objects.get((kind, f"{namespace}/{name}" if namespace else name))

    def replica(self, **more: Any) -> Replica:
        """One more replica, which has seen everything so far."""
        made = Replica(self, **more)
        for stored in list(self.objects.values()):
            made.late.append(("put", stored))
        self.replicas.append(made)
        made.catch_up()
        return made


class Replica:
    """One process of admission: its views, and its client."""

    def __init__(
        self, server: Server, gates: str = "", options: WebhookOptions | None = None
    ) -> None:
        self.server = server
        self.late: deque[tuple[str, Any]] = deque()
        self.views = LocalViews()
        self.prompt = False
        self.given = HandlerDependencies(
            client=Client(self),  # type: ignore[arg-type]
            views=self.views,  # type: ignore[arg-type]
            gates=feature_gates(gates),
            options=options or WebhookOptions(),
            clock=server.clock,
            write_event=lambda *told: None,
        )

    def catch_up(self, most: int | None = None) -> None:
        """Sees what was written, or the first of it."""
        left = len(self.late) if most is None else min(most, len(self.late))
        for _ in range(left):
            what, item = self.late.popleft()
            view = self.views.view(type(item))
            if what == "put":
                view.put(item)
            else:
                view.remove(_key(item))


class Client:
    """The part of a client that admission uses; answers after the replica may have caught up."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica

    async def get(self, target: type, name: str, namespace: str = "", **_: Any) -> Any:
        """An object, or 404."""
        found = self._replica.server.get(target, name, namespace)
        if found is None:
            raise ApiError(Status(code=404, message=f"{name} not found"))
        return found

    async def list(
        self, target: type, field_selector: str = "", namespace: str = "", **_: Any
    ) -> Any:
        """Objects of a name."""
        name = field_selector.removeprefix("metadata.name=")
        objects = self._replica.server.objects
        found = [
            each
            for (kind, _), each in objects.items()
            if kind is target
            and each.metadata.name == name
            and namespace in ("", each.metadata.namespace)
        ]
        return msgspec.defstruct("Found", [("items", list)])(found)

    async def patch(
        self, target: type, name: str, patch: Patch, namespace: str = "", **_: Any
    ) -> Any:
        """A merge patch of annotations that names the version it holds of."""
        replica, server = self._replica, self._replica.server
        meta = json.loads(patch.body)["metadata"]
        await server.pause()
        server.put_before_patch()
        found = await self.get(target, name, namespace)
        if found.metadata.resource_version != meta["resourceVersion"]:
            raise ApiError(Status(code=409, reason="Conflict", message="changed"))
        annotations = {**found.metadata.annotations, **meta["annotations"]}
        server.writes += 1
        stored = server.put(
            msgspec.structs.replace(
                found, metadata=msgspec.structs.replace(found.metadata, annotations=annotations)
            )
        )
        if replica.prompt:
            replica.catch_up()
        await server.pause()
        if server.lose_answers:
            server.lose_answers -= 1
            raise TransportError("cut")
        return stored


async def asked(handler: Any, given: AdmissionRequest) -> AdmissionDecision:
    """A handler's answer."""
    found = handler.admit(given)
    return found if isinstance(found, AdmissionDecision) else await found


def on_virtual_time(clock: VirtualClock, what: Callable[[], Any]) -> Any:
    """Runs a coroutine function on an event loop of virtual time."""
    with asyncio.Runner(loop_factory=lambda: VirtualLoop(clock)) as runner:
        return runner.run(what())


def _key(item: Any) -> str:
    meta = item.metadata
    return f"{meta.namespace}/{meta.name}" if meta.namespace else str(meta.name)
