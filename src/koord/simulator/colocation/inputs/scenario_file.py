# SPDX-License-Identifier: Apache-2.0
"""Reads the file of a scenario, and changes a scenario: fewer machines, fewer hours.

It is strict: an unknown key or a value that cannot be is one line that names the field.
"""

from __future__ import annotations

from importlib.resources import as_file, files
from typing import TYPE_CHECKING

import msgspec

from koord.base import config
from koord.simulator.colocation.inputs.scenario import Scenario
from koord.simulator.colocation.inputs.scenario_validation import check

if TYPE_CHECKING:
    from pathlib import Path

API_VERSION, KIND = "simulator.koord/v1", "Scenario"


def load(path: Path) -> Scenario:
    """Reads a scenario.

    Raises:
        KoordError: unreadable, an unknown key, or a scenario that cannot be; names the field.
    """
    found = config.load({(API_VERSION, KIND): Scenario}, path)
    check(found, str(path))
    return found


def shipped() -> Scenario:
    """The scenario that comes with koord: the default day of ``koord simulate colocation``."""
    with as_file(files(__package__ or "") / "mixed-day.yaml") as path:
        return load(path)


def decode(document: object, source: str) -> Scenario:
    """A scenario from a document; see :func:`load`."""
    found = config.decode({(API_VERSION, KIND): Scenario}, document, source)
    check(found, source)
    return found


def varied(
    scenario: Scenario,
    *,
    nodes: int | None = None,
    hours: float | None = None,
    step: str | None = None,
    source: str = "koord simulate colocation",
) -> Scenario:
    """The same day on another number of machines, over fewer hours, in other steps.

    Arrivals of jobs change in proportion to the machines.

    Raises:
        KoordError: what cannot be, as :func:`load` says.
    """
    changes: dict[str, object] = {}
    if nodes is not None:
        counts = _shared_out([group.count for group in scenario.nodes], nodes)
        changes["nodes"] = [
            msgspec.structs.replace(group, count=count)
            for group, count in zip(scenario.nodes, counts, strict=True)
        ]
        factor = nodes / max(scenario.machines, 1)
        changes["batch"] = [
            msgspec.structs.replace(kind, arrivals_per_hour=kind.arrivals_per_hour * factor)
            for kind in scenario.batch
        ]
    changes |= {} if hours is None else {"hours": hours}
    changes |= {} if step is None else {"step": step}
    found: Scenario = msgspec.structs.replace(scenario, **changes)
    check(found, source)
    return found


def _shared_out(counts: list[int], total: int) -> list[int]:
    """The total in the proportion of the counts; what is left over goes to the first."""
    before = max(sum(counts), 1)
    found = [count * total // before for count in counts]
    found[0] += total - sum(found)
    return found
