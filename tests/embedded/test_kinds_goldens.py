# SPDX-License-Identifier: Apache-2.0
"""The core kinds answer as a real kube-apiserver answered."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest

from tests.embedded.goldens import case_files, cases, goldens, normalised, run
from tests.embedded.recording import RESOURCES, collection_path
from tests.embedded.strategies import StrategyServer

Document = dict[str, Any]

# Where a value is a struct of the original's, its message names the fields as Go does.
_GO_VALUE = re.compile(r"value: (\{.*\}|null)(?=: )")
CASES = [(name, case) for name in case_files() for case in cases(name)]
IDS = [f"{name}-{case['case']}" for name, case in CASES]


@pytest.mark.parametrize(("name", "case"), CASES, ids=IDS)
def test_a_case_is_answered_as_a_real_server_answers_it(name: str, case: Document) -> None:
    server = StrategyServer()
    collection = collection_path(RESOURCES[case["in"]])
    answers = list(run(copy.deepcopy(case), server.send, collection))
    recorded = goldens(name)[case["case"]]
    assert len(answers) == len(recorded)
    for ours, theirs in zip(answers, recorded, strict=True):
        assert comparable(ours) == comparable(theirs)


def comparable(answer: Document) -> Document:
    """An answer without what this server leaves out on purpose."""
    answer = normalised(_without_nothing(answer))
    status = answer.get("answer", {})
    if status.get("kind", "").startswith("PersistentVolume"):
        # Nothing protects volumes in use here, for nothing would let them go.
        status["metadata"].pop("finalizers", None)
    if status.get("kind") == "Status":
        # The real one shows a diff of its internal structs, in Go.
        status["message"] = _GO_VALUE.sub("value", status["message"].partition("\n")[0])
        for cause in (status.get("details") or {}).get("causes") or ():
            cause["message"] = _GO_VALUE.sub("value", cause["message"].partition("\n")[0])
    return answer


def _without_nothing(value: Any) -> Any:
    """Without nulls, and without the empty objects and lists that are left then.

    Go writes times that are not set as null; here they are absent.
    """
    if isinstance(value, dict):
        kept = {key: _without_nothing(inner) for key, inner in value.items()}
        return {key: inner for key, inner in kept.items() if inner not in (None, {}, [])}
    if isinstance(value, list):
        return [_without_nothing(inner) for inner in value]
    return value
