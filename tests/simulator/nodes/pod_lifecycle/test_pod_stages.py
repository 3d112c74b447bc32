# SPDX-License-Identifier: Apache-2.0
"""Lives of pods on a simulated node: a case of ``tests/data/nodes`` is a pod and what it becomes.

``python -m tests.simulator.nodes.pod_lifecycle.test_pod_stages`` writes the lives anew; look at
what changed.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from koord.api import Pod, decode_as
from koord.base.errors import KoordError
from koord.simulator.nodes.pod_lifecycle import pod_stages, pod_status

CASES = Path(__file__).resolve().parents[3] / "data" / "nodes"
SEED = 3
MOST_STAGES = 5
STAGES = pod_stages.load_stages(chaos=True)

Document = dict[str, Any]


def merged(old: Document, change: Document) -> Document:
    """A strategic merge of a pod's status: conditions by type, null deletes, the rest replaces."""
    new = {**old, **change}
    conditions = {each["type"]: each for each in old.get("conditions", [])}
    for each in change.get("conditions", []):
        whole = {**conditions.get(each["type"], {}), **each}
        conditions[each["type"]] = {key: v for key, v in whole.items() if v is not None}
    new["conditions"] = list(conditions.values())
    return new


def pod_of(document: Document) -> Pod:
    metadata = {"name": "web", "namespace": "default", "uid": "u-1", **document.get("metadata", {})}
    return decode_as({"apiVersion": "v1", "kind": "Pod", **document, "metadata": metadata}, Pod)


def life(document: Document, *, chaos: bool = False) -> list[Document]:
    """What happens to a pod, stage by stage, until nothing does."""
    steps = pod_stages.load_stages(chaos=chaos)
    document, found = copy.deepcopy(document), []
    for number in range(1, MOST_STAGES + 1):
        pod = pod_of(document)
        stage = pod_stages.choose(steps, pod, SEED)
        if stage is None:
            break
        told: Document = {"stage": stage.name}
        told["seconds"] = round(pod_stages.delay_seconds(stage, pod, SEED), 3)
        found.append(told)
        if stage.next.delete:
            break
        now = f"2030-01-01T00:00:{number:02}Z"
        status = pod_status.status(pod, stage.next, "172.20.0.1", "10.128.0.2", now)
        document["status"] = merged(document.get("status", {}), status)
        told["status"] = status
    return found


def cases() -> list[Path]:
    found = sorted(CASES.glob("*.yaml"))
    assert len(found) >= 8
    return found


@pytest.mark.parametrize("path", cases(), ids=lambda path: path.stem)
def test_a_pod_lives_as_written(path: Path) -> None:
    case = yaml.safe_load(path.read_text("utf-8"))
    assert life(case["pod"]) == case["life"]


def test_every_stage_is_in_some_life() -> None:
    seen = {
        step["stage"]
        for path in cases()
        for step in yaml.safe_load(path.read_text("utf-8"))["life"]
    }
    assert {stage.name for stage in pod_stages.load_stages()} == seen


def test_chaos_strikes_as_often_as_it_says() -> None:
    steps = pod_stages.load_stages(chaos=True)
    document = {"status": {"phase": "Running"}}
    chosen = [
        pod_stages.choose(steps, pod_of({**document, "metadata": {"uid": str(i)}}), SEED)
        for i in range(2000)
    ]
    struck = sum(stage is not None and stage.name == "out-of-memory" for stage in chosen)
    assert 60 <= struck <= 140


@given(st.floats(0, 1), st.text(max_size=6), st.text("0123456789smh.", max_size=8))
def test_annotations_that_make_no_sense_are_not_taken(lot: float, code: str, text: str) -> None:
    pod = pod_of(
        {"metadata": {"annotations": {pod_stages.DURATION: text, pod_stages.EXIT_CODE: code}}}
    )
    assert pod_stages.run_seconds(pod, lot) >= 0
    assert 0 <= pod_stages.exit_code(pod) <= 999


@given(st.integers(0, 400), st.integers(0, 40))
def test_a_pod_never_outlives_its_grace(grace: int, restarts: int) -> None:
    metadata = {
        "deletionTimestamp": "2030-01-01T00:00:00Z",
        "deletionGracePeriodSeconds": grace,
    }
    status = {"phase": "Running", "containerStatuses": [{"name": "c", "restartCount": restarts}]}
    pod = pod_of({"metadata": metadata, "status": status})
    stage = pod_stages.choose(STAGES, pod, SEED)
    assert stage is not None
    assert pod_stages.delay_seconds(stage, pod, SEED) <= min(grace, 1.0)


def test_unknown_words_in_a_stage_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from koord.base import config

    document = {"apiVersion": "simulator.koord/v1", "kind": "PodStages",
                "stages": [{"name": "a", "next": {}, "when": {"phases": ["Running"]}}]}  # fmt: skip
    with pytest.raises(KoordError, match="got 'phases', expected a known field, such as phase"):
        config.decode(
            {("simulator.koord/v1", "PodStages"): pod_stages._PodStages}, document, "s.yaml"
        )


def main() -> None:
    for path in cases():
        case = yaml.safe_load(path.read_text("utf-8"))
        head = "# SPDX-License-Identifier: Apache-2.0\n"
        text = yaml.safe_dump({"pod": case["pod"], "life": life(case["pod"])}, sort_keys=False)
        path.write_text(head + text, "utf-8")


if __name__ == "__main__":
    main()
