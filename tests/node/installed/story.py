# SPDX-License-Identifier: Apache-2.0
"""koord as a user has it: images and chart on a real node, as figures.

``python -m tests.node.installed.story ORDER``
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from functools import partial
from typing import Any

import yaml

from tests.deploy.chart_files import CHART
from tests.node.cluster.control_plane import NODE, SYSTEM
from tests.node.cluster.story import tell
from tests.node.installed import proxied, traces
from tests.node.installed.node import Operator, images
from tests.node.machine import until
from tests.scenes.experiments.suppress import rounds_to_fall

_BATCH_CPU = "kubernetes.io/batch-cpu"
_JOB = "job-name={}"
_SPIN = "while :; do :; done"
_STEADY_ROUNDS = 3
_PROFILE = CHART / "values-small.yaml"
# Beside that profile: nobody here waits for a minute, and suppression is read in the log.
VALUES: dict[str, Any] = {
    "koordlet": {"log": {"level": "4"}, "extraArgs": ["--kubelet-sync-interval=1s"]},
    "sloControllerConfig": {
        "colocation-config": json.dumps({
            "enable": True, "cpuReclaimThresholdPercent": 90, "metricReportIntervalSeconds": 1,
            "metricAggregateDurationSeconds": 10, "resourceDiffThreshold": 0.05,
        }),
        "resource-threshold-config": json.dumps({
            "clusterStrategy": {
                "enable": True, "cpuSuppressPolicy": "cfsQuota", "cpuSuppressThresholdPercent": 70,
            }
        }),
    },
}  # fmt: skip
_PROXIED: dict[str, Any] = {**VALUES, "koordlet": {**VALUES["koordlet"], **proxied.SETTINGS}}
# The guide's way out: nothing is offered any more, and files get back what they said before.
_LEAVING: dict[str, Any] = {
    "koordlet": {**_PROXIED["koordlet"], "restoreOnExit": True},
    "sloControllerConfig": {
        **VALUES["sloControllerConfig"], "colocation-config": json.dumps({"enable": False}),
    },
}  # fmt: skip


def become_ready(world: Operator) -> None:
    """A node without koord."""
    world.found["images"] = sorted(images())
    world.node.start_kubelet()
    until("the node is ready", world.ready_node)
    world.say("node ready")
    world.found["before"] = traces.taken(world)


def install(world: Operator) -> None:
    """The chart, its tests, and what runs then."""
    began = time.monotonic()
    world.helm("install", "koord", CHART, *_values(world, VALUES), "--wait", "--timeout", "240s")
    _await_agent(world)
    world.found["install seconds"] = round(time.monotonic() - began, 1)
    world.say("the chart is installed")
    world.found["components"] = world.pods(SYSTEM, "", "app.kubernetes.io/part-of=koord")
    world.found["helm test"] = world.helm("test", "koord", "--logs", "--timeout", "90s")
    world.say("helm test")
    until("koordlet serves the runtime", lambda: world.node.status()["runtime"]["synchronized"])


def _upgrade(world: Operator, values: dict[str, Any]) -> None:
    given = _values(world, values)
    world.helm("upgrade", "koord", CHART, *given, "--wait", "--timeout", "240s")
    _await_agent(world)


def _await_agent(world: Operator) -> None:
    """helm does not wait for as many nodes of a DaemonSet as may be without it meanwhile."""
    world.kubectl("rollout", "status", "daemonset/koordlet", f"--namespace={SYSTEM}")


def _values(world: Operator, values: dict[str, Any]) -> tuple[str, ...]:
    file = world.node.folder / "values.yaml"
    file.write_text(yaml.safe_dump(values), encoding="utf-8")
    return ("-f", str(_PROFILE), "-f", str(file))


def report_and_offer(world: Operator) -> None:
    """NodeMetric and NodeSLO go round; the node offers batch resources."""
    until("batch CPUs are offered", lambda: world.amount(_BATCH_CPU) >= 500)
    world.found["offered"] = world.amount(_BATCH_CPU)
    group = "slo.koordinator.sh/v1alpha1"
    world.found["slo"] = world.get(f"{group}/nodeslos", "", NODE)
    world.found["metric"] = world.get(f"{group}/nodemetrics", "", NODE)
    world.say("batch CPUs are offered")


def place(world: Operator) -> None:
    """A service and jobs of plain manifests."""
    world.kubectl("apply", f"--filename={world.manifest('workloads')}")
    world.found["web"] = until("the service runs", partial(world.running, "default", "web"))
    report = _JOB.format("report")
    world.found["report"] = until("a job runs", partial(world.running, "analytics", "", report))
    world.found["report files"] = {
        file: world.read(file, world.found["report"]) for file in ("cpu.shares", "cpu.cfs_quota_us")
    }

    def ended() -> Any:
        found = world.pods("analytics", "", _JOB.format("tally"))
        return next((pod for pod in found if pod["status"]["phase"] == "Succeeded"), None)

    world.found["tally"] = until("a job ends", ended)
    name = world.found["tally"]["metadata"]["name"]
    world.found["tally says"] = world.pod_log("analytics", name).strip()
    world.say("a service and a job run, another job has ended")


def suppress(world: Operator) -> None:
    """The service's load rises: batch is held down."""
    world.node.wait_rounds(_STEADY_ROUNDS)
    before = len(world.node.rounds())
    web = world.found["web"]["metadata"]["name"]
    world.kubectl("exec", web, "--", "/bin/sh", "-c", f"{{ {_SPIN}; }} >/dev/null 2>&1 &")
    world.say("the service works")
    world.node.wait_rounds(2 * _STEADY_ROUNDS)
    world.found["rounds"] = world.node.rounds()[before:]
    world.found["rounds to fall"] = rounds_to_fall(world.found["rounds"], os.cpu_count() or 1)
    world.found["batch quota"] = traces.quota_of_batch()
    status = world.node.status()
    world.found["problems"] = [*status["failures"], *status["hookProblems"]]
    world.found["calls"] = {call["method"]: call["failures"] for call in status["runtime"]["calls"]}
    world.say("batch is suppressed")


