# SPDX-License-Identifier: Apache-2.0
"""What people paste is clean; what is said of it all the same is true."""

from __future__ import annotations

from pathlib import Path

import pytest

from koord.check.problem import FileProblem
from koord.check.runner import CheckReport, check

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def examples(reference_data: Path) -> list[str]:
    return sorted(map(str, (reference_data / "examples").glob("*/*.yaml")))


def beside_reach(report: CheckReport) -> list[FileProblem]:
    """All but that the guide's Reservations are for pods of all namespaces."""
    return [each for each in report.problems if not each.path.startswith("spec.owners")]


def test_the_guides_and_releases_are_clean(examples: list[str], reference_data: Path) -> None:
    report = check(examples)
    # An existing Koordinator does not get the guide's kind unless it is asked for.
    assert [
        str(each).removeprefix(f"{reference_data}/examples/") for each in beside_reach(report)
    ] == [
        "guide/elasticquotas.yaml:1: warning: ElasticQuota team-a/team-a-quota: apiVersion: "
        "got 'quota.koordinator.sh/v1alpha1', expected scheduling.sigs.k8s.io/v1alpha1: the other "
        "kind is there only after `koord crds install --guide` or with the chart's crds.guide, "
        "and in `koord up`"
    ]
    assert dict(report.unread) == {}
    assert (report.files, report.objects) == (13, 22)


def test_each_by_itself_is_clean_too(examples: list[str]) -> None:
    for file in examples:
        if "elasticquotas" not in file:
            assert beside_reach(check([file])) == [], file


def test_what_koord_ships_is_clean() -> None:
    files = [*ROOT.glob("deploy/**/*.yaml"), *ROOT.glob("examples/**/*.yaml")]
    # Templates are looked at by tests/deploy, once rendered; Prometheus' rules are no objects.
    others = {"charts", "alerts"}
    plain = [str(file) for file in sorted(files) if others.isdisjoint(file.parts)]
    assert len(plain) > 10
    assert check(plain).problems == []
