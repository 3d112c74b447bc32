# SPDX-License-Identifier: Apache-2.0
"""Koordinator's programs become koord's one after the other, and its own again, while pods run.

``python -m tests.original.moving.story ORDER``; the order and the commands are the guide's.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from koord.kernels.cpuset import CPUSet
from tests.cli.commands.check.manifests import NAMESPACE
from tests.deploy.chart_files import CHART
from tests.node.cluster.control_plane import NODE
from tests.node.cluster.story import tell
from tests.node.cluster.visitor import Document
from tests.node.machine import until
from tests.original.moving import sides
from tests.original.moving.node import Mover
from tests.original.moving.watch import METRIC, SLO, Watch
from tests.original.source import Source

_BATCH_CPU = "kubernetes.io/batch-cpu"
_STATUS = "scheduling.koordinator.sh/resource-status"
_MACHINE = "machine-001"
_OWN_POD = "agent"
_QUOTA = "batch container cpu.cfs_quota_us"
_OVERLAP_SECONDS = 5.0
_CONFIGURATION = {
    "colocation-config": {
        "enable": True, "cpuReclaimThresholdPercent": 90, "metricReportIntervalSeconds": 1,
        "metricAggregateDurationSeconds": 10, "resourceDiffThreshold": 0.05,
    },
    "resource-threshold-config": {"clusterStrategy": {"enable": True}},
}  # fmt: skip
_SECTIONS = {name: json.dumps(section) for name, section in _CONFIGURATION.items()}
# Names of the chart's values.
_SWITCHES = {
    sides.SCHEDULER: "scheduler", sides.MANAGER: "manager", sides.DESCHEDULER: "descheduler",
    sides.KOORDLET: "koordlet",
}  # fmt: skip


def begin(world: Mover) -> None:
    """All programs are the original's."""
    world.node.start_kubelet()
    until("the node is ready", world.ready_node)
    world.create("configmaps", NAMESPACE, _slo_configuration())
    for program in sides.LEASES:
        world.run_program(sides.ORIGINAL, program)
    until("the original leads", partial(_leads, world, *sides.LEASES, side=sides.ORIGINAL))
    until("its webhooks are called", partial(_are_called, world, sides.ORIGINAL))
    world.say("the original leads")
    # Koordinator's koordlet waits for a pod of the kubelet's; where it runs in one there always is.
    amounts = {"requests": {"cpu": "10m"}}
    pod = _pod(_OWN_POD, {}, amounts, NODE)
    pod["spec"]["nodeName"] = NODE
    world.create("pods", "default", pod)
    until(f"{_OWN_POD} runs", partial(world.running, "default", _OWN_POD))
    world.node.start_agent(sides.ORIGINAL)
    until("it offers batch CPUs", lambda: world.amount(_BATCH_CPU))
    world.say("the original serves the node")


def run_pods(world: Mover) -> None:
    """A pod with CPUs of its own, a service and a batch job; they run until the end."""
    world.kubectl("apply", f"--filename={world.manifest('workloads')}")
    pods = {}
    for app in ("bound", "web"):
        pods[app] = until(f"{app} runs", partial(world.running, "default", app))
    until("room for the job is offered", lambda: world.amount(_BATCH_CPU) >= 200)
    world.kubectl("apply", f"--filename={world.manifest('batch')}")
    job = partial(world.running, "analytics", "", "job-name=report")
    pods["batch"] = until("the job runs", job)
    world.pods_at_first = pods
    world.watch = Watch(world.api(), pods)
    until("the job has its limits", lambda: world.watch.files()[_QUOTA] == "20000")
    _see(world, "koordinator")


def move(program: str, world: Mover) -> None:
    """From the original to koord."""
    _helm(world, moved=world.moved | {program})
    if program == sides.MANAGER:
        _forget_webhooks(world)
        names = ("rbac/koord-webhook.yaml", "webhook/koord-webhook.yaml")
        world.kubectl("apply", *(f"--filename=deploy/{name}" for name in names))
    world.issue(program)
    if program == sides.KOORDLET:
        world.node.stop_agent(sides.ORIGINAL)
        world.node.start_agent(sides.OURS, "--restore-on-exit=false")
    else:
        _hand_over(world, program, sides.ORIGINAL, sides.OURS)
    _see(world, f"{program} to koord")


