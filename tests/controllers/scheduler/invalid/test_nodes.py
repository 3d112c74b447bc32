# SPDX-License-Identifier: Apache-2.0
"""What is wrong first with what a node says to the scheduler."""

from __future__ import annotations

from typing import Any

import pytest

from koord.api.kinds.meta import ObjectMeta
from koord.api.kinds.node import Node
from koord.cli.commands.explain import pod_text
from koord.controllers.scheduler.debug import state_dump
from koord.controllers.scheduler.invalid.node_labels import problem
from koord.controllers.scheduler.scheduler import Scheduler
from tests.controllers.scheduler.explain.test_object_explainer import asked

RATIO = "node.koordinator.sh/resource-amplification-ratio"
WHERE = f"Node n: annotations[{RATIO}]"


@pytest.mark.parametrize(
    ("ratios", "error"),
    [
        ('{"cpu":1,"memory":10}', "None"),
        ('{"cpu":0.5}', f"{WHERE}[cpu]: got 0.5, expected a ratio from 1 to 1000"),
        ('{"cpu":1001}', f"{WHERE}[cpu]: got 1001.0, expected a ratio from 1 to 1000"),
        ('{"cpu":50,"memory":0}', f"{WHERE}[memory]: got 0.0, expected a ratio from 1 to 1000"),
        ('{"cpu":50}', f"{WHERE}[cpu]: got 50.0, expected a ratio of at most 10: "
         "a node cannot keep what it offers beyond that"),
        ('{"cpu":"1.5"}', f"{WHERE}[cpu]: got '1.5', expected a number"),
    ],
)  # fmt: skip
def test_ratios_of_amplification(ratios: str, error: str) -> None:
    assert str(problem(Node(metadata=ObjectMeta(name="n", annotations={RATIO: ratios})))) == error


def test_it_stands_where_the_node_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    wrong = Node(metadata=ObjectMeta(name="a", annotations={RATIO: '{"cpu":0.5}'}))

    def ask(_: object, made: Scheduler) -> dict[str, Any]:
        made.world.invalid.judge(Node, wrong, problem(wrong))
        return state_dump.node(made, "a")

    found, _ = asked(ask)
    pod_text.node(found)
    assert capsys.readouterr().out.splitlines()[:3] == [
        "a: 0 pods",
        f"What is wrong: {WHERE.replace(' n:', ' a:')}[cpu]: got 0.5, "
        "expected a ratio from 1 to 1000.",
        "",
    ]
