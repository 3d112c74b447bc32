# SPDX-License-Identifier: Apache-2.0
"""The shell of HorizontalPodAutoscalers: scales, pods and figures in, a number of pods out."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from koord.api.duration import Duration
from koord.base.documents import Document
from koord.controlplane.controllers.autoscaling import decision
from koord.controlplane.controllers.autoscaling.decision import (
    SCALER,
    MetricUsage,
    ScaleDecision,
    WorkloadScale,
)
from koord.controlplane.controllers.autoscaling.rate_limits import ScaleHistory
from koord.controlplane.controllers.autoscaling.replica_calculator import PodUsage, milli_of
from koord.controlplane.controllers.base.intervals import KeyInterval
from koord.controlplane.controllers.base.objects import POD, Owner, key_of, seconds_of
from koord.controlplane.controllers.base.plans import ObjectEvent
from koord.controlplane.controllers.workload.controllers import OwnerController
from koord.kernels.quantity import Quantity
from koord.kube.errors import ApiError, Status
from koord.kube.transport.messages import Request

if TYPE_CHECKING:
    from koord.api.kinds.pod import Pod
    from koord.api.kinds.registry import Kind
    from koord.controlplane.controllers.base.runtime import Runtime
    from koord.controlplane.controllers.base.views import KindView


SYNC_SECONDS = 15.0
_METRICS = "/apis/metrics.k8s.io/v1beta1/namespaces"
_CONFLICT_SECONDS = 1.0


class AutoscalerController(OwnerController):
    """Scales workloads by what their pods use."""

    def __init__(self, runtime: Runtime) -> None:
        super().__init__(runtime, SCALER, ())
        self._pods: KindView[Pod] = runtime.view(POD)
        self._histories: dict[str, ScaleHistory] = {}
        self._interval, self._look = KeyInterval(SYNC_SECONDS), KeyInterval(SYNC_SECONDS)
        self._looking = asyncio.Lock()
        self._kinds: dict[tuple[str, str], Kind] = {}  # by group and kind

    async def reconcile(self, key: str) -> float | None:
        """Looks at one scaler every 15 seconds."""
        owner = self.owners.get(key)
        if owner is None or owner.metadata.deletion_timestamp is not None:
            self._histories.pop(key, None)
            self._interval.forget(key)
            return None
        now = self.runtime.now
        wait = self._interval.begin(key, now)
        if wait is not None:
            return wait
        try:
            outcome = await self._decide(key, owner, now)
            for note in outcome.notes:
                self.runtime.record_event(owner, self.kind, note)
            await self.runtime.write_status(self.kind, owner, outcome.status)
        except ApiError as error:
            if error.reason != "Conflict":
                raise
            self._interval.forget(key)
            return _CONFLICT_SECONDS
        return SYNC_SECONDS

    async def _decide(self, key: str, owner: Owner, now: float) -> ScaleDecision:
        target, namespace = owner.spec.get("scaleTargetRef") or {}, owner.metadata.namespace
        name = target.get("name", "")
        try:
            kind = await self._kind_of(target)
            found = await self._scale(kind, name, namespace)
        except ApiError as error:
            return _failed(owner, "FailedGetScale", error.status.message, now)
        replicas = (found.get("spec") or {}).get("replicas", 0)
        selector = (found.get("status") or {}).get("selector", "")
        history = self._histories.setdefault(key, ScaleHistory())
        if rival := self._rival(owner):
            why = f"pods by selector {selector} are controlled by multiple HPAs: {rival}"
            return _inactive(owner, "AmbiguousSelector", why, now)
        if not selector:
            why = "the HPA target's scale is missing a selector"
            return _inactive(owner, "InvalidSelector", why, now)
        scale = await self._workload_scale(owner, replicas, selector)
        outcome = decision.decide(owner, scale, history, now)
        if outcome.replicas is None:
            return outcome
        try:
            await self.runtime.client.set_scale(kind, name, outcome.replicas, namespace)
        except ApiError as error:
            why = error.status.message
            said = f"New size: {outcome.replicas}; reason: {outcome.reason}; error: {why}"
            failed = f"the HPA controller was unable to update the target scale: {why}"
            outcome.condition("AbleToScale", False, "FailedUpdateScale", failed, now)
            outcome.notes.append(ObjectEvent("FailedRescale", said, "Warning"))
            outcome.status["desiredReplicas"] = owner.status.get("desiredReplicas", 0)
            return outcome
        decision.scaled(outcome, replicas, history, now)
        return outcome

    async def _kind_of(self, target: Document) -> Kind:
        """How a scale target is served.

        Raises:
            ApiError: 404, it is not.
        """
        version, name = target.get("apiVersion", ""), target.get("kind", "")
        group = version.rpartition("/")[0]
        if (group, name) not in self._kinds:
            await self._discover()
        if (kind := self._kinds.get((group, name))) is not None:
            return kind
        message = f'no matches for kind "{name}" in group "{group}"'
        raise ApiError(Status(code=404, reason="NotFound", message=message))

    async def _discover(self) -> None:
        """However many ask for what nobody serves, the server is asked as often as for one."""
        async with self._looking:
            if self._look.begin("", self.runtime.now) is not None:
                return
            served = await self.runtime.client.discover()
            self._kinds = {}
            for each in served:
                self._kinds.setdefault((each.kind.group, each.kind.name), each.kind)

    async def _scale(self, kind: Kind, name: str, namespace: str) -> Document:
        path = "/".join(("/apis", kind.api_version) if kind.group else ("/api", kind.version))
        where = f"{path}/namespaces/{namespace}/{kind.plural}/{name}/scale"
        answer = await self.runtime.client.request(Request("GET", where))
        found: Document = msgspec.json.decode(answer.body)
        return found

    def _rival(self, owner: Owner) -> str:
        """The names of all scalers of this one's workload, if there are several."""
        target = owner.spec.get("scaleTargetRef") or {}
        mine = [
            each
            for each in self.owners.by_index("namespace", owner.metadata.namespace)
            if _same(each.spec.get("scaleTargetRef") or {}, target)
        ]
        names = sorted(key_of(each.metadata) for each in mine)
        return f"[{' '.join(names)}]" if len(names) > 1 else ""

    async def _workload_scale(self, owner: Owner, replicas: int, selector: str) -> WorkloadScale:
        """The pods of a workload and what they use; figures only of what is asked for."""
        wanted = {
            (target.resource, target.container)
            for _, target, _ in decision.targets(owner)
            if target is not None
        }
        namespace = owner.metadata.namespace
        query = (("labelSelector", selector),)
        path = f"{_METRICS}/{namespace}/pods"
        try:
            answer = await self.runtime.client.request(Request("GET", path, query))
            items: list[Document] = msgspec.json.decode(answer.body).get("items") or []
        except ApiError as error:
            if error.http_status != 404:
                raise
            items = []  # There is no metrics API.
        figures: MetricUsage = {each: _figures(items, *each) for each in wanted}
        listed = await self.runtime.client.list(POD, namespace=namespace, label_selector=selector)
        names = [item["metadata"]["name"] for item in listed.items]
        known = (self._pods.get(f"{namespace}/{name}") for name in names)
        return WorkloadScale(replicas, [pod for pod in known if pod is not None], figures)

    def _changed(self, before: Owner | None, after: Owner | None) -> None:
        # What it writes itself into the status is no reason to look again.
        if before is None or after is None or before.spec != after.spec:
            super()._changed(before, after)


