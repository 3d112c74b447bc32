# SPDX-License-Identifier: Apache-2.0
"""koord's answers are the original's, but where a named difference says why not."""

from __future__ import annotations

import json
import random

import pytest

from tests.project.reference import differences, pages
from tests.vectors.area import LEAST_PERCENT, load, names, read_vectors
from tests.vectors.compare import compared

LEAST_CASES = 300


@pytest.mark.parametrize("name", names())
def test_vectors(name: str) -> None:
    found = compared(read_vectors(name)["cases"], load(name))
    told = [json.dumps(each._asdict()) for each in found.unnamed[:3]]
    assert not found.unnamed, f"{len(found.unnamed)} differences: " + "\n".join(told)
    gone = [difference for difference, count in found.named.items() if not count]
    assert not gone, "named differences that do not occur any more"


@pytest.mark.parametrize("name", names())
def test_named_differences_are_documented(name: str) -> None:
    documented = {each.name for page in pages() for each in differences(page)}
    for known, difference in load(name).DIFFERENCES.items():
        assert difference.reason
        assert difference.pending or known in documented, known


@pytest.mark.parametrize("name", names())
def test_inputs_are_those_of_the_seed(name: str) -> None:
    document = read_vectors(name)
    area = load(name)
    assert len(document["cases"]) >= LEAST_CASES
    assert [each["in"] for each in document["cases"]] == area.inputs(random.Random(area.SEED))


@pytest.mark.parametrize("name", names())
def test_what_is_not_covered_has_a_reason(name: str) -> None:
    coverage = read_vectors(name)["coverage"]
    low = {function for function, percent in coverage.items() if percent < LEAST_PERCENT}
    assert low == set(load(name).COVERAGE)
