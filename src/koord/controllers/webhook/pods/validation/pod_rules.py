# SPDX-License-Identifier: Apache-2.0
"""What admission refuses of a pod, in order: a function of plain values.

Rule: docs/reference/admission.md#validation-of-pods. The first rule that refuses ends it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from koord.api.protocol import admission
from koord.controllers.webhook.pods.validation import enhanced_rules, quota_membership
from koord.controllers.webhook.pods.validation.enhanced_rules import OFF, EnhancedRules

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from koord.api.kinds.pod import Pod
    from koord.base.errors import KoordError
    from koord.controllers.webhook.elasticquotas.quota_topology import QuotaTopology


@dataclass(frozen=True)
class ValidationSwitches:
    """Which rules are on.

    Attributes:
        priority_may_change: the label of the sub-priority is not fixed.
        parents_take_pods: pods may use a quota that has children.
        quota_by_label_alone: a pod's namespace chooses no quota.
        checks_devices: shares of GPUs are judged.
    """

    priority_may_change: bool = False
    parents_take_pods: bool = False
    quota_by_label_alone: bool = False
    checks_devices: bool = False


class RuleRefusal(NamedTuple):
    """What one rule refuses.

    Attributes:
        rule: a heading of the reference, in lower case with dashes.
        errors: all that it found.
    """

    rule: str
    errors: list[KoordError]


@dataclass(frozen=True)
class PodRules:
    """The rules, with what they go by.

    Attributes:
        quotas: that there are.
        switches: which rules are on.
        enhanced: labels that an operator wants.
    """

    quotas: QuotaTopology
    switches: ValidationSwitches = ValidationSwitches()
    enhanced: EnhancedRules = OFF

    def refusal(self, pod: Pod, old: Pod | None) -> RuleRefusal | None:
        """What the first rule that refuses says; None if none does.

        Args:
            pod: as it is to be, with its namespace.
            old: as it is; None for a new one.
        """
        rules: tuple[tuple[str, Callable[[Pod, Pod | None], Iterator[KoordError]]], ...] = (
            ("reserved-annotations", lambda pod, old: admission.reserved_problems(pod)),
            ("qos-class-priority-and-resources", self._classes),
            ("quota-membership", self._membership),
            ("device-resources", self._devices),
            ("enhanced-validation", self._labels),
        )
        for name, rule in rules:
            errors = list(rule(pod, old))
            if errors:
                return RuleRefusal(name, errors)
        return None

    def _classes(self, pod: Pod, old: Pod | None) -> Iterator[KoordError]:
        if old is not None:
            may_change = self.switches.priority_may_change
            yield from admission.change_problems(pod, old, priority_may_change=may_change)
        yield from admission.class_problems(pod)
        yield from admission.request_problems(pod)

    def _membership(self, pod: Pod, old: Pod | None) -> Iterator[KoordError]:
        changed = [] if old is None else list(quota_membership.preemptible_problems(pod, old))
        yield from changed
        if not changed and not self.switches.parents_take_pods:
            yield from quota_membership.parent_problems(
                pod, self.quotas, by_label_alone=self.switches.quota_by_label_alone
            )

    def _devices(self, pod: Pod, old: Pod | None) -> Iterator[KoordError]:
        return admission.device_problems(pod) if self.switches.checks_devices else iter(())

    def _labels(self, pod: Pod, old: Pod | None) -> Iterator[KoordError]:
        return enhanced_rules.label_problems(pod, self.enhanced)
