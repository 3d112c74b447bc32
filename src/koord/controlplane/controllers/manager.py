# SPDX-License-Identifier: Apache-2.0
"""The built-in controllers together."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from koord.base.errors import KoordError
from koord.controlplane.controllers.autoscaling.controller import AutoscalerController
from koord.controlplane.controllers.base.runtime import Recorder, Runtime
from koord.controlplane.controllers.cron.controller import CronJobController
from koord.controlplane.controllers.endpoints.controller import EndpointsController
from koord.controlplane.controllers.gc.collector import GarbageCollector
from koord.controlplane.controllers.namespaces import NamespaceController, ServiceAccountController
from koord.controlplane.controllers.node.controllers import (
    NodeLifecycleController,
    PodGarbageCollector,
)
from koord.controlplane.controllers.plain_binder.controller import DEFAULT_SCHEDULER, PlainBinder
from koord.controlplane.controllers.resource_quotas import ResourceQuotaController
from koord.controlplane.controllers.volume.controller import VolumeBinder
from koord.controlplane.controllers.workload.controllers import WORKLOADS
from koord.kube.events import EventRecorder

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Coroutine, Mapping

    from koord.base.clock import Clock
    from koord.kube.client import Client
    from koord.kube.controller import Controller


_COMPONENT = "koord-controllers"


class BuiltinController(Protocol):
    """A controller by its name: what makes it."""

    controller: Controller[str]


NAMES = (
    *WORKLOADS,
    "cronjob",
    "endpoints",
    "nodelifecycle",
    "podgc",
    "garbage",
    "namespace",
    "serviceaccount",
    "volumes",
    "resourcequota",
    "autoscaler",
    "binder",
)


class BuiltinControllers:
    """What kube-controller-manager and a scheduler do, as far as koord needs it.

    They stand on :mod:`koord.kube` alone, so that they run against any API server.

    Args:
        client: the way to the API server; without a rate limit where it is in process.
        clock: wall time of conditions and deadlines; all waiting is the event loop's.
        which: names out of :data:`NAMES`; None for all.
        schedulers: scheduler names that the binder serves.
        config_maps: by name, the data of ConfigMaps that every namespace gets.
        recorder: where events go; None for a recorder of their own.

    Raises:
        KoordError: ``which`` holds an unknown name.
    """

    def __init__(
        self,
        client: Client,
        clock: Clock,
        which: Collection[str] | None = None,
        *,
        schedulers: Collection[str] = (DEFAULT_SCHEDULER,),
        config_maps: Mapping[str, Mapping[str, str]] | None = None,
        recorder: Recorder | None = None,
    ) -> None:
        for name in which or ():
            if name not in NAMES:
                raise KoordError("controllers", "", name, "one of " + ", ".join(NAMES))
        self.names = tuple(name for name in NAMES if which is None or name in which)
        self._events = None if recorder else EventRecorder(client, _COMPONENT, clock=clock)
        told = recorder or self._events
        assert told is not None, "one of the two"
        self.runtime = Runtime(client, clock, told)
        self._schedulers = schedulers
        self._config_maps = config_maps
        self._tasks: list[asyncio.Task[None]] = []
        self._parts: dict[str, BuiltinController] = {}

    async def start(self) -> None:
        """Starts the chosen controllers; returns once they know the cluster."""
        self._parts = {name: self._make(name) for name in self.names}
        if self._events is not None:
            self._begin(self._events.run(), "events")
        self._begin(self.runtime.run(), "informers")
        await self.runtime.synced()
        for name, part in self._parts.items():
            self._begin(part.controller.run(), name)
            if isinstance(part, GarbageCollector):
                self._begin(part.follow_discovery(), "garbage discovery")
            elif isinstance(part, PodGarbageCollector):
                part.begin()

    async def stop(self) -> None:
        """Ends all; what is under way is cut off and found again at the next start."""
        # The last to go is the recorder, which still writes what the others have said.
        for task in reversed(self._tasks):
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        self._tasks.clear()
        for part in self._parts.values():
            part.controller.queue.shut_down()
            if isinstance(part, PlainBinder):
                part.close()

    async def run(self) -> None:
        """Starts, and stops when cancelled."""
        try:
            await self.start()
            await asyncio.Event().wait()
        finally:
            await self.stop()

    async def __aenter__(self) -> BuiltinControllers:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def _begin(self, work: Coroutine[Any, Any, None], name: str) -> None:
        self._tasks.append(asyncio.create_task(work, name=name))

    def _make(self, name: str) -> BuiltinController:
        makers: dict[str, Callable[[Runtime], BuiltinController]] = {
            **WORKLOADS,
            "cronjob": CronJobController,
            "endpoints": EndpointsController,
            "nodelifecycle": NodeLifecycleController,
            "podgc": PodGarbageCollector,
            "garbage": GarbageCollector,
            "namespace": NamespaceController,
            "serviceaccount": lambda runtime: ServiceAccountController(runtime, self._config_maps),
            "volumes": VolumeBinder,
            "resourcequota": ResourceQuotaController,
            "autoscaler": AutoscalerController,
            "binder": lambda runtime: PlainBinder(runtime, self._schedulers),
        }
        return makers[name](self.runtime)
