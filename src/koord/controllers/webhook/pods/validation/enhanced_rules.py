# SPDX-License-Identifier: Apache-2.0
"""Labels that an operator wants on pods, by a ConfigMap.

Rule: docs/reference/admission.md#enhanced-validation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec import field

from koord.api.protocol import annotation, keys
from koord.api.wirestruct import WireStruct
from koord.base.errors import KoordError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from koord.api.kinds.cluster import ConfigMap
    from koord.api.kinds.pod import Pod

ENABLE, RULES = "enable", "rules"


class LabelRule(WireStruct):
    """One rule: labels that pods have to have, but for those of some namespaces."""

    name: str = ""
    required_labels: list[str] = field(default_factory=list)
    namespace_whitelist: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class EnhancedRules:
    """What the ConfigMap says.

    Attributes:
        enabled: whether the rules count.
        rules: in order.
    """

    enabled: bool = False
    rules: tuple[LabelRule, ...] = ()


OFF = EnhancedRules()


def read(config_map: ConfigMap) -> EnhancedRules:
    """The rules of a ConfigMap.

    Raises:
        KoordError: they cannot be read.
    """
    enabled = config_map.data.get(ENABLE, "").strip().lower() == "true"
    text = config_map.data.get(RULES)
    if text is None:
        return EnhancedRules(enabled)
    rules = annotation.parse(text, list[LabelRule], config_map.title, f"data[{RULES}]")
    return EnhancedRules(enabled, tuple(rules))


def label_problems(pod: Pod, rules: EnhancedRules) -> Iterator[KoordError]:
    """What a pod lacks by the first rule that it breaks.

    Args:
        pod: with its namespace.
        rules: in force.
    """
    labels = pod.metadata.labels
    if not rules.enabled or labels.get(keys.SKIP_ENHANCED_VALIDATION) == "true":
        return
    for rule in rules.rules:
        if pod.metadata.namespace and pod.metadata.namespace in rule.namespace_whitelist:
            continue
        missing = [key for key in rule.required_labels if key not in labels]
        if missing:
            expected = f"what rule {rule.name!r} of pod validation wants: {', '.join(missing)}"
            yield KoordError(pod.title, "labels", ", ".join(sorted(labels)) or None, expected)
            return