def serve_a_proxy(world: Operator) -> None:
    """The runtime loses NRI, and the release is told of the proxy."""
    proxied.put_proxy_between(world)
    _upgrade(world, _PROXIED)
    proxied.hook_by_proxy(world)


def leave(world: Operator) -> None:
    """As the guide says: nothing is offered, koordlet restores, the release goes."""
    found = world.pods(SYSTEM, "", "app.kubernetes.io/part-of=koord")
    world.found["components later"] = found
    world.found["restarts"] = traces.restarts(world, found)
    world.found["logs"] = traces.troubles(world, found)
    world.found["confinement"] = {
        pod["metadata"]["labels"]["koord-app"]: traces.confinement(pod) for pod in found
    }
    world.kubectl("delete", "--wait=true", "namespace", "analytics")
    world.kubectl("delete", "--wait=true", "deployment", "web")
    world.kubectl("delete", "--all", "clustercolocationprofiles")
    _upgrade(world, _LEAVING)
    until("nothing is offered", lambda: not world.amount(_BATCH_CPU))
    world.say("nothing is offered any more")
    world.helm("uninstall", "koord", "--wait", "--timeout", "240s")
    # What helm leaves of its test.
    world.kubectl("delete", "--wait=true", "pod", "koord-ready")
    until("all pods are gone", lambda: not world.all_pods())
    proxied.take_proxy_away(world)
    world.say("the release is gone")


def compare(world: Operator) -> None:
    """What is there that was not before, and the reverse."""
    before = world.found["before"]
    with contextlib.suppress(AssertionError):  # what is not as before is told below
        until(
            "pods are put away", lambda: traces.settled(before, traces.taken(world)),
            traces.PATIENCE_SECONDS,
        )  # fmt: skip
    world.found["left"] = traces.different(before, traces.taken(world))
    world.say("compared")


STEPS = (
    become_ready, install, report_and_offer, place, suppress, serve_a_proxy, leave, compare,
)  # fmt: skip


if __name__ == "__main__":
    status = tell(Operator, STEPS)
    sys.stdout.flush()
    # What it started ends with the namespace.
    os._exit(status)