def move_back(program: str, world: Mover) -> None:
    """From koord to the original: disabled, then the other release puts its own back."""
    if program == sides.KOORDLET:
        world.node.stop_agent(sides.OURS)
        world.node.start_agent(sides.OURS, "--restore-on-exit=true")
        _helm(world, moved=world.moved - {program})
        world.node.stop_agent(sides.OURS)
    else:
        _helm(world, moved=world.moved - {program})
        world.end_program(sides.OURS, program)
    if program == sides.MANAGER:
        _forget_webhooks(world)
    world.say(f"{program} is disabled")
    world.apply(sides.objects(Source.at_hand(), program))
    if program == sides.KOORDLET:
        world.node.start_agent(sides.ORIGINAL)
    else:
        if program == sides.MANAGER:
            world.apply([_slo_configuration()])
        world.run_program(sides.ORIGINAL, program)
        until("the original leads", partial(_leads, world, program, side=sides.ORIGINAL))
    if program == sides.MANAGER:
        until("its webhooks are called", partial(_are_called, world, sides.ORIGINAL))
    _see(world, f"{program} to koordinator")


def finish(world: Mover) -> None:
    """What was watched all the while."""
    world.watch.end()
    world.found["changes"] = world.watch.changes
    world.found["watch failures"] = world.watch.failures


STEPS: tuple[Callable[[Any], None], ...] = (
    begin, run_pods, *(partial(move, each) for each in sides.PROGRAMS),
    *(partial(move_back, each) for each in reversed(sides.PROGRAMS)), finish,
)  # fmt: skip


def _slo_configuration() -> Document:
    meta = {"name": "slo-controller-config", "namespace": NAMESPACE}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": _SECTIONS}


def _helm(world: Mover, moved: set[str]) -> None:
    """The guide's command."""
    switches = {f"{name}.enabled": program in moved for program, name in _SWITCHES.items()}
    switches |= {"installation.createNamespace": False, "webhookConfiguration.enabled": False}
    given = [word for key, on in switches.items() for word in ("--set", f"{key}={str(on).lower()}")]
    replicas = {name: {"replicas": 0} for name in ("scheduler", "manager", "descheduler")}
    values = world.node.folder / "values.yaml"
    values.write_text(yaml.safe_dump({**replicas, "sloControllerConfig": _SECTIONS}))
    world.helm(
        "upgrade", "--install", "koord", CHART, "-f", values, "--take-ownership", *given,
    )  # fmt: skip
    world.moved = moved


def _forget_webhooks(world: Mover) -> None:
    """They name an address here, since nothing routes to a Service, so helm cannot change them."""
    for form in ("mutating", "validating"):
        name = f"koordinator-{form}-webhook-configuration"
        world.kubectl("delete", f"{form}webhookconfiguration", name)


def _hand_over(world: Mover, program: str, before: str, after: str) -> None:
    """As a rolling update has it: the new one is there before the old one goes."""
    world.run_program(after, program)
    mark = world.watch.seconds() + _OVERLAP_SECONDS
    until("both have been there for a while", lambda: world.watch.seconds() > mark)
    world.check_programs()
    assert _leads(world, program, side=before)
    world.say(f"both {program} run")
    world.end_program(before, program)
    until(f"{after} leads", partial(_leads, world, program, side=after))
    if program == sides.MANAGER:
        until("its webhooks are called", partial(_are_called, world, after))


def _leads(world: Mover, *programs: str, side: str) -> bool:
    """Whether a side was the last to write their Leases, and holds them."""
    last = world.lease_writers()
    world.check_programs()
    for program in programs:
        name = sides.LEASES[program]
        if last.get(name) != sides.user(side, program):
            return False
        if not world.get("leases", NAMESPACE, name)["spec"].get("holderIdentity"):
            return False
    return True


def _are_called(world: Mover, side: str) -> bool:
    name = "koordinator-mutating-webhook-configuration"
    found = world.get("mutatingwebhookconfigurations", "", name)["webhooks"]
    url = f"https://127.0.0.1:{sides.webhook_port(side)}/"
    return all(each["clientConfig"].get("url", "").startswith(url) for each in found)


# -- what is seen after each step --------------------------------------------------------------


