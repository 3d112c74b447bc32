# SPDX-License-Identifier: Apache-2.0
"""What moving services is worth: means over seeds, as a document for scripts, as rows and lines for
people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from koord.simulator.colocation.descheduling.load_account import HOT_PERCENT
from koord.simulator.colocation.descheduling.movable_services import DeschedulingMode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koord.simulator.colocation.descheduling.comparison import DeschedulingResult
    from koord.simulator.colocation.inputs.scenario import Scenario

_DIGITS = 4
_WORDS = {
    DeschedulingMode.NONE: "without moves",
    DeschedulingMode.ONE_BY_ONE: "one by one",
    DeschedulingMode.PLANNED: "planned",
}
HEADS = ("rounds", "runs", *(f">{most} %" for most in HOT_PERCENT), "moves", "undone",
         "held", "short", "bound", "CPU %")  # fmt: skip
HEADS_MEAN = (
    "% of node-minutes in which services alone use over 65 and 80 % of the CPU; machine-minutes of "
    "batch held below what it wants; % of services' pod-minutes short of CPU, and those of pods "
    "bound to CPUs, which never move"
)
"""What stands below :data:`HEADS`."""


class MeansOfMode(NamedTuple):
    """Means over the runs of one mode; the figures are those of
    :class:`~koord.simulator.colocation.descheduling.comparison.DeschedulingResult`."""

    mode: DeschedulingMode
    runs: int
    hot_percent: tuple[float, ...]
    moves: float
    undone: float
    suppressions: float
    short_percent: float
    bound_short_percent: float
    cpu_percent: float
    above_line_percent: float
    cpu_services_percent: float
    cpu_batch_percent: float
    batch_offered_percent: float
    batch_requested_percent: float
    batch_core_hours: float


def means(results: Sequence[DeschedulingResult]) -> list[MeansOfMode]:
    """A row a mode, in the order in which modes first come."""
    found = []
    for mode in dict.fromkeys(each.mode for each in results):
        mine = [each for each in results if each.mode == mode]
        hot = np.mean([each.hot_percent for each in mine], axis=0)
        rest = [
            float(np.mean([getattr(each, name) for each in mine]))
            for name in MeansOfMode._fields[3:]
        ]
        found.append(MeansOfMode(mode, len(mine), tuple(hot.tolist()), *rest))
    return found


def document(results: Sequence[DeschedulingResult], scenario: Scenario) -> dict[str, Any]:
    """What ``-o json`` prints: every run, and their means."""
    return {
        "scenario": scenario.metadata.name,
        "machines": scenario.machines,
        "hours": scenario.hours,
        "runs": [
            {"seed": each.seed, **_figures(each), "seconds": _rounded(each.seconds)}
            for each in results
        ],
        "means": [{"runs": each.runs, **_figures(each)} for each in means(results)],
    }


def _figures(of: DeschedulingResult | MeansOfMode) -> dict[str, Any]:
    hot = zip(HOT_PERCENT, of.hot_percent, strict=True)
    return {
        "rounds": str(of.mode),
        "hot_node_minutes_percent": {str(most): _rounded(share) for most, share in hot},
        "moves": of.moves,
        "undone": of.undone,
        "suppressions": of.suppressions,
        "latency_sensitive_short_pod_minutes_percent": _rounded(of.short_percent),
        "bound_short_pod_minutes_percent": _rounded(of.bound_short_percent),
        "cpu_utilisation_percent": _rounded(of.cpu_percent),
        "services_above_batch_line_percent": _rounded(of.above_line_percent),
        "cpu_services_percent": _rounded(of.cpu_services_percent),
        "cpu_batch_percent": _rounded(of.cpu_batch_percent),
        "batch_offered_percent": _rounded(of.batch_offered_percent),
        "batch_requested_percent": _rounded(of.batch_requested_percent),
        "batch_core_hours": _rounded(of.batch_core_hours),
    }


def rows(modes: Sequence[MeansOfMode]) -> list[list[str]]:
    """The comparison, a row a mode: :data:`HEADS`."""
    return [
        [
            str(each.mode), str(each.runs), *(f"{share:.2f}" for share in each.hot_percent),
            f"{each.moves:.1f}", f"{each.undone:.1f}", f"{each.suppressions:.0f}",
            f"{each.short_percent:.3f}", f"{each.bound_short_percent:.3f}",
            f"{each.cpu_percent:.2f}",
        ]
        for each in modes
    ]  # fmt: skip


def effects(modes: Sequence[MeansOfMode]) -> list[str]:
    """What moves change, a line a mode; none where nothing was run without moves."""
    by_mode = {each.mode: each for each in modes}
    without = by_mode.get(DeschedulingMode.NONE)
    if without is None:
        return []
    return [
        f"{each.mode}: {_effect(each, without)}{_beside(each, by_mode)}"
        for each in modes
        if each is not without
    ]


def hot_sentence(modes: Sequence[MeansOfMode]) -> str:
    """How much of the day machines are hot under each mode, in a sentence."""
    shares = ", ".join(f"{each.hot_percent[0]:.2f} % {_WORDS[each.mode]}" for each in modes)
    return f"Node-minutes in which services alone use over {HOT_PERCENT[0]} % of the CPU: {shares}."


def moves_sentence(modes: Sequence[MeansOfMode]) -> str:
    """How many moves there were and how many of them came back, in a sentence."""
    moving = [each for each in modes if each.mode is not DeschedulingMode.NONE]
    told = "; ".join(
        f"{each.moves:,.0f} {_WORDS[each.mode]}, {each.undone:,.0f} of them undone within an hour"
        for each in moving
    )
    return f"Moves: {told}." if told else "Nobody moves pods."


def _effect(with_: MeansOfMode, without: MeansOfMode) -> str:
    before, after = without.hot_percent[0], with_.hot_percent[0]
    hot = f"{100 * (after / before - 1):+.0f} %" if before else f"{after:.2f} % instead of none"
    cpu = with_.cpu_percent - without.cpu_percent
    share = 100 * cpu / without.cpu_percent if without.cpu_percent else 0.0
    line = with_.above_line_percent - without.above_line_percent
    return (
        f"node-minutes over {HOT_PERCENT[0]} % {hot}, CPU in use {share:+.1f} % ({cpu:+.2f} "
        f"points; services' use above what batch may fill {line:+.2f})"
    )


def _beside(planned: MeansOfMode, by_mode: dict[DeschedulingMode, MeansOfMode]) -> str:
    walked = by_mode.get(DeschedulingMode.ONE_BY_ONE)
    if planned.mode is not DeschedulingMode.PLANNED or walked is None or not walked.moves:
        return ""
    return f", {100 * planned.moves / walked.moves:.0f} % of the moves of {walked.mode}"


def _rounded(value: float) -> float:
    return round(float(value), _DIGITS)
