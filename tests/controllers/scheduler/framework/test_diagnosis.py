# SPDX-License-Identifier: Apache-2.0
"""How what several PostFilter plugins say becomes one text."""

from __future__ import annotations

import pytest

from koord.controllers.scheduler.framework.diagnosis import Diagnosis, availability, joined
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


def test_of_many_reasons_the_first_are_told() -> None:
    names = [f"Insufficient example.com/{number:04d}" for number in range(5_000)]
    message = availability(7, dict.fromkeys(names, 7))
    assert message.startswith("0/7 nodes are available: 7 Insufficient example.com/0000, ")
    assert message.endswith(", 7 Insufficient example.com/0031 and 4968 more.")
    early = Diagnosis(7, Rejection("Fit", tuple(names)), {}).message()
    assert early == message.replace("7 I", "I")
    # As many as may stand there are as kube-scheduler tells them.
    assert availability(7, dict.fromkeys(names[:32], 7)).endswith("0030, 7 " + names[31] + ".")
