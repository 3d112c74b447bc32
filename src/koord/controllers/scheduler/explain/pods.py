# SPDX-License-Identifier: Apache-2.0
"""Finds a pod wherever the scheduler has it, and explains it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api.kinds.pod import Pod
from koord.base.errors import KoordError
from koord.controllers.scheduler.explain.answer import Explanation
from koord.controllers.scheduler.explain.whatif import explain

if TYPE_CHECKING:
    from koord.controllers.cluster.pods import PodInfo
    from koord.controllers.scheduler.explain.history import History
    from koord.controllers.scheduler.scheduler import Scheduler


class Explainer:
    """Explains pods of one scheduler.

    Args:
        scheduler: whose.
        history: an observer of its loop.
    """

    def __init__(self, scheduler: Scheduler, history: History) -> None:
        self._scheduler = scheduler
        self._history = history

    def pod(self, namespace: str, name: str) -> Explanation:
        """Everything about one pod, as of now.

        Raises:
            KoordError: there is no such pod, or it is not for this scheduler.
        """
        scheduler, title = self._scheduler, f"Pod {namespace}/{name}"
        found = scheduler.world.view(Pod).get(f"{namespace}/{name}")
        if found is None:
            raise KoordError(title, "metadata.name", name, "a pod that exists")
        profile = found.spec.scheduler_name
        decider = scheduler.deciders.get(profile)
        if decider is None:
            served = ", ".join(sorted(scheduler.deciders))
            raise KoordError(title, "spec.schedulerName", profile, f"one of {served}")
        uid = found.metadata.uid
        info = scheduler.world.accounts.get(uid)
        state = self._state(uid, info)
        info = info or self._waiting(uid) or scheduler.world.shapes.info(found)
        into = Explanation(f"{namespace}/{name}", state, self._history.since)
        into.node = scheduler.world.table.name(info.row) if info.row >= 0 else ""
        into.last = self._history.last(uid)
        return explain(decider, info, into)

    def _waiting(self, uid: str) -> PodInfo | None:
        queued = self._scheduler.queue.get(uid)
        found: PodInfo | None = queued.info if queued is not None else None
        return found

    def _state(self, uid: str, info: PodInfo | None) -> str:
        if info is not None:
            return "bound" if self._scheduler.feed.confirmed(uid) else "assumed"
        queued = self._scheduler.queue.get(uid)
        return queued.place.name.lower().replace("_", " ") if queued is not None else "unknown"
