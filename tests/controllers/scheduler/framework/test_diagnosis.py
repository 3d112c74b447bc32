# SPDX-License-Identifier: Apache-2.0
"""How what several PostFilter plugins say becomes one text."""

from __future__ import annotations

import pytest

from koord.controllers.scheduler.framework.diagnosis import Diagnosis, joined
from koord.controllers.scheduler.framework.rejection import Rejection

NO_VICTIMS = "0/2 nodes are available: 2 No preemption victims found for incoming pod."


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ([], ""),
        ([f"preemption: {NO_VICTIMS}"], f"preemption: {NO_VICTIMS}"),
        ([f"preemption: {NO_VICTIMS}"] * 3, f"preemption: {NO_VICTIMS}"),
        (
            ["preemption: no potential victims", f"preemption: {NO_VICTIMS}"],
            f"preemption: no potential victims, {NO_VICTIMS}",
        ),
        (
            ["1 Reservation(s) matched owner total", f"preemption: {NO_VICTIMS}"],
            f"1 Reservation(s) matched owner total, preemption: {NO_VICTIMS}",
        ),
        (
            [f"preemption: {NO_VICTIMS}", "1 Reservation(s) matched owner total"],
            f"preemption: {NO_VICTIMS} 1 Reservation(s) matched owner total",
        ),
    ],
)
def test_nothing_is_said_twice_and_parts_are_apart(said: list[str], text: str) -> None:
    assert joined(said) == text


def test_the_whole_of_it() -> None:
    refused = {row: Rejection("NodeResourcesFit", ("Insufficient cpu",)) for row in range(2)}
    said = ["1 Reservation(s) matched owner total", f"preemption: {NO_VICTIMS}"]
    assert Diagnosis(2, None, refused).message(joined(said)) == (
        "0/2 nodes are available: 2 Insufficient cpu. 1 Reservation(s) matched owner total, "
        "preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod."
    )
