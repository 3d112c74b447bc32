# SPDX-License-Identifier: Apache-2.0
"""The plain model of a profile applied to a pod that no profile has touched: step by step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def applied(spec: Mapping[str, Any], labels: dict[str, str]) -> dict[str, str]:
    """Labels after a profile, as manager spec 10.2 lists the steps.

    Only for mappings that do not read what another mapping writes, and labels that do not end in
    their suffix: there the steps are unambiguous.
    """
    found = {**labels, **spec.get("labels", {})}
    for new, old in spec.get("labelKeysMapping", {}).items():
        found[new] = found.get(old, "")
    for key, suffix in spec.get("labelSuffixes", {}).items():
        if key in found:
            found[key] = found[key] + suffix
    if "qosClass" in spec:
        found["koordinator.sh/qosClass"] = spec["qosClass"]
    if "koordinatorPriority" in spec:
        found["koordinator.sh/priority"] = str(spec["koordinatorPriority"])
    return found
