# SPDX-License-Identifier: Apache-2.0
"""The class that Kubernetes derives: what a server writes into a pod and what readers work out."""

from __future__ import annotations

from typing import Any

import pytest

from koord.api.codec import convert
from koord.api.kinds.pod import Pod
from koord.api.protocol.qos import kubernetes_qos
from koord.controlplane.kinds.pod.defaults import qos_class

Resources = dict[str, Any]


def both(cpu: str, memory: str, cpu_limit: str = "", memory_limit: str = "") -> Resources:
    """Requests and limits; a limit that is not given is as the request."""
    return {
        "requests": {"cpu": cpu, "memory": memory},
        "limits": {"cpu": cpu_limit or cpu, "memory": memory_limit or memory},
    }


FULL = both("1", "1Gi")
# The resources of the containers, of the init containers, and of the pod as a whole.
CASES: list[tuple[list[Resources], list[Resources], Resources | None, str]] = [
    ([{}], [], None, "BestEffort"),
    ([{"requests": {"cpu": "0"}}], [], None, "BestEffort"),
    ([{"limits": {"cpu": "0", "memory": "0"}}], [], None, "BestEffort"),
    ([{"requests": {"example.com/x": "1"}, "limits": {"example.com/x": "1"}}], [], None,
     "BestEffort"),
    ([FULL], [], None, "Guaranteed"),
    ([FULL], [FULL], None, "Guaranteed"),
    ([FULL, FULL], [{}], None, "Burstable"),
    ([FULL, {}], [], None, "Burstable"),
    ([both("1", "1Gi", "1000m", "1024Mi")], [], None, "Guaranteed"),
    ([both("1", "1Gi", "2")], [], None, "Burstable"),
    ([{"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}], [], None, "Burstable"),
    ([{"requests": {"cpu": "1", "memory": "1Gi"}}], [], None, "Burstable"),
    # The API server copies a limit into a request that is not there, but not over a 0.
    ([{"limits": {"cpu": "1", "memory": "1Gi"}}], [], None, "Guaranteed"),
    ([both("0", "1Gi", "1")], [], None, "Burstable"),
    ([both("1", "0", "1", "1Gi")], [], None, "Burstable"),
    # What is said for the pod as a whole counts alone.
    ([{}], [], FULL, "Guaranteed"),
    ([both("100m", "1Mi", "200m")], [{}], FULL, "Guaranteed"),
    ([FULL], [], both("1", "1Gi", "2"), "Burstable"),
    ([FULL], [], {"requests": {"cpu": "1"}}, "Burstable"),
    ([FULL], [], {"requests": {"cpu": "1", "memory": "1Gi"}}, "Burstable"),
    ([FULL], [], {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}, "Burstable"),
    ([FULL], [], {"requests": {"hugepages-2Mi": "4Mi"}, "limits": {"hugepages-2Mi": "4Mi"}},
     "BestEffort"),
    ([FULL], [], {}, "BestEffort"),
]  # fmt: skip


@pytest.mark.parametrize(("containers", "init", "whole", "expected"), CASES)
def test_class(
    containers: list[Resources], init: list[Resources], whole: Resources | None, expected: str
) -> None:
    spec: dict[str, Any] = {
        "containers": [{"name": f"c{i}", "resources": each} for i, each in enumerate(containers)],
        "initContainers": [{"name": f"i{i}", "resources": each} for i, each in enumerate(init)],
    }
    if whole is not None:
        spec["resources"] = whole
    assert qos_class(spec) == expected
    assert kubernetes_qos(convert({"spec": spec}, Pod, "p")) == expected
    # What the API server says goes before.
    said = convert({"spec": spec, "status": {"qosClass": "Burstable"}}, Pod, "p")
    assert kubernetes_qos(said) == "Burstable"
