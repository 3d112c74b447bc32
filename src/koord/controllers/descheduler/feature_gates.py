# SPDX-License-Identifier: Apache-2.0
"""The descheduler's feature gates, with the names and defaults of Koordinator's."""

from __future__ import annotations

from koord.base.feature_gates import FeatureGates, Gate, GateStage

WITHOUT_CLAIMS = "DisablePVCReservation"
_DOC = "Reservations of migrations have no volumes of claims"


def feature_gates(text: str = "") -> FeatureGates:
    """All gates at their defaults, changed by ``A=true,B=false``.

    Raises:
        KoordError: an unknown gate, or no such form.
    """
    gates = FeatureGates([Gate(WITHOUT_CLAIMS, False, GateStage.BETA, _DOC)])
    if text:
        gates.set_from(text)
    return gates
