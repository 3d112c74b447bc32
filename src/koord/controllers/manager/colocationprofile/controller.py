# SPDX-License-Identifier: Apache-2.0
"""The controller ``colocationprofile``: rounds over the pods that wait.

Rule: docs/reference/admission.md#profiles-on-pods-that-wait. Behind the gate
ColocationProfileController. Which pods and what is done to them:
:mod:`koord.controllers.cluster.colocation_profiles`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from koord.api.kinds.cluster import Namespace
from koord.api.kinds.meta import Object
from koord.api.kinds.pod import Pod
from koord.api.kinds.profile import ClusterColocationProfile
from koord.api.kinds.registry import kind_of_type
from koord.api.protocol import keys
from koord.base import faults, log
from koord.base.errors import KoordError, one_line
from koord.controllers.cluster.colocation_profiles import effect, selection
from koord.controllers.cluster.colocation_profiles.profile_conditions import ProfileConditions
from koord.kube.controller import Controller
from koord.kube.errors import ApiError, TransportError
from koord.kube.patches import Patch, preconditions_of
from koord.kube.requests.rate_limiter import RateLimiter

if TYPE_CHECKING:
    from koord.controllers.manager.dependencies import ControllerDependencies

GATE = "ColocationProfileController"
_LOG = log.get("manager.colocationprofile")
_NOT_FOUND, _CONFLICT = 404, 409
_UNUSABLE = (400, 422)
_CONDITIONS = "conditions of profiles"
_NO_WAIT = 1e-9


class ColocationProfiles:
    """The controller.

    Args:
        around: its world.
    """

    def __init__(self, dependencies: ControllerDependencies) -> None:
        self._dependencies = dependencies
        self._enabled = dependencies.gates.enabled(GATE)
        if not self._enabled:
            return
        options = dependencies.options
        self._profiles = dependencies.views.view(ClusterColocationProfile)
        self._namespaces = dependencies.views.view(Namespace)
        self._pods = dependencies.views.view(Pod)
        self._waiting: dict[str, Pod] = {}
        self._tokens = RateLimiter(
            options.colocation_profile_update_pod_qps,
            options.colocation_profile_update_pod_qps_burst,
        )
        self._done = UpdatedPods(
            options.colocation_profile_force_update_pod_duration,
            options.colocation_profile_expire_pod_cache_duration,
        )
        self._controller = Controller(
            "colocationprofile",
            self._reconcile,
            metrics=dependencies.metrics.queues,
            supervisor=dependencies.supervisor,
        )
        self._conditions = ProfileConditions(
            dependencies.client, dependencies.clock, dependencies.supervisor,
            dependencies.write_event, _CONDITIONS,
        )  # fmt: skip
        self._attached = False

    async def run(self) -> None:
        """Works until cancelled."""
        if not self._enabled:
            await asyncio.Event().wait()
        if not self._attached:
            self._attached = True
            self._attach()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._dependencies.supervisor.keep(_CONDITIONS, self._conditions.run))
            await self._controller.run()

    def _attach(self) -> None:
        self._pods.on_change(
            self._seen, lambda old, new: self._seen(new), lambda last, unknown: self._gone(last)
        )
        self._profiles.on_change(
            lambda new: self._controller.queue.add(new.metadata.name),
            lambda old, new: self._controller.queue.add(new.metadata.name),
            lambda gone, _: self._conditions.forget(gone.metadata.name),
        )

    def _seen(self, pod: Pod) -> None:
        if pod.spec.node_name or pod.status.phase != "Pending":
            self._gone(pod)
        else:
            self._waiting[pod.title] = pod

    def _gone(self, pod: Pod) -> None:
        self._waiting.pop(pod.title, None)

    async def _reconcile(self, name: str) -> float | None:
        profile = self._profiles.get(name)
        if profile is None or not self._is_handled(profile):
            return None
        try:
            selection.check(profile)
        except KoordError as error:
            self._conditions.report(profile, error)
        else:
            self._conditions.mark(profile, None)
            await self._round(profile, selection.percent(profile))
        return self._dependencies.options.colocation_profile_reconcile_interval

    def _is_handled(self, profile: ClusterColocationProfile) -> bool:
        meta = profile.metadata
        return meta.deletion_timestamp is None and (
            self._dependencies.options.colocation_profile_reconcile_by_default
            or meta.labels.get(keys.CONTROLLER_MANAGED) == "true"
        )

    async def _round(self, profile: ClusterColocationProfile, share: int) -> None:
        """Looks at all pods that wait, those first that come first by name."""
        for _, pod in sorted(self._waiting.items()):
            meta = pod.metadata
            wants = (
                meta.deletion_timestamp is None
                and selection.is_selected(
                    profile.spec, meta.labels, self._namespaces.get(meta.namespace)
                )
                and selection.is_in_share(profile, meta, share)
            )
            key = f"{profile.metadata.resource_version}/{meta.uid}"
            now = self._dependencies.clock.monotonic_seconds()
            if not wants or self._done.has(key, now):
                continue
            change = effect.change(profile.spec, meta)
            if change and await self._tokens.acquire(_NO_WAIT) is None:
                return
            if not change or await self._write(profile, pod, change):
                self._done.add(key, now)

    async def _write(
        self, profile: ClusterColocationProfile, pod: Pod, change: dict[str, Any]
    ) -> bool:
        meta = pod.metadata
        patch = Patch.strategic(effect.merged(change, {"metadata": preconditions_of(meta)}))
        try:
            faults.point("manager.colocationprofile.write")
            await self._dependencies.client.patch(
                Object, meta.name, patch, meta.namespace, kind=kind_of_type(Pod)
            )
        except (ApiError, TransportError) as error:
            if isinstance(error, ApiError) and error.http_status in (_NOT_FOUND, _CONFLICT):
                # Bound, changed or gone meanwhile: the next round sees it.
                return False
            reason = one_line(str(error))
            told = log.fields(profile=profile.metadata.name, pod=pod.title, error=reason)
            _LOG.warning("a pod is not changed", extra=told)
            text = f"ClusterColocationProfile {profile.metadata.name} is not applied: {reason}"
            self._dependencies.write_event(pod, "Warning", "ColocationProfileFailed", text)
            if isinstance(error, ApiError) and error.http_status in _UNUSABLE:
                self._check_patch(profile)
            return False
        return True

    def _check_patch(self, profile: ClusterColocationProfile) -> None:
        """Tells a profile whose patch fits no pod from a pod that cannot be changed so."""
        try:
            effect.check_patch(profile)
        except KoordError as error:
            self._conditions.report(profile, error)


class UpdatedPods:
    """Which pods a profile has been through with, for a while.

    Args:
        ttl_seconds: how long that holds.
        purge_seconds: between two looks for what holds no longer.
    """

    def __init__(self, ttl_seconds: float, purge_seconds: float) -> None:
        self._ttl_seconds = ttl_seconds
        self._purge_seconds = purge_seconds
        self._until: dict[str, float] = {}
        self._purged = 0.0

    def __len__(self) -> int:
        return len(self._until)

    def has(self, key: str, now: float) -> bool:
        """Whether it holds."""
        return self._until.get(key, now) > now

    def add(self, key: str, now: float) -> None:
        """Makes it hold from now on."""
        if now - self._purged >= self._purge_seconds:
            self._purged = now
            self._until = {key: until for key, until in self._until.items() if until > now}
        self._until[key] = now + self._ttl_seconds
