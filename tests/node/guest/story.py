# SPDX-License-Identifier: Apache-2.0
"""What happens on the node of a cluster, in the guest; `tests.node.guest.prepare` runs it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from tests.node.cluster import story
from tests.node.cluster.control_plane import make_network
from tests.node.cluster.upkeep import resize_in_place
from tests.node.guest.kubelet import GuestVisitor
from tests.node.guest.prepare import SCRATCH, call

_CARD = "eth0"


def restart_koordlet(world: GuestVisitor) -> None:
    """It ends in order and comes back, as in an upgrade."""
    world.found["before a restart"] = _states(world)
    world.node.stop_koordlet()
    story.start_koordlet(world)
    world.node.wait_rounds(2)
    world.found["after a restart"] = _states(world)


def _states(world: GuestVisitor) -> dict[str, Any]:
    """Containers by pod, with what of them a restart must not touch."""
    return {
        pod["metadata"]["name"]: [
            *((each["containerID"], each["restartCount"], each["state"]["running"]["startedAt"])
              for each in pod["status"]["containerStatuses"]),
            world.read("cpuset.cpus", pod),
        ]
        for pod in world.all_pods()
    }  # fmt: skip


STEPS = (
    story.become_ready, story.place_services, story.use_reservation, story.reach_containers,
    restart_koordlet, resize_in_place, story.report_and_offer, story.suppress_and_evict,
)  # fmt: skip


def mount_scratch() -> None:
    """A disk for what a kubelet and a container runtime write."""
    call("mount", "-t", "ext4", "/dev/vdd", str(SCRATCH))
    (SCRATCH / "lib").mkdir()
    Path("/var/lib").mkdir()
    call("mount", "-o", "bind", str(SCRATCH / "lib"), "/var/lib")


def connect() -> None:
    """The node's address, which who asks from outside reaches by the bridge as pods do."""
    make_network()
    for words in (f"link set {_CARD} master cni0", f"link set {_CARD} up"):
        call("ip", *words.split())


if __name__ == "__main__":
    mount_scratch()
    connect()
    status = story.tell(GuestVisitor, STEPS)
    sys.stdout.flush()
    # What it started ends with the order.
    os._exit(status)
