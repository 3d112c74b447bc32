# SPDX-License-Identifier: Apache-2.0
"""What Koordinator's own proxy asked of this service, and what it made of the answers.

Recorded of its program at the commit that stands in the file, between a client of CRI and a runtime
that keeps what it is asked: a batch container made with a quota of 70 ms, one that is bound to
CPUs, and an update of each.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from google.protobuf.json_format import ParseDict

from koord.agent.hooks.builtin.gpu_env import GPUEnvInject
from koord.agent.hooks.builtin.oom_score import OOMScoreAdj
from koord.delivery.hooks.messages import HOOKS, POD_STAGES
from koord.delivery.hooks.service import STAGES
from tests.agent.hooks.build import DEVICES, STATUS, container, options, pod
from tests.delivery.hooks.test_service import ServiceSetting
from tests.delivery.nri.test_plugin import BATCH
from tests.kube.harness import run_virtual

RECORD = Path(__file__).parents[2] / "data/hook_service/koordinator_proxy.json"
CARD = {"minor": 2, "resources": {"koordinator.sh/gpu-memory-ratio": "100"}}
PODS = (
    pod("BE", "BestEffort", [BATCH],
        {"koordinator.sh/oom-score-adj": "300", DEVICES: {"gpu": [CARD]}}),
    pod("LSR", "Guaranteed", [container("main", {"cpu": "2"}, {"cpu": "2"})],
        {STATUS: {"cpuset": "2-3"}}, uid="u2"),
)  # fmt: skip


def record() -> Any:
    return json.loads(RECORD.read_text(encoding="utf-8"))


def test_it_is_answered_as_it_was(tmp_path: Path) -> None:
    """So what it made of the answers stands for this code too."""
    setting = ServiceSetting(tmp_path, OOMScoreAdj(options()), GPUEnvInject(options()))

    async def story() -> None:
        await setting.knows(*PODS)
        calls = record()["calls"]
        assert {call["stage"] for call in calls} == set(STAGES)
        for call in calls:
            kind = "PodSandbox" if call["stage"] in POD_STAGES else "ContainerResource"
            answer = getattr(HOOKS, f"{kind}HookResponse")
            asked = bytes.fromhex(call["request"])
            made = answer.FromString(await setting.service.handle(call["stage"], asked, None))
            assert made == ParseDict(call["answer"], answer())

    run_virtual(story(), setting.clock)


def test_its_requests_have_no_field_that_is_not_known() -> None:
    for call in record()["calls"]:
        kind = "PodSandbox" if call["stage"] in POD_STAGES else "ContainerResource"
        known = getattr(HOOKS, f"{kind}HookRequest").FromString(bytes.fromhex(call["request"]))
        before = known.ByteSize()
        known.DiscardUnknownFields()
        assert known.ByteSize() == before


def test_the_runtime_was_asked_for_what_hooks_want() -> None:
    """The rest is the kubelet's: period, memory nodes, score of the pod without an annotation."""
    made, updated, bound, again = record()["received"]
    assert made["environment"] == {"NVIDIA_VISIBLE_DEVICES": "2", "PATH": "/bin"}
    assert made["resources"] == {
        "cpu_period": "100000", "cpu_quota": "50000", "cpu_shares": "512",
        "memory_limit_in_bytes": str(1 << 30), "oom_score_adj": "300", "cpuset_mems": "0",
        "unified": [{"key": "memory.high", "value": "1"}],
    }  # fmt: skip
    assert updated["resources"] == made["resources"]
    assert bound["environment"] == {"PATH": "/bin"}
    assert (bound["resources"]["cpuset_cpus"], bound["resources"]["cpu_quota"]) == ("2-3", "-1")
    assert bound["resources"]["oom_score_adj"] == "-997"
    assert again["resources"] == {**bound["resources"], "cpu_shares": "99"}
