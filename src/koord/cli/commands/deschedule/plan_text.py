# SPDX-License-Identifier: Apache-2.0
"""A plan for people: the nodes before and after as a picture, the steps, and who stays."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from koord.api.timestamps import seconds_text
from koord.cli.terminal.output import print_table, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koord.controllers.descheduler.planning.plan import PlannedNode, RoundPlan, StayingPod

_LEVELS = "▁▂▃▄▅▆▇█"
_STRIP, _BAR = 60, 10
_MOST_NODES, _MOST_PODS = 20, 10


def show_plan(plan: RoundPlan) -> None:
    """Prints a plan; at 80 columns lines are whole."""
    moves = _counted(len(plan.steps), "move")
    staying = _counted(len(plan.staying), "pod")
    say(f"{moves} planned as of {seconds_text(plan.at)}, {staying} of those wanted stay")
    limits = ", ".join(f"{name} {most:g} %" for name, most in plan.thresholds.items())
    before, after = plan.overload_before, plan.overload_after
    say(f"above {limits}: {before:.1f} points before, {after:.1f} after")
    for note in plan.notes:
        say(f"note: {note}")
    for error in plan.errors:
        say(f"failed: {error}")
    _picture(plan.nodes)
    _steps(plan)
    _staying(plan.staying)


def _picture(nodes: Sequence[PlannedNode]) -> None:
    """A column a node or group of nodes, by the fullest of it; then each node that changes."""
    print()
    for resource in ("cpu", "memory"):
        for when, loads in (("before", [node.before for node in nodes]),
                            ("after", [node.after for node in nodes])):  # fmt: skip
            say(f"{resource:<6} {when:<6} {_strip([load.get(resource, 0.0) for load in loads])}")
    changed = [node for node in nodes if node.leaving or node.arriving]
    rows = []
    for node in changed[:_MOST_NODES]:
        cpu = [load.get("cpu", 0.0) for load in (node.before, node.after)]
        memory = [load.get("memory", 0.0) for load in (node.before, node.after)]
        rows.append([
            node.name, f"{_bar(cpu[0])} {cpu[0]:.0f}", f"{_bar(cpu[1])} {cpu[1]:.0f}",
            f"{memory[0]:.0f} > {memory[1]:.0f}", f"-{node.leaving} +{node.arriving}",
        ])  # fmt: skip
    if rows:
        print()
        print_table(["node", "cpu % before", "cpu % after", "memory %", "pods"], rows)
    if len(changed) > len(rows):
        say(f"and {_counted(len(changed) - len(rows), 'node')} more that change")


def _strip(percents: Sequence[float]) -> str:
    """So many characters at most; each the fullest of its nodes."""
    size = max(1, -(-len(percents) // _STRIP))
    groups = [percents[first : first + size] for first in range(0, len(percents), size)]
    return "".join(_LEVELS[_level(max(group), len(_LEVELS))] for group in groups)


def _bar(percent: float) -> str:
    full = round(min(max(percent, 0.0), 100.0) / 100 * _BAR)
    return "█" * full + "░" * (_BAR - full)


def _level(percent: float, levels: int) -> int:
    return min(int(max(percent, 0.0) / 100 * levels), levels - 1)


def _steps(plan: RoundPlan) -> None:
    if not plan.steps:
        return
    print()
    rows = [
        [
            str(step.number), f"{step.namespace}/{step.name}",
            f"{step.node} > {step.target or 'anywhere'}",
            ",".join(map(str, step.requires)) or "-", f"{step.gain:.1f}",
        ]
        for step in plan.steps
    ]  # fmt: skip
    print_table(["step", "pod", "from > to", "after", "gain"], rows)


def _staying(pods: Sequence[StayingPod]) -> None:
    if not pods:
        return
    counts = Counter(pod.reason for pod in pods)
    print()
    say("stay: " + ", ".join(f"{count} {reason}" for reason, count in sorted(counts.items())))
    for pod in pods[:_MOST_PODS]:
        say(f"  {pod.namespace}/{pod.name} on {pod.node}: {pod.message}")
    if len(pods) > _MOST_PODS:
        say(f"  and {len(pods) - _MOST_PODS} more, see -o json")


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
