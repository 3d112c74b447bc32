# SPDX-License-Identifier: Apache-2.0
"""A runtime without NRI: the proxy of the host calls koordlet's pod, as the chart lets it."""

from __future__ import annotations

import json
import urllib.request
from functools import partial
from typing import Any

from koord.cli.daemons.runtime_proxy import parse
from tests.deploy.units import proxy_command
from tests.node.installed.node import Operator
from tests.node.machine import until

# From here on koordlet has the runtime's seccomp profile, and its capabilities but SYS_RESOURCE:
# a machine that is a guest itself may have none to give.
SETTINGS: dict[str, Any] = {
    "hostDirs": {"koordProxyRegisterDir": "/etc/runtime/hookserver.d"},
    "privileged": False,
    "capabilities": ["DAC_OVERRIDE", "KILL", "PERFMON", "SYS_PTRACE"],
}
_PORT = 9318
_BATCH_CPU = "kubernetes.io/batch-cpu"
_FILES = ("cpu.shares", "cpu.cfs_quota_us", "memory.limit_in_bytes")


def put_proxy_between(world: Operator) -> None:
    """The runtime begins anew without NRI, and the kubelet with the proxy's socket."""
    node = world.node
    node.stop_kubelet()
    node.stop_containerd()
    node.nri = False
    node.start_containerd()
    _, *arguments = proxy_command()
    node.start_proxy(arguments)
    until("the proxy has its runtime", _is_ready)
    options, _ = parse(arguments)
    node.start_kubelet(containerRuntimeEndpoint=f"unix://{options.listen_path()}")
    world.say("the proxy is between kubelet and runtime")


def hook_by_proxy(world: Operator) -> None:
    """koordlet's pod, made through the proxy, serves it: a job's limits are there at its start."""
    until("koordlet serves the proxy", partial(_is_served, world))
    world.kubectl("delete", "job", "report", "--namespace=analytics", "--wait=true")
    # Its load goes with it.
    world.kubectl("delete", "pod", "--selector=app=web", "--wait=true")
    until("the service runs again", partial(world.running, "default", "web"))
    until("room for the job is offered", lambda: world.amount(_BATCH_CPU) >= 500)
    world.kubectl("apply", f"--filename={world.manifest('later')}")
    pod = until("a job runs", partial(world.running, "analytics", "", "job-name=later"))
    world.found["later"] = {file: world.read(file, pod) for file in _FILES}
    world.found["proxy"] = _ask("/status")
    world.found["hook server"] = world.node.status()["runtime"]["hookServer"]
    world.say("hooks come by the proxy")


def take_proxy_away(world: Operator) -> None:
    """The kubelet asks the runtime itself."""
    world.node.stop_kubelet()
    world.node.stop_proxy()
    world.node.start_kubelet()


def _is_served(world: Operator) -> bool:
    try:
        return bool(world.node.status()["runtime"]["hookServer"]["serving"])
    except (OSError, KeyError):
        return False


def _is_ready() -> bool:
    try:
        _ask("/readyz")
    except OSError:
        return False
    return True


def _ask(path: str) -> Any:
    with urllib.request.urlopen(f"http://127.0.0.1:{_PORT}{path}", timeout=20) as answer:
        text = answer.read()
    return json.loads(text) if path == "/status" else text.decode()