def _see(world: Mover, name: str) -> None:
    """Tries a pod of each kind, waits for a report of the agent, and writes all down."""
    since = world.audited()
    number = len(world.steps)
    service = _try_service(world, number)
    cpus = _try_bound(world, number)
    start = world.watch.changes.get("metric", [(0.0, "")])[-1][1]
    until("the agent reports", lambda: world.watch.changes["metric"][-1][1] != start)
    metric = world.get(METRIC, "", NODE)["status"]
    world.steps.append({
        "name": name, "seconds": world.watch.seconds(),
        "holders": {
            lease: world.get("leases", NAMESPACE, lease)["spec"].get("holderIdentity")
            for lease in sides.LEASES.values()
        },
        "writers": _writers(world, since),
        "files": world.watch.files(),
        "containers": _containers(world),
        "resource status": _bound(world)["metadata"]["annotations"][_STATUS],
        "offered": world.amount(_BATCH_CPU),
        "slo": world.get(SLO, "", NODE)["spec"],
        "metric": {
            "node": metric.get("nodeMetric", {}).get("nodeUsage"),
            "pods": sorted(each["name"] for each in metric.get("podsMetric", [])),
        },
        "service": service, "bound cpus": cpus, "check": _check(world),
    })  # fmt: skip
    world.check_programs()
    world.say(name)


def _bound(world: Mover) -> Document:
    return world.get("pods", "default", world.pods_at_first["bound"]["metadata"]["name"])


def _containers(world: Mover) -> dict[str, list[Any]]:
    found = {}
    for name, pod in world.pods_at_first.items():
        meta = pod["metadata"]
        now = world.get("pods", meta["namespace"], meta["name"])
        found[name] = [
            [each["containerID"], each["restartCount"], sorted(each["state"])]
            for each in now["status"]["containerStatuses"]
        ]
    return found


def _writers(world: Mover, since: int) -> dict[str, list[str]]:
    """Who wrote what, of what either side's programs write."""
    found: dict[str, set[str]] = {}
    for event in world.written(since):
        reference, user = event["objectRef"], event["user"]["username"]
        if not user.startswith(("original:", f"system:serviceaccount:{NAMESPACE}:")):
            continue
        parts = (reference["resource"], reference.get("subresource"))
        key = "/".join(part for part in parts if part)
        found.setdefault(key, set()).add(user)
    return {key: sorted(users) for key, users in sorted(found.items())}


def _try_service(world: Mover, number: int) -> dict[str, Any]:
    """A plain pod: changed by a profile, placed, and run."""
    name = f"service-{number}"
    amounts = {"requests": {"cpu": "20m"}}
    world.create("pods", "default", _pod(name, {"tier": "service"}, amounts, NODE))
    pod = until(f"{name} runs", partial(world.running, "default", name))
    found = {
        "qos": pod["metadata"]["labels"].get("koordinator.sh/qosClass"),
        "class": pod["spec"].get("priorityClassName"), "cpuset": world.read("cpuset.cpus", pod),
    }  # fmt: skip
    world.kubectl("delete", "pod", name, "--wait=true")
    return found


def _try_bound(world: Mover, number: int) -> str:
    """A pod with two CPUs of its own, which stays on the simulated machine."""
    name = f"kept-{number}"
    amounts = {"limits": {"cpu": "2", "memory": "64Mi"}}
    world.create("pods", "default", _pod(name, {"tier": "bound"}, amounts, _MACHINE))

    def status() -> str:
        meta = world.get("pods", "default", name)["metadata"]
        return str(meta.get("annotations", {}).get(_STATUS, ""))

    return str(CPUSet.parse(json.loads(until(f"{name} has CPUs", status))["cpuset"]))


def _pod(name: str, labels: dict[str, str], resources: Document, node: str) -> Document:
    container = {
        "name": "main", "image": "example.test/busybox:1", "resources": resources,
        "command": ["/bin/sh", "-c", "exec sleep 100000"],
    }  # fmt: skip
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name, **labels}},
        "spec": {
            "terminationGracePeriodSeconds": 0, "containers": [container],
            "nodeSelector": {"kubernetes.io/hostname": node},
        },
    }  # fmt: skip


def _check(world: Mover) -> dict[str, Any]:
    """What ``koord check --from koordinator --cluster`` says."""
    call = [str(Path(sys.executable).with_name("koord")), "check", "--from", "koordinator"]
    kubeconfig = world.kubeconfig
    done = subprocess.run(
        [*call, "--cluster", "--kubeconfig", str(kubeconfig), "-o", "json"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    try:
        found = json.loads(done.stdout)
    except ValueError:
        found = {"said": done.stdout + done.stderr}
    return {"status": done.returncode, **found}


if __name__ == "__main__":
    status = tell(Mover, STEPS)
    sys.stdout.flush()
    os._exit(status)
