# SPDX-License-Identifier: Apache-2.0
"""Who may bind pods, while one scheduler takes over from another.

Rule: docs/reference/admission.md#pod-binding.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from koord.api.kinds.pod import Pod
from koord.base.errors import KoordError
from koord.controllers.webhook.framework.admission_decision import (
    ALLOWED,
    AdmissionDecision,
    RuleEffect,
    denied,
)
from koord.controllers.webhook.framework.admission_request import Operation, ResourceName
from koord.controllers.webhook.options import ANY_NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Collection

    from koord.base.feature_gates import FeatureGates
    from koord.controllers.webhook.framework.admission_request import AdmissionRequest
    from koord.controllers.webhook.framework.handler import HandlerDependencies
    from koord.controllers.webhook.options import WebhookOptions

BINDINGS = ResourceName("", "pods", "binding")
RULE = "pod-binding"
GATE = "BindingAdmissionWebhook"


class BindingVerdict(StrEnum):
    """How it was decided, in the original's words."""

    OFF = "off"
    USER_NAME = "allowed_username"
    EXCLUDED = "excluded_ns"
    OUT_OF_SCOPE = "out_of_scope"
    UNKNOWN_POD = "unknown_pod"
    LABEL = "bypass_label"
    ANNOTATION = "bypass_annotation"
    DRY_RUN = "dry_run"
    DENIED = "denied"


_UNCOUNTED = (BindingVerdict.OFF, BindingVerdict.UNKNOWN_POD)


@dataclass(frozen=True)
class BindingRules:
    """The flags, taken apart.

    Attributes:
        user_names: parts of the names of those who may bind; empty for everybody.
        namespaces: where bindings are judged; None everywhere.
        excluded: where they are not.
        labels: of pods that everybody may bind.
        annotations: of pods that everybody may bind.
        is_dry_run: nothing is refused.
    """

    user_names: tuple[str, ...]
    namespaces: frozenset[str] | None
    excluded: frozenset[str]
    labels: frozenset[str]
    annotations: frozenset[str]
    is_dry_run: bool

    @classmethod
    def of(cls, options: WebhookOptions) -> BindingRules:
        """The rules of flags."""
        given = options.binding_admission_namespaces
        return cls(
            tuple(_items(options.binding_admission_user_name)),
            None if given == ANY_NAMESPACE else frozenset(_items(given)),
            frozenset(_items(options.binding_admission_exclude_namespaces)),
            frozenset(_items(options.binding_admission_bypass_labels)),
            frozenset(_items(options.binding_admission_bypass_annotations)),
            options.binding_admission_dry_run,
        )

    def verdict(self, username: str, namespace: str, pod: Pod | None) -> BindingVerdict:
        """Whether a user may bind a pod, and why: what applies first decides.

        Args:
            username: who binds.
            namespace: of the pod.
            pod: None where it is not known.
        """
        if not self.user_names:
            return BindingVerdict.OFF
        if any(name in username for name in self.user_names):
            return BindingVerdict.USER_NAME
        if namespace in self.excluded:
            return BindingVerdict.EXCLUDED
        if self.namespaces is not None and namespace not in self.namespaces:
            return BindingVerdict.OUT_OF_SCOPE
        if pod is None:
            return BindingVerdict.UNKNOWN_POD
        if _has_any(pod.metadata.labels, self.labels):
            return BindingVerdict.LABEL
        if _has_any(pod.metadata.annotations, self.annotations):
            return BindingVerdict.ANNOTATION
        return BindingVerdict.DRY_RUN if self.is_dry_run else BindingVerdict.DENIED


def judges(gates: FeatureGates, options: WebhookOptions) -> bool:
    """Whether any binding can be refused, or counted."""
    return gates.enabled(GATE) and bool(BindingRules.of(options).user_names)


class BindingHandler:
    """Answers ``/validate-pod-binding``.

    Args:
        dependencies: what it works with.
    """

    def __init__(self, dependencies: HandlerDependencies) -> None:
        self._rules = BindingRules.of(dependencies.options)
        on = judges(dependencies.gates, dependencies.options)
        self._pods = dependencies.views.view(Pod) if on else None
        self._decisions = dependencies.metrics.counter(
            "koord_manager_webhook_binding_admission_decisions_total",
            "Number of decisions of pod binding admission.", ("decision",),
        )  # fmt: skip

    def admit(self, request: AdmissionRequest) -> AdmissionDecision:
        """Whether a binding goes on."""
        is_ours = request.resource == BINDINGS and request.operation is Operation.CREATE
        if self._pods is None or not is_ours:
            return ALLOWED
        username = request.requester.username
        pod = self._pods.get(f"{request.namespace}/{request.name}")
        verdict = self._rules.verdict(username, request.namespace, pod)
        if verdict not in _UNCOUNTED:
            self._decisions.labels(verdict).inc()
        effects = (RuleEffect(RULE, "", verdict),)
        if verdict is not BindingVerdict.DENIED:
            return AdmissionDecision(effects=effects)
        expected = f"one with {' or '.join(self._rules.user_names)} in the name to bind it"
        title = f"Pod {request.namespace}/{request.name}"
        refusal = denied([KoordError(title, "user", username, expected)])
        return AdmissionDecision(False, refusal.status, refusal.message, effects=effects)


def _items(text: str) -> list[str]:
    return [item for part in text.split(",") if (item := part.strip())]


def _has_any(mapping: dict[str, str], keys: Collection[str]) -> bool:
    return any(key in mapping for key in keys)
