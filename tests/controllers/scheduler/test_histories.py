# SPDX-License-Identifier: Apache-2.0
"""Random histories of a cluster, in all weathers.

At every quiet moment nothing is given twice, nothing waits that has a place, and the scheduler
believes what one that begins now reads from the API.
"""

from __future__ import annotations

from hypothesis import HealthCheck, Phase, example, given, settings

from tests.controllers.scheduler.histories.cluster import History, live
from tests.controllers.scheduler.histories.steps import HISTORIES, Step, tell
from tests.profiles import examples

# A history takes a second or more: to shrink one takes minutes, and is for who looks into it.
PHASES = (Phase.explicit, Phase.generate)


@settings(
    suppress_health_check=list(HealthCheck),
    deadline=None,
    max_examples=examples(0.25),
    phases=PHASES,
)
@given(HISTORIES)
@example([("node", True), ("gang", 3, "share", 1, "PodGroup"), ("pod", "bound", 4, "", "")])
@example([("node", False), ("reservation", 4, "Restricted", False), ("pod", "plain", 2, "", "r")])
@example(  # a node without a Device, above all rows that have one
    [("gang", 3, "share", 2, "annotations"), ("node", True), ("remove-node", 7), ("node", False),
     ("pod", "share", 1, "", ""), ("faults", True, 56)]
)  # fmt: skip
@example(
    [("node", False), ("node", False), ("pods", 6, "plain", 1, "team-a", ""),
     ("pods", 5, "plain", 1, "team-b", ""), ("pods", 6, "high", 1, "guide", ""), ("settle",),
     ("quota", "company", 4), ("quota", "guide", 2), ("finish", 0), ("delete", "ElasticQuota", 4)]
)  # fmt: skip
@example(
    [("reservation", 4, "Aligned", False, "40s"), ("gang", 3, "plain", 2, "PodGroup", "r"),
     ("pods", 2, "gated", 2, "team-a", ""), ("pod", "broken", 1, "", ""), ("settle",),
     ("change", 0, "ungate"), ("change", 2, "mend"), ("resize-gang", 0, 2), ("change", 1, "team")]
)  # fmt: skip
@example(  # a pod that is resized in place: up, refused, down, done
    [("node", False), ("pods", 3, "plain", 2, "", ""), ("settle",), ("report", 0, "follow"),
     ("resize-pod", 0, 4), ("pods", 6, "plain", 2, "", ""), ("restart",), ("settle",),
     ("report", 0, "refuse"), ("settle",), ("resize-pod", 0, 1), ("report", 0, "follow"),
     ("report", 1, "lag"), ("settle",), ("report", 1, "follow")]
)  # fmt: skip
@example(  # a pod for which another one of its quota went
    [("pods", 5, "plain", 1, "team-b", ""), ("settle",), ("pod", "high", 1, "team-b", "")]
)
@example([("node", False), ("cordon", 9, True), ("gang", 3, "share", 1, "PodGroup"), ("restart",)])
def test_whatever_happens(history: list[Step]) -> None:
    async def run(made: History) -> None:
        await tell(made, history)

    live(run)


def test_a_node_that_tells_nothing_of_its_cpus_has_none_to_bind() -> None:
    async def run(made: History) -> None:
        steps: list[Step] = [("bare-node",), ("cordon", 0, True), ("pod", "pcpu", 2, "", "")]
        await tell(made, steps)
        (pod,) = await made.pods()
        assert "1 node(s) invalid CPU Topology" in pod["status"]["conditions"][0]["message"]

    live(run)
