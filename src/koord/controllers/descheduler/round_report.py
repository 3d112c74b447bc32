# SPDX-License-Identifier: Apache-2.0
"""What is told of a round: lines in the log, and an event of each node that pods left."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from koord.base import log
from koord.controllers.descheduler.framework.outcomes import EVICTED

if TYPE_CHECKING:
    from koord.controllers.descheduler.planning.plan import RoundPlan
    from koord.controllers.descheduler.round_history import PastRound
    from koord.controllers.descheduler.snapshot import ClusterSnapshot
    from koord.kube.events import EventRecorder

_LOG = log.get("descheduler")


def report(past: PastRound, snapshot: ClusterSnapshot, recorder: EventRecorder) -> None:
    """Says what a round did; nothing of one in which nobody wanted anything.

    Args:
        past: the round.
        snapshot: what it was judged on.
        recorder: writes events; none of a dry run.
    """
    if not past.outcomes:
        return
    told = {} if past.plan is None else _figures(past.plan)
    _LOG.info("round", extra=log.fields(number=past.number, **past.counts, **told))
    if past.dry_run:
        _log_steps(past.plan)
        return
    left: dict[str, Counter[str]] = defaultdict(Counter)
    for outcome in past.outcomes:
        if outcome.result == EVICTED:
            left[outcome.node][outcome.plugin] += 1
    nodes = {node.metadata.name: node for node in snapshot.nodes}
    for name in sorted(left.keys() & nodes.keys()):
        recorder.event(nodes[name], "Normal", "Descheduled", _counted(left[name]))


def _figures(plan: RoundPlan) -> dict[str, object]:
    before, after = plan.overload_before, plan.overload_after
    return {"steps": len(plan.steps), "overload": f"{before:.1f}>{after:.1f}"}


def _log_steps(plan: RoundPlan | None) -> None:
    """The steps of a plan that is not carried out, a line each."""
    for step in [] if plan is None else plan.steps:
        requires = ",".join(map(str, step.requires)) or "-"
        told = log.fields(
            step=step.number, pod=f"{step.namespace}/{step.name}", node=step.node,
            target=step.target, requires=requires, gain=f"{step.gain:.1f}",
            strategy=step.strategy, reason=step.reason,
        )  # fmt: skip
        _LOG.info("would move a pod", extra=told)


def _counted(plugins: Counter[str]) -> str:
    pods = plugins.total()
    told = ", ".join(f"{name} ({count})" for name, count in sorted(plugins.items()))
    return f"{pods} {'pod was' if pods == 1 else 'pods were'} evicted by {told}"
