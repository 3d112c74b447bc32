# SPDX-License-Identifier: Apache-2.0
"""What comes to pods that run: they are resized in place, and their kubelet is restarted."""

from __future__ import annotations

import json

from tests.node.cluster.visitor import Document, Visitor
from tests.node.machine import until

_FILES = ("cpuset.cpus", "cpu.cfs_quota_us", "memory.limit_in_bytes")
_MIB = 1 << 20


def resize_in_place(world: Visitor) -> None:
    """The kubelet updates a bound container with its own idea of CPUs."""
    bound = world.found["bound"]
    amounts = {"cpu": "1", "memory": "48Mi"}
    container = {"name": "main", "resources": {"requests": amounts, "limits": amounts}}
    patch = json.dumps({"spec": {"containers": [container]}})
    name = bound["metadata"]["name"]
    world.kubectl("patch", "pod", name, "--subresource=resize", f"--patch={patch}")
    wanted = str(48 * _MIB)
    until("the kubelet has resized it", lambda: world.read(_FILES[2], bound) == wanted)
    world.found["bound resized"] = _read(world, bound)
    world.say("resized in place")


def restart_kubelet(world: Visitor) -> None:
    """koordlet does without it meanwhile; its first list of pods may be empty."""
    missed, read = _said(world, "pods not read"), _said(world, "pods are read again")
    world.node.stop_kubelet()
    until("koordlet misses it", lambda: _said(world, "pods not read") > missed)
    world.node.start_kubelet()
    until("pods are read again", lambda: _said(world, "pods are read again") > read)
    name = world.found["bound"]["metadata"]["name"]
    bound = world.get("pods", "default", name)
    world.found["bound after a restart"] = _read(world, bound)
    world.found["restarts"] = [
        each["restartCount"] for each in bound["status"]["containerStatuses"]
    ]
    world.say("kubelet restarted")


def _said(world: Visitor, words: str) -> int:
    return world.node.log("koordlet").count(words)


def _read(world: Visitor, pod: Document) -> dict[str, str]:
    return {file: world.read(file, pod) for file in _FILES}
