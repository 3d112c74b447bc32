# SPDX-License-Identifier: Apache-2.0
"""Answers ``/validate-pod``.

Rule: docs/reference/admission.md#validation-of-pods.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from koord.api.kinds.cluster import ConfigMap
from koord.api.kinds.pod import Pod
from koord.base import log
from koord.base.errors import KoordError
from koord.controllers.webhook.elasticquotas.quota_state import QuotaState
from koord.controllers.webhook.framework.admission_decision import (
    ALLOWED,
    AdmissionDecision,
    RuleEffect,
    denied,
)
from koord.controllers.webhook.framework.admission_request import Operation, ResourceName
from koord.controllers.webhook.pods.validation import enhanced_rules
from koord.controllers.webhook.pods.validation.pod_rules import PodRules, ValidationSwitches
from koord.controllers.webhook.pods.validation.pod_warnings import warnings
from koord.controllers.webhook.quota_admission import QuotaAdmission

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from koord.controllers.webhook.framework.admission_request import AdmissionRequest
    from koord.controllers.webhook.framework.handler import HandlerDependencies

_PODS = ResourceName("", "pods")
_LOG = log.get("webhook.pods")


class PodValidationHandler:
    """Refuses pods that admission must not let in.

    Args:
        dependencies: what it works with.
    """

    def __init__(self, dependencies: HandlerDependencies) -> None:
        gates, options, views = dependencies.gates, dependencies.options, dependencies.views
        switches = ValidationSwitches(
            priority_may_change=gates.enabled("ColocationProfileSkipValidatingPriority"),
            parents_take_pods=gates.enabled("SupportParentQuotaSubmitPod"),
            quota_by_label_alone=gates.enabled("DisableDefaultQuota"),
            checks_devices=gates.enabled("ValidatePodDeviceResource"),
        )
        self._rules = PodRules(QuotaState.of(dependencies).tree, switches)
        charges = gates.enabled("EnableQuotaAdmission")
        self._charges = QuotaAdmission(dependencies) if charges else None
        self._write_event = dependencies.write_event
        self._config_name = (
            options.pod_enhanced_validator_config_namespace,
            options.pod_enhanced_validator_config_name,
        )
        if gates.enabled("EnablePodEnhancedValidator"):
            views.view_of(ConfigMap, *self._config_name).on_change(
                self._configured,
                lambda _, config_map: self._configured(config_map),
                lambda gone, _: self._configured(gone, is_gone=True),
            )

    def admit(self, request: AdmissionRequest) -> AdmissionDecision | Awaitable[AdmissionDecision]:
        """Whether a pod goes on. It is charged last: what another rule refuses costs nothing.

        Raises:
            KoordError: a pod cannot be read.
        """
        if request.resource != _PODS:
            return ALLOWED
        if request.operation not in (Operation.CREATE, Operation.UPDATE):
            return ALLOWED
        pod = request.decode(Pod)
        pod.metadata.namespace = pod.metadata.namespace or request.namespace
        old = request.decode_old(Pod) if request.operation is Operation.UPDATE else None
        told = warnings(pod, old, request.requester.username, self._rules.quotas)
        refusal = self._rules.refusal(pod, old)
        if refusal is None:
            if self._charges is not None:
                return self._charged(pod, old, request, told)
            return replace(ALLOWED, warnings=told)
        effects = (RuleEffect(refusal.rule, "", str(error)) for error in refusal.errors)
        return replace(denied(refusal.errors), warnings=told, effects=tuple(effects))

    async def _charged(
        self, pod: Pod, old: Pod | None, request: AdmissionRequest, texts: tuple[str, ...]
    ) -> AdmissionDecision:
        assert self._charges is not None
        decision = await self._charges.admit(pod, old, request)
        effects = () if decision.allowed else (RuleEffect("quota-admission", "", decision.message),)
        return replace(decision, warnings=texts, effects=effects)

    def _configured(self, config_map: ConfigMap, *, is_gone: bool = False) -> None:
        """Rules that cannot be read leave the earlier ones in force."""
        meta = config_map.metadata
        if (meta.namespace, meta.name) != self._config_name:
            return
        rules = enhanced_rules.OFF
        try:
            if not is_gone:
                rules = enhanced_rules.read(config_map)
        except KoordError as error:
            _LOG.warning("rules are left as they were", extra=log.fields(error=str(error)))
            self._write_event(config_map, "Warning", "InvalidPodValidation", str(error))
            return
        self._rules = replace(self._rules, enhanced=rules)
