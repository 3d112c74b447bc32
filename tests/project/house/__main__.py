# SPDX-License-Identifier: Apache-2.0
"""``python -m tests.project.house``: import circles, banned words, short modules, twice used names.

Exit status 1 where something is against a rule and not allowed, or allowed and no longer there.
``--write`` renews the list of what is allowed (allowed.toml), which may only shrink.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.project.house import allowed as allowed_list
from tests.project.house.checks import Report, check, violations_by_check

ROOT = Path(__file__).resolve().parents[3]
LIST = Path(__file__).with_name("allowed.toml")


def main(arguments: list[str]) -> int:
    """Prints what is wrong; the exit status."""
    violations = violations_by_check(ROOT / "src", "koord")
    allowed = allowed_list.read(LIST)
    if arguments == ["--write"]:
        keys = {name: [violation.key for violation in violations[name]] for name in violations}
        try:
            allowed = allowed_list.renewed(allowed, keys)
        except ValueError as error:
            print(error, *_lines(check(violations, allowed)), sep="\n")
            return 1
        allowed_list.write(LIST, allowed)
    elif arguments:
        print("usage: python -m tests.project.house [--write]")
        return 2
    reports = check(violations, allowed)
    print(*_lines(reports), sep="\n")
    return 0 if all(report.is_good for report in reports) else 1


def _lines(reports: list[Report]) -> list[str]:
    return [line for report in reports for line in report.lines()]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
