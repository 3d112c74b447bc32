# SPDX-License-Identifier: Apache-2.0
"""``python -m tests.soak MINUTES [PART]``: explores all subjects, or those with a part of a name.

Every subject has an equal share of the time. What fails is kept as a case (tests/data/histories),
which ``pytest tests/soak`` replays from then on. Exit status 1 if anything failed.
"""

from __future__ import annotations

import logging
import os
import sys
import time

from koord.base.errors import one_line

# So many failures of one subject are enough to look into.
_ENOUGH = 3


def main(arguments: list[str]) -> int:
    os.environ.setdefault("KOORD_PROFILE", "soak")
    logging.getLogger().addHandler(logging.NullHandler())
    # Modules of tests look at the profile when they are imported.
    from tests.soak import cases
    from tests.soak.subjects import subjects

    try:
        minutes = float(arguments[0])
    except (IndexError, ValueError):
        print("usage: python -m tests.soak MINUTES [PART]", file=sys.stderr)
        return 2
    part = arguments[1] if len(arguments) > 1 else ""
    chosen = [each for each in subjects() if part in each.name]
    end, kept, lines, failed = time.monotonic() + 60 * minutes, [], [], False
    for left, subject in zip(range(len(chosen), 0, -1), chosen, strict=True):
        began = time.monotonic()
        until = began + (end - began) / left
        count = failures = 0
        while failures < _ENOUGH:
            outcome = subject.explore(lambda until=until: time.monotonic() >= until)  # type: ignore[misc]
            count += outcome.count
            if outcome.error is None:
                break
            failures, failed = failures + 1, True
            said = one_line(f"{type(outcome.error).__name__}: {outcome.error}")[:300]
            print(f"FAILED {subject.name}: {said}", flush=True)
            if outcome.history is not None:
                case = {"subject": subject.name, "said": said, "history": outcome.history}
                kept.append(cases.keep(case))
        seconds = time.monotonic() - began
        lines.append(f"{subject.name:<64} {count:>8} {seconds:>7.0f} s {failures:>3}")
        print(lines[-1], flush=True)
    print(f"\n{'subject':<64} {'histories':>8} {'time':>8} failures", *lines, sep="\n")
    for path in kept:
        print(f"replay: pytest tests/soak -k {path.stem}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
