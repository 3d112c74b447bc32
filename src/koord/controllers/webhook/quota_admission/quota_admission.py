# SPDX-License-Identifier: Apache-2.0
"""Whether a pod's quota has room for it, as of now and for all replicas.

Rule: docs/reference/admission.md#quota-admission.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import TYPE_CHECKING

from msgspec.structs import replace

from koord.api.kinds.quota import ElasticQuota
from koord.api.protocol import quotas
from koord.api.transforms import with_replaced_resources
from koord.base.errors import KoordError
from koord.controllers.webhook.elasticquotas.quota_state import QuotaState
from koord.controllers.webhook.framework.admission_decision import ALLOWED, AdmissionDecision
from koord.controllers.webhook.framework.admission_request import Operation
from koord.controllers.webhook.quota_admission import charge_batch, charge_metrics
from koord.controllers.webhook.quota_admission.charge_batch import WaitingPod
from koord.controllers.webhook.quota_admission.charge_metrics import ChargeMetrics
from koord.controllers.webhook.quota_admission.quota_writer import QuotaWriter
from koord.controllers.webhook.quota_admission.written_quotas import WrittenQuotas

if TYPE_CHECKING:
    from koord.api.kinds.pod import Pod
    from koord.controllers.webhook.framework.admission_request import AdmissionRequest
    from koord.controllers.webhook.framework.handler import HandlerDependencies

TIMEOUT_SECONDS = 10.0
_LOOKUP_SECONDS = 1.0
_FREE = ("", quotas.DEFAULT_QUOTA, quotas.SYSTEM_QUOTA, quotas.ROOT_QUOTA)


class QuotaAdmission:
    """Charges pods; one for all validation of pods of a replica.

    Args:
        given: what handlers are made from.
    """

    def __init__(self, given: HandlerDependencies) -> None:
        self._state = QuotaState.of(given)
        self._client = given.client
        self._gates = given.gates
        self._clock = given.clock
        self._quotas = WrittenQuotas(given.client, given.views.view(ElasticQuota))
        self._metrics = ChargeMetrics(given.metrics)
        self._writer = QuotaWriter(
            given.client, self._quotas, given.options, given.clock, self._metrics
        )

    async def admit(
        self, pod: Pod, old_pod: Pod | None, request: AdmissionRequest
    ) -> AdmissionDecision:
        """Admits a pod and charges it, or refuses it; with a dry run it is only judged.

        Args:
            pod: as it is to be; without a namespace it is of the request's.
            old_pod: as it was; None on CREATE.
            request: about the pod.
        """
        name = self._charged_quota(pod, old_pod, request)
        if name in _FREE:
            return ALLOWED
        found = await self._find(name)
        if isinstance(found, str):
            return AdmissionDecision(False, HTTPStatus.BAD_REQUEST, found)
        if self._gates.enabled("ElasticQuotaEvaluationTransformPod") and self._gates.enabled(
            "ReplaceResourcesTransformer"
        ):
            pod = with_replaced_resources(pod)
        if self._gates.enabled("ElasticQuotaIgnorePodOverhead") and pod.spec.overhead:
            pod = replace(pod, spec=replace(pod.spec, overhead={}))
        key = f"{found.metadata.namespace}/{found.metadata.name}"
        answer: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        waiting = WaitingPod(pod, request.uid, answer)
        if request.dry_run:
            return _decision(self._judge(key, waiting))
        began, outcome = self._clock.monotonic_seconds(), charge_metrics.FAILED
        self._writer.add(key, waiting)
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                refusal = await answer
            outcome = charge_metrics.ADMITTED if refusal is None else charge_metrics.REFUSED
            return _decision(refusal)
        except TimeoutError:
            return _failed("elastic quota evaluation timed out")
        except RuntimeError as error:
            return _failed(str(error))
        finally:
            self._metrics.answered(outcome, self._clock.monotonic_seconds() - began)

    def _charged_quota(self, pod: Pod, old: Pod | None, request: AdmissionRequest) -> str:
        """The quota that a request is charged to; empty for none."""
        if not self._gates.enabled("EnableQuotaAdmission"):
            return ""
        name = self._quota_of(pod, request)
        if request.operation is Operation.CREATE:
            return name
        if request.operation is not Operation.UPDATE or old is None:
            return ""
        if not self._gates.enabled("EnableQuotaAdmissionOnUpdate"):
            return ""
        return "" if self._quota_of(old, request) == name else name

    def _quota_of(self, pod: Pod, request: AdmissionRequest) -> str:
        return self._state.tree.of_pod(
            pod.metadata.labels,
            pod.metadata.namespace or request.namespace,
            label_only=self._gates.enabled("DisableDefaultQuota"),
        )

    async def _find(self, name: str) -> ElasticQuota | str:
        """The one quota of a name, or why there is none."""
        found = list(self._state.tree.items(name))
        if not found:
            listed = await self._client.list(
                ElasticQuota,
                field_selector=f"metadata.name={name}",
                timeout_seconds=_LOOKUP_SECONDS,
            )
            found = listed.items
            for each in found:
                self._quotas.keep(f"{each.metadata.namespace}/{name}", each)
        if not found:
            return f"elastic quota {name} not found"
        return found[0] if len(found) == 1 else f"more than one elastic quota {name} found"

    def _judge(self, key: str, waiting: WaitingPod) -> str | None:
        quota = self._quotas.newest(key)
        if quota is None:
            return f"elastic quota {key} not found"
        decided = charge_batch.decide(quota, [waiting], self._clock.wall_seconds())
        if isinstance(decided, KoordError):
            return str(decided)
        return decided.refused[0][1] if decided.refused else None


def _decision(refusal: str | None) -> AdmissionDecision:
    if refusal is None:
        return ALLOWED
    return AdmissionDecision(False, HTTPStatus.FORBIDDEN, refusal)


def _failed(message: str) -> AdmissionDecision:
    return AdmissionDecision(False, HTTPStatus.INTERNAL_SERVER_ERROR, message)
