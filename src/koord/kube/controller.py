# SPDX-License-Identifier: Apache-2.0
"""Workers over a queue: bring one object at a time to where it should be."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable
from typing import TYPE_CHECKING, Generic, TypeVar

from koord.base import faults, log
from koord.base.errors import one_line
from koord.base.metrics import MetricRegistry, registry
from koord.base.supervision import Supervisor
from koord.kube.errors import PodRefusalError
from koord.kube.workqueue import QueueMetrics, ShutDown, WorkQueue

if TYPE_CHECKING:
    from koord.base.metrics import Metric

K = TypeVar("K", bound=Hashable)

# In a row; tries of one key have by then gone on for two seconds.
_ALARMING_FAILURES = 9

Reconcile = Callable[[K], Awaitable[float | None]]


class TerminalError(Exception):
    """Trying again would not help: the key waits for its next change."""


class ControllerMetrics:
    """The metrics of all controllers of a component.

    Args:
        metrics: where they are kept; by default nowhere that is exposed.
    """

    def __init__(self, metrics: MetricRegistry | None = None) -> None:
        into = metrics or registry()
        self.queues = QueueMetrics(into)
        self.runs: Metric = into.counter(
            "koord_controller_reconciles_total", "Keys worked on.", ("controller", "result")
        )


class Controller(Generic[K]):
    """Takes keys from a queue and reconciles each, several at a time but one key only once.

    Args:
        name: in logs and metrics.
        reconcile: brings what the key names to where it should be. Returns after how many seconds
            the key is to come back, or None for not before something changes. An exception brings
            the key back after its back-off, a :class:`TerminalError` does not.
        workers: keys worked on at a time.
        metrics: shared by the controllers of a component.
        supervisor: of the component; keeps the workers going.
    """

    def __init__(
        self,
        name: str,
        reconcile: Reconcile[K],
        *,
        workers: int = 1,
        metrics: ControllerMetrics | None = None,
        supervisor: Supervisor | None = None,
    ) -> None:
        if workers < 1:
            raise ValueError(f"workers: got {workers}, expected at least 1")
        metrics = metrics or ControllerMetrics()
        self.name = name
        self.queue: WorkQueue[K] = WorkQueue(name, metrics=metrics.queues)
        self._reconcile = reconcile
        self._workers = workers
        self._runs = metrics.runs
        # Looking up a child by its labels costs more than counting.
        self._children: dict[str, Metric] = {}
        self._supervisor = supervisor or Supervisor(name)
        self._log = log.get(f"controller.{name}")

    async def run(self) -> None:
        """Works until cancelled, or until the queue is shut down and empty.

        Cancelling it cancels the reconciles in progress; :meth:`stop` lets them end.
        """
        async with asyncio.TaskGroup() as tasks:
            for number in range(self._workers):
                working = self._supervisor.keep(f"{self.name} workers", self._work)
                tasks.create_task(working, name=f"{self.name}-{number}")

    async def stop(self) -> None:
        """Takes no more keys and waits until those waiting or in progress are done."""
        await self.queue.drain()

    async def _work(self) -> None:
        while True:
            try:
                key = await self.queue.get()
            except ShutDown:
                return
            try:
                await self._one(key)
            except Exception:
                self.queue.add_rate_limited(key)
                raise
            finally:
                self.queue.done(key)

    async def _one(self, key: K) -> None:
        try:
            faults.point("kube.controller.reconcile")
            again = await self._reconcile(key)
        except TerminalError as error:
            self._failed(key, error, "given up")
            self.queue.forget(key)
        except Exception as error:
            # A reconcile that fails must not take the others with it, whatever it fails of.
            self._failed(key, error, "failed")
            self.queue.add_rate_limited(key)
        else:
            self._count("requeued" if again is not None else "done")
            self.queue.forget(key)
            if again is not None:
                self.queue.add_after(key, again)

    def _count(self, result: str) -> None:
        child = self._children.get(result)
        if child is None:
            child = self._children[result] = self._runs.labels(self.name, result)
        child.inc()

    def _failed(self, key: K, error: Exception, result: str) -> None:
        self._count(result)
        failures = self.queue.num_requeues(key) + 1
        told = log.fields(
            controller=self.name,
            key=key,
            error=one_line(str(error)) or type(error).__name__,
            type=type(error).__name__,
            failures=failures,
        )
        # What the next try mends, such as a conflict, is nothing to be alarmed at, nor is what a
        # quota keeps out; what no try mends is told once, and counted from there.
        alarming = result != "failed" or failures == _ALARMING_FAILURES
        alarming = alarming and not isinstance(error, PodRefusalError)
        level = logging.ERROR if alarming else logging.INFO
        self._log.log(level, f"reconcile {result}", extra=told)
        self._log.debug("where it failed", exc_info=error, extra=log.fields(key=key))
