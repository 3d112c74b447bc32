# SPDX-License-Identifier: Apache-2.0
"""Answers ``/validate-pod``.

Rule: docs/reference/admission.md#validation-of-pods.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from koord.api.kinds.cluster import ConfigMap, Namespace
from koord.api.kinds.pod import Pod
from koord.api.kinds.quota import ElasticQuota
from koord.base import log
from koord.base.errors import KoordError
from koord.controllers.cluster.pod_quotas import PodQuotas
from koord.controllers.cluster.quota_reach import NamespaceReach
from koord.controllers.webhook.framework.admission_decision import (
    ALLOWED,
    AdmissionDecision,
    RuleEffect,
    denied,
)
from koord.controllers.webhook.framework.admission_request import Operation, ResourceName
from koord.controllers.webhook.options import NAMESPACE_SCOPE
from koord.controllers.webhook.pods.validation import enhanced_rules
from koord.controllers.webhook.pods.validation.pod_rules import PodRules, ValidationSwitches
from koord.controllers.webhook.pods.validation.pod_warnings import warnings

if TYPE_CHECKING:
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
        by_namespace = options.quota_scope == NAMESPACE_SCOPE
        reach = NamespaceReach(views.view(Namespace)) if by_namespace else None
        switches = ValidationSwitches(
            priority_may_change=gates.enabled("ColocationProfileSkipValidatingPriority"),
            parents_take_pods=gates.enabled("SupportParentQuotaSubmitPod"),
            quota_by_label_alone=gates.enabled("DisableDefaultQuota"),
            checks_devices=gates.enabled("ValidatePodDeviceResource"),
        )
        self._rules = PodRules(PodQuotas(views.view(ElasticQuota), reach), switches)
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

    def admit(self, request: AdmissionRequest) -> AdmissionDecision:
        """Whether a pod goes on.

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
            return replace(ALLOWED, warnings=told)
        effects = (RuleEffect(refusal.rule, "", str(error)) for error in refusal.errors)
        return replace(denied(refusal.errors), warnings=told, effects=tuple(effects))

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
