# SPDX-License-Identifier: Apache-2.0
"""Options for tests of strategies."""

from __future__ import annotations

from koord.agent.feature_gates import feature_gates
from koord.base.feature_gates import FeatureGates


def gates(*on: str) -> FeatureGates:
    """The agent's gates with these switched on, all others as by default."""
    return feature_gates(",".join(f"{name}=true" for name in on))
