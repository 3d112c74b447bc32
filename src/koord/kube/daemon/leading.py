# SPDX-License-Identifier: Apache-2.0
"""The life of a program of controllers: it follows all objects, and works while it leads."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Protocol

from koord.kube.daemon.missing_kinds import log_missing_kinds

if TYPE_CHECKING:
    import logging
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from koord.base.supervision import Supervisor
    from koord.kube.election import LeaderElector
    from koord.kube.informers.informer import Informer


class FollowedObjects(Protocol):
    """The informers of a program."""

    async def run(self) -> None:
        """Follows until cancelled."""
        ...

    async def synced(self) -> None:
        """Waits until all objects are known."""
        ...

    def informers(self) -> Iterable[Informer[Any]]:
        """All of them."""
        ...


async def work_while_leading(
    followed: FollowedObjects,
    elector: LeaderElector | None,
    work: Callable[[], Awaitable[object]],
    supervisor: Supervisor,
    ready: asyncio.Event,
    logger: logging.Logger,
    without: Mapping[str, str],
) -> None:
    """Follows the cluster whether or not this process leads; works once it does.

    Args:
        followed: kept going by the supervisor.
        elector: where several run; None leads at once.
        work: what the leader does; the end of it is the end of all.
        supervisor: of the program's parts.
        ready: set once all objects are known.
        logger, without: as for :func:`log_missing_kinds`.

    Raises:
        LeadLostError: another process may lead; this one must begin anew.
    """
    async with asyncio.TaskGroup() as tasks:
        informers = tasks.create_task(supervisor.keep("informers", followed.run), name="informers")
        await followed.synced()
        await log_missing_kinds(logger, followed.informers(), without)
        ready.set()
        if elector is None:
            await work()
        else:
            await elector.lead(work)
        informers.cancel()
