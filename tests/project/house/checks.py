# SPDX-License-Identifier: Apache-2.0
"""All checks over one parse of the sources, held against the list of what is allowed."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tests.project.house import banned_words, duplicate_classes, import_circles, short_modules
from tests.project.house.source_tree import Violation, modules

if TYPE_CHECKING:
    from pathlib import Path

    from tests.project.house.allowed import Allowed

MOST_STALE = 10
"""So many are named of what is allowed and no longer there."""


class Report(NamedTuple):
    """What came of one check.

    Args:
        check: its name.
        new: violations that are not allowed.
        allowed: how many are.
        stale: keys that are allowed and not there.
    """

    check: str
    new: list[Violation]
    allowed: int
    stale: list[str]

    @property
    def is_good(self) -> bool:
        """Whether the list says what there is."""
        return not self.new and not self.stale

    def lines(self) -> list[str]:
        """The report as a developer reads it."""
        head = f"{self.check}: {len(self.new)} not allowed, {self.allowed} allowed"
        stale = [f"  no longer there: {key}" for key in self.stale[:MOST_STALE]]
        if self.stale:
            stale.append(f"  {len(self.stale)} no longer there: --write takes them out of the list")
        return [head, *(f"  {violation.text}" for violation in self.new), *stale]


def violations_by_check(src: Path, package: str) -> dict[str, list[Violation]]:
    """What each check finds in a package."""
    files = modules(src, package)
    imports = import_circles.graph(files)
    return {
        "import_circles": import_circles.violations(imports),
        "banned_words": banned_words.violations(files),
        "short_modules": list(short_modules.violations(files, imports)),
        "duplicate_classes": duplicate_classes.violations(files),
    }


def check(violations: dict[str, list[Violation]], allowed: Allowed) -> list[Report]:
    """The reports of all checks."""
    return [_report(name, violations[name], allowed.get(name, {})) for name in violations]


def _report(name: str, violations: list[Violation], reasons: dict[str, str]) -> Report:
    new = [violation for violation in violations if violation.key not in reasons]
    stale = sorted(reasons.keys() - {violation.key for violation in violations})
    return Report(name, new, len(violations) - len(new), stale)