def _figures(items: list[Document], resource: str, container: str) -> dict[str, PodUsage]:
    """What pods use of a resource, those left out that do not say so."""
    found = {}
    for item in items:
        total, complete = 0, False
        for each in item.get("containers") or ():
            if container and each.get("name") != container:
                continue
            amount = (each.get("usage") or {}).get(resource)
            complete = amount is not None
            if amount is None:
                break
            total += milli_of(Quantity.parse(amount))
        if complete:
            window = Duration.parse(item.get("window", "0s")).seconds
            time = seconds_of(item.get("timestamp"))
            found[item["metadata"]["name"]] = PodUsage(total, time, window)
    return found


def _failed(owner: Owner, reason: str, message: str, now: float) -> ScaleDecision:
    outcome = decision.begun(owner)
    said = f"the HPA controller was unable to get the target's current scale: {message}"
    outcome.condition("AbleToScale", False, reason, said, now)
    outcome.notes.append(ObjectEvent(reason, message, "Warning"))
    return outcome


def _inactive(owner: Owner, reason: str, message: str, now: float) -> ScaleDecision:
    outcome = decision.begun(owner)
    said = "the HPA controller was able to get the target's current scale"
    outcome.condition("AbleToScale", True, "SucceededGetScale", said, now)
    outcome.condition("ScalingActive", False, reason, message, now)
    outcome.notes.append(ObjectEvent(reason, message, "Warning"))
    return outcome


def _same(left: Document, right: Document) -> bool:
    groups = [each.get("apiVersion", "").rpartition("/")[0] for each in (left, right)]
    names = [(each.get("kind"), each.get("name")) for each in (left, right)]
    return groups[0] == groups[1] and names[0] == names[1]
