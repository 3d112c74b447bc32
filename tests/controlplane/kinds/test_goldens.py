# SPDX-License-Identifier: Apache-2.0
"""The core kinds answer as a real kube-apiserver answered."""

from __future__ import annotations

import asyncio
import copy
import json
import re
from typing import Any

import pytest

from koord.controlplane.embedded import EmbeddedControlPlane, Options
from koord.kube.transport.messages import JSON, Request
from tests.controlplane.goldens import NAMESPACE, case_files, cases, goldens, normalised, run
from tests.controlplane.recording import RESOURCES, TABLE, collection_path, give

Document = dict[str, Any]

# Where a value is a struct of the original's, its message names the fields as Go does.
_GO_VALUE = re.compile(r"value: (\{.*\}|null)(?=: )")
CASES = [(name, case) for name in case_files() for case in cases(name)]
IDS = [f"{name}-{case['case']}" for name, case in CASES]


@pytest.mark.parametrize(("name", "case"), CASES, ids=IDS)
def test_a_case_is_answered_as_a_real_server_answers_it(name: str, case: Document) -> None:
    recorded = goldens(name)[case["case"]]
    answers = answers_to(copy.deepcopy(case))
    assert len(answers) == len(recorded)
    for ours, theirs in zip(answers, recorded, strict=True):
        assert comparable(ours) == comparable(theirs)


def answers_to(case: Document) -> list[Document]:
    """What a fresh embedded server answers to the steps of a case."""
    with asyncio.Runner() as runner:
        plane = EmbeddedControlPlane(Options(port=None, seed=1))
        runner.run(plane.start())
        transport = plane.transport()

        def send(
            method: str, path: str, body: Document | None, as_table: bool
        ) -> tuple[int, Document]:
            data = b"" if body is None else json.dumps(body).encode()
            accept = TABLE if as_table else JSON
            request = Request(method, path, (), data, accept=accept)
            response = runner.run(transport.send(request))
            return response.status, json.loads(response.body)

        send("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}}, False)
        for entry in case.get("given", ()):
            give(send, entry)
        answers = list(run(case, send, collection_path(RESOURCES[case["in"]])))
        runner.run(plane.stop())
    return answers


def comparable(answer: Document) -> Document:
    """An answer without what this server leaves out on purpose."""
    answer = normalised(_without_nothing(answer))
    status = answer.get("answer", {})
    if status.get("kind", "").startswith("PersistentVolume"):
        # Nothing protects volumes in use here, for nothing would let them go.
        status["metadata"].pop("finalizers", None)
    if status.get("kind") == "Status" and "message" in status:
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
