# SPDX-License-Identifier: Apache-2.0
"""Results of a run: kept as JSON, told as tables."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.original.specs import Outcome, Spec


@dataclass
class Results:
    """What a run found.

    Attributes:
        commit: of the original.
        date: of the run, as YYYY-MM-DD.
        specs: those that were run, in the suite's order.
        outcomes: by cluster, then by a spec's text.
        benchmark: what the original's benchmark reported, by cluster.
    """

    commit: str
    date: str
    specs: list[Spec] = field(default_factory=list)
    outcomes: dict[str, dict[str, Outcome]] = field(default_factory=dict)
    benchmark: dict[str, dict[str, Any]] = field(default_factory=dict)

    def write(self, path: Path) -> None:
        """As JSON: a list of specs with the outcome on each cluster, and the benchmark's."""
        document = {
            "commit": self.commit,
            "date": self.date,
            "specs": [
                {
                    "text": spec.text,
                    "name": spec.name,
                    "outcomes": {
                        cluster: asdict(outcomes[spec.text])
                        for cluster, outcomes in self.outcomes.items()
                        if spec.text in outcomes
                    },
                }
                for spec in self.specs
            ],
            "benchmark": self.benchmark,
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> Results:
        """What `write` wrote."""
        document = json.loads(path.read_text(encoding="utf-8"))
        made = cls(document["commit"], document["date"], benchmark=document["benchmark"])
        for each in document["specs"]:
            spec = Spec(each["text"])
            made.specs.append(spec)
            for cluster, outcome in each["outcomes"].items():
                made.outcomes.setdefault(cluster, {})[spec.text] = Outcome(**outcome)
        return made

    def behind(self, original: str) -> list[str]:
        """Names of specs that pass on the original's cluster and fail on another one."""
        reference = self.outcomes.get(original, {})
        return [
            spec.name
            for spec in self.specs
            if spec.text in reference
            and reference[spec.text].passed
            and any(
                spec.text not in outcomes or not outcomes[spec.text].passed
                for outcomes in self.outcomes.values()
            )
        ]


def markdown(results: Results) -> str:
    """Both tables, as docs/test-original.md has them."""
    parts = [_specs(results)]
    if results.benchmark:
        parts.append(_benchmark(results.benchmark))
    return "\n\n".join(parts)


def _specs(results: Results) -> str:
    rows = [
        [
            spec.name.replace("|", "\\|"),
            *(_cell(of.get(spec.text)) for of in results.outcomes.values()),
        ]
        for spec in results.specs
    ]
    sums = [
        f"{sum(outcome.passed for outcome in of.values())} of {len(of)}"
        for of in results.outcomes.values()
    ]
    return _table(["spec", *results.outcomes], [*rows, ["**passed**", *sums]])


def _benchmark(benchmark: Mapping[str, Mapping[str, Any]]) -> str:
    figures = (
        ("pods a second", "throughputPodsPerSec", 1),
        ("all scheduled after, s", "totalDurationSec", 1),
        ("p50, s", "latencyP50Sec", 0),
        ("p99, s", "latencyP99Sec", 0),
        ("attempts that failed", "schedulingFailureCount", 0),
    )
    rows = [
        [title, *(_number(of.get(key), digits) for of in benchmark.values())]
        for title, key, digits in figures
    ]
    return _table(["benchmark", *benchmark], rows)


def _cell(outcome: Outcome | None) -> str:
    return "" if outcome is None else outcome.state


def _number(value: object, digits: int) -> str:
    return f"{value:,.{digits}f}" if isinstance(value, int | float) else ""


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
