# SPDX-License-Identifier: Apache-2.0
"""The descheduler's feature gates, with the names and defaults of Koordinator's."""

from __future__ import annotations

from koord.base.feature_gates import FeatureGates, GateStage, unused

_NO_VOLUMES = "a Reservation names the volumes of its pod"


def feature_gates(text: str = "") -> FeatureGates:
    """All gates at their defaults, changed by ``A=true,B=false``.

    Raises:
        KoordError: an unknown gate, or no such form.
    """
    gates = FeatureGates([unused("DisablePVCReservation", False, GateStage.BETA, _NO_VOLUMES)])
    if text:
        gates.set_from(text)
    return gates
