# SPDX-License-Identifier: Apache-2.0
"""The plain model of a profile applied to a pod that no profile has touched: step by step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def applied(
    spec: Mapping[str, Any], labels: dict[str, str], order: Sequence[str] | None = None
) -> dict[str, str]:
    """Labels after a profile (docs/reference/admission.md#effect-of-one-profile).

    Only for labels that do not end in their suffix.

    Args:
        spec: of the profile.
        labels: of the pod.
        order: the old keys of the mapping, in the order they are taken; by name without.
    """
    found = {**labels, **spec.get("labels", {})}
    mapping = spec.get("labelKeysMapping", {})
    for old in sorted(mapping) if order is None else order:
        found[mapping[old]] = found.get(old, "")
    for key, suffix in spec.get("labelSuffixes", {}).items():
        if key in found:
            found[key] = found[key] + suffix
    if "qosClass" in spec:
        found["koordinator.sh/qosClass"] = spec["qosClass"]
    if "koordinatorPriority" in spec:
        found["koordinator.sh/priority"] = str(spec["koordinatorPriority"])
    return found
