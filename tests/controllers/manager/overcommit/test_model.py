# SPDX-License-Identifier: Apache-2.0
"""Every formula against the plain model, from typed objects through the ledger's columns."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import given

from koord.controllers.manager.overcommit.state.overcommit_cache import OvercommitCache
from tests.controllers.manager.overcommit.cases import nodes
from tests.controllers.manager.overcommit.objects import ledger, offered
from tests.models import overcommit as model


@given(case=nodes())
def test_offers(case: model.Node) -> None:
    found = ledger(case)
    assert offered(found, "batch") == model.batch(case)
    assert offered(found, "mid") == model.mid(case)
    assert zones(found) == model.zone_batch(case)


def zones(found: OvercommitCache) -> dict[int, tuple[Fraction, Fraction]]:
    if found.batch.degraded[0]:
        assert not found.zone_amounts[..., 0].any()
        return {}
    amounts = found.zone_amounts[..., 0].tolist()
    there = np.flatnonzero(found.zones.present[:, 0]).tolist()
    assert found.zone_amounts[:, there, 0].sum() == found.zone_amounts[..., 0].sum()
    return {
        number: (Fraction(amounts[0][number]), Fraction(amounts[1][number], 1000))
        for number in there
    }
