# SPDX-License-Identifier: Apache-2.0
"""The last hour of a row: what was in force when, in bounded memory."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from koord.api.codec import to_json
from koord.controllers.manager.overcommit.explain.recent_offers import (
    KEPT_SECONDS,
    MOST_STEPS,
    OfferHistory,
)
from koord.controllers.manager.overcommit.state.overcommit_cache import OvercommitCache
from tests.controllers.manager.overcommit import objects
from tests.controllers.manager.overcommit.test_examples import NODE, cores
from tests.models import overcommit as model


def step(ledger: OvercommitCache, history: OfferHistory, system: int, now: float) -> None:
    case = replace(NODE, system=cores(system, 12))
    ledger.put_metric(objects.metric(case, now=now))
    history.add(ledger, ledger.recompute(now), now)


@given(moments=st.lists(st.tuples(st.integers(1, 400), st.integers(0, 20)), max_size=100))
def test_what_was_in_force(moments: list[tuple[int, int]]) -> None:
    ledger, history = OvercommitCache(), OfferHistory()
    objects.put(ledger, NODE)
    now = float(objects.NOW)
    steps: list[tuple[float, int]] = []
    for seconds, system in moments:
        now += seconds
        step(ledger, history, system, now)
        offer = model.batch(replace(NODE, system=cores(system, 12)))
        assert offer is not None
        if not steps or steps[-1][1] != offer[0]:
            steps.append((now, offer[0]))
    past = history.of(0, now)
    if not steps:
        assert past.since_seconds is None
        return
    kept = steps[-MOST_STEPS:]
    begin = now - KEPT_SECONDS
    in_force = [at for at, (moment, _) in enumerate(kept) if moment <= begin]
    kept = kept[in_force[-1] :] if in_force else kept
    assert [(each.seconds, each.batch_cpu_milli) for each in past.steps] == kept
    assert past.since_seconds == max(begin, kept[0][0])


def test_reasons_and_names() -> None:
    ledger, history = OvercommitCache(), OfferHistory()
    objects.put(ledger, NODE)
    history.add(ledger, ledger.recompute(objects.NOW), objects.NOW)
    late = objects.NOW + 1000.0
    history.add(ledger, ledger.recompute(late), late)
    assert [each.reason for each in history.of(0, late).steps] == ["", "expired"]
    assert b'"sinceSeconds"' in to_json(history.of(0, late))
    ledger.drop_node("n")
    ledger.drop_metric("n")
    for pod in NODE.pods:
        ledger.drop_pod(objects.pod(pod))
    history.add(ledger, ledger.recompute(late), late)
    assert ledger.row("n") is None
    objects.put(ledger, NODE, "other")
    history.add(ledger, ledger.recompute(objects.NOW), late)
    assert [each.reason for each in history.of(0, late).steps] == [""], "of the new name alone"


def test_nothing_is_known_of_a_row_that_never_changed() -> None:
    assert OfferHistory().of(3, 0).since_seconds is None
