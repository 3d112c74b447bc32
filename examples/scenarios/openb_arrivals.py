# SPDX-License-Identifier: Apache-2.0
"""Makes the arrivals of openb-day.yaml from the openb trace.

``python examples/scenarios/openb_arrivals.py``

The best-effort pods of the trace's last 30 days, folded onto one day by their time of day: some
days of the trace see a dozen of them, others hundreds. A pod that never ran, or has not ended, is
left out. Pods of a kind become jobs of one task each: all that ask for no GPU, for a share of one,
for a whole.
"""

from __future__ import annotations

import csv
from pathlib import Path

DAYS = 30
DAY_SECONDS = 86_400
HERE = Path(__file__).resolve().parent
TRACE = HERE.parent / "openb" / "openb_pod_list_default.csv"


def kind(row: dict[str, str]) -> str:
    """To which file a pod belongs."""
    if row["num_gpu"] == "0":
        return "cpu"
    return "gpu" if row["gpu_milli"] == "1000" else "share"


def main() -> None:
    """Writes a file a kind."""
    with TRACE.open(encoding="utf-8", newline="") as stream:
        rows = [row for row in csv.DictReader(stream) if row["qos"] == "BE"]
    last = max(int(row["creation_time"]) for row in rows)
    jobs: dict[str, list[tuple[int, int, int]]] = {"cpu": [], "share": [], "gpu": []}
    for row in rows:
        created = int(row["creation_time"])
        if created <= last - DAYS * DAY_SECONDS or not (
            row["scheduled_time"] and row["deletion_time"]
        ):
            continue
        duration = int(row["deletion_time"]) - int(row["scheduled_time"])
        jobs[kind(row)].append((created % DAY_SECONDS, 1, max(1, duration)))
    for name, found in jobs.items():
        path = HERE / f"openb-{name}.csv"
        with path.open("w", encoding="utf-8", newline="") as stream:
            writer = csv.writer(stream, lineterminator="\n")
            writer.writerow(("seconds", "tasks", "duration_seconds"))
            writer.writerows(sorted(found))
        print(f"{path.name}: {len(found)} jobs")


if __name__ == "__main__":
    main()
