# SPDX-License-Identifier: Apache-2.0
"""Keeps the figures of an experiment in the guest: ``python -m tests.scenes.record contention``.

Others compare with them without a guest. Run it on a quiet machine: time that is taken from the
guest's CPUs looks like work of who runs on them, so that points in which a service used more than
it wanted are left out.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from tests.scenes.place import ROOT, GuestPlace
from tests.vm.machine import Guest

_DATA = ROOT / "tests/data"
_MOST_OVER = 1.05


def main(arguments: list[str] | None = None) -> int:
    """Boots a guest, runs the experiment and writes its figures."""
    parser = argparse.ArgumentParser(prog="python -m tests.scenes.record", description=__doc__)
    parser.add_argument("experiment", help="a module of tests.scenes.experiments")
    parser.add_argument("--out", type=Path, help="default: tests/data/EXPERIMENT/guest.json")
    given = parser.parse_args(arguments)
    out = given.out or _DATA / given.experiment / "guest.json"
    with Guest() as guest:
        points = GuestPlace(guest).run(given.experiment)
    kept = undisturbed(points)
    write(kept, out)
    print(f"{len(kept)} of {len(points)} points: {out}")
    return 0


def undisturbed(points: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The points whose service did not use more than it wanted."""
    return [each for each in points if each["granted_cpu"] <= _MOST_OVER * each["wanted_cpu"]]


def write(points: list[dict[str, Any]], out: Path) -> None:
    """Writes points, one a line."""
    out.parent.mkdir(parents=True, exist_ok=True)
    text = ",\n".join(json.dumps(point) for point in points)
    out.write_text(f"[\n{text}\n]\n", encoding="utf-8")


if __name__ == "__main__":
    raise SystemExit(main())
