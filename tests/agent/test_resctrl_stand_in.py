# SPDX-License-Identifier: Apache-2.0
"""The whole agent over a stand-in of resctrl, for Intel and for AMD: no such hardware is needed.

The stand-in is mounted and refuses what the kernel refuses; threads are those of real processes.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from koord.agent.app import Agent
from koord.agent.states.pod_state import PodState, pod_state
from koord.api.kinds.meta import ObjectMeta
from koord.api.kinds.nodeslo import NodeSLO
from koord.api.kinds.pod import Pod
from koord.api.protocol import keys
from koord.kernels.resctrl import Schemata, parse_schemata
from koord.kube.patches import Patch
from tests.agent.machine_tree import Group
from tests.agent.test_app import NODE, Stage, on_stage
from tests.standins.fuse import MissingFuseError, mounted
from tests.standins.resctrl import Hardware, Resctrl, amd, intel

# Settled once a second; threads are looked at every 10 s, every file once a minute.
ROUND, THREADS, FORCED = 3, 15, 75
CLASSES = {"LSR": (0, 100, 100), "LS": (0, 100, 90), "BE": (0, 30, 25)}
OWN = {"llc": {"schemata": {"range": [0, 50]}}, "mb": {"schemata": {"percent": 20}}}
EDITED = {
    "llc": {"schemata": {"range": [50, 100]},
            "schemataPerCache": [{"cacheID": 0, "range": [0, 100]}]},
    "mb": {"schemata": {"percent": 60}},
}  # fmt: skip


@dataclass(frozen=True)
class Vendor:
    """What the stand-in is of, and the masks and bandwidths that the percentages come to there."""

    id: str
    hardware: Hardware
    classes: dict[str, tuple[int, int]]
    own: tuple[int, int]
    edited: tuple[int, int, int]
    by_hand: str


# 11 ways: 30 percent are 4 and 50 percent 6; steps of 10 percent. 16 ways: 5 and 8; eighths of a
# GB/s, 160 of which are all of a CCD, 2048 no limit.
VENDORS = [
    Vendor("GenuineIntel", intel(), {"LSR": (0x7FF, 100), "LS": (0x7FF, 90), "BE": (0xF, 30)},
           (0x3F, 20), (0x7FF, 0x7C0, 60), "MB:0=70\nL3:1=3\n"),
    Vendor("AuthenticAMD", amd(), {"LSR": (0xFFFF, 2048), "LS": (0xFFFF, 144), "BE": (0x1F, 40)},
           (0xFF, 32), (0xFFFF, 0xFF00, 96), "MB:0=2048\nL3:8=a005\n"),
]  # fmt: skip


class Node:
    """The stage with a mounted stand-in, and pods whose processes run."""

    def __init__(self, stage: Stage, mount: Path, vendor: Vendor) -> None:
        self.stage, self.mount, self.vendor = stage, mount, vendor
        self.pods: dict[str, PodState] = {}
        self.threads: dict[str, set[int]] = {}
        self._processes, self._configured = ExitStack(), False
        flags = f"vendor_id\t: {vendor.id}\nmodel name\t: Fast\nflags\t: fpu cat_l3 mba\n"
        stage.tree.write("proc/cpuinfo", flags)

    @contextmanager
    def processes(self) -> Iterator[None]:
        """They end with the test."""
        with self._processes:
            yield

    async def configure(self, *, enable: bool = True, bandwidth: int | None = None) -> None:
        """The NodeSLO with a part for every class; one bandwidth for all where it is given."""
        strategy = {
            f"{name.lower()}Class": {
                "resctrlQOS": {"enable": enable, "catRangeStartPercent": start,
                               "catRangeEndPercent": end, "mbaPercent": bandwidth or own},
            }
            for name, (start, end, own) in CLASSES.items()
        }  # fmt: skip
        if not self._configured:
            await self.stage.admin.create(NodeSLO(metadata=ObjectMeta(name=NODE)))
            self._configured = True
        change = Patch.merge({"spec": {"resourceQOSStrategy": strategy}})
        await self.stage.admin.patch(NodeSLO, NODE, change)

    async def start(self, name: str, qos: str, own: Any = None) -> None:
        """A pod of one container and a sandbox, with a process in each."""
        labels = {"koordinator.sh/qosClass": qos}
        annotations = {} if own is None else {keys.RESCTRL: json.dumps(own)}
        amounts = {"cpu": "1", "memory": "1Gi"}
        if qos == "BE":
            amounts = {"kubernetes.io/batch-cpu": "1000", "kubernetes.io/batch-memory": "1Gi"}
        resources = {"requests": amounts, "limits": amounts}
        document = {
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": "default", "labels": labels,
                         "annotations": annotations},
            "spec": {"nodeName": NODE,
                     "containers": [{"name": "c", "image": "i", "resources": resources}]},
        }  # fmt: skip
        status = {
            "name": "c", "containerID": f"containerd://{name}c", "ready": True, "restartCount": 0,
            "state": {"running": {"startedAt": "2030-03-17T17:46:40Z"}}, "image": "i",
            "imageID": "i",
        }  # fmt: skip
        await self.stage.admin.create(document, "default")
        change = Patch.merge({"status": {"phase": "Running", "containerStatuses": [status]}})
        made = await self.stage.admin.patch(Pod, name, change, "default", "status")
        pod = pod_state(made, self.stage.tree.machine().layout)
        sandbox = f"{pod.directory}/cri-containerd-{name}sandbox.scope"
        directories = [pod.containers[0].directory, sandbox]
        self.stage.tree.group(pod.directory, Group())
        for directory in directories:
            self.stage.tree.group(directory, Group())
            self.run(name, directory)
        self.pods[name] = pod

    def run(self, name: str, directory: str) -> None:
        """One more process of a pod."""
        process = self._processes.enter_context(subprocess.Popen(["sleep", "3600"]))
        self._processes.callback(process.kill)
        self.threads.setdefault(name, set()).add(process.pid)
        place = self.stage.tree.root / "sys/fs/cgroup/cpu" / directory / "tasks"
        with place.open("a") as tasks:
            tasks.write(f"{process.pid}\n")

    async def annotate(self, name: str, own: Any) -> None:
        """A new annotation, or none."""
        text = None if own is None else json.dumps(own)
        change = Patch.merge({"metadata": {"annotations": {keys.RESCTRL: text}}})
        await self.stage.admin.patch(Pod, name, change, "default")

    async def end(self, name: str) -> None:
        """The pod goes, with its cgroups."""
        pod = self.pods.pop(name)
        for place in sorted((self.stage.tree.root / "sys/fs/cgroup").glob(f"*/{pod.directory}/*/")):
            directory = f"{pod.directory}/{place.name}"
            self.stage.tree.remove(directory)
        self.stage.tree.remove(pod.directory)
        await self.stage.admin.delete(Pod, name, "default", grace_period_seconds=0)

    # -- what the stand-in says ----------------------------------------------------------------

    def groups(self) -> set[str]:
        return {
            place.name
            for place in self.mount.iterdir()
            if place.is_dir() and place.name not in ("info", "mon_data", "mon_groups")
        }

    def schemata(self, group: str = "") -> Schemata:
        return parse_schemata((self.mount / group / "schemata").read_text())

    def tasks(self, group: str = "") -> set[int]:
        return {int(line) for line in (self.mount / group / "tasks").read_text().split()}

    def own_group(self, name: str) -> str:
        return f"koordlet-{self.pods[name].uid}"

    def everywhere(self, mask: int, bandwidth: int) -> Schemata:
        ids = self.vendor.hardware.cache_ids
        return Schemata(dict.fromkeys(ids, mask), dict.fromkeys(ids, bandwidth))

    def check_classes(self) -> None:
        for group, (mask, bandwidth) in self.vendor.classes.items():
            assert self.schemata(group) == self.everywhere(mask, bandwidth), group


Story = Callable[[Node, Agent], Awaitable[None]]


def live(folder: Path, vendor: Vendor, story: Story, groups: dict[str, str] | None = None) -> None:
    """An agent's life on a stand-in, from configuration to stop.

    Args:
        folder: for all files.
        vendor: whose rules the stand-in has.
        story: what happens while the agent runs.
        groups: that somebody made before, with their schemata.
    """
    mount = folder / "machine/sys/fs/resctrl"
    mount.mkdir(parents=True)
    before = groups or {}

    async def whole(stage: Stage) -> None:
        node = Node(stage, mount, vendor)
        for group, text in before.items():
            (mount / group).mkdir()
            (mount / group / "schemata").write_text(text)
        found = {group: node.schemata(group) for group in ["", *before]}
        with node.processes():
            await node.configure()
            for name, qos in (("lsr", "LSR"), ("ls", "LS"), ("be", "BE")):
                await node.start(name, qos)
            async with stage.running() as agent:
                await asyncio.sleep(ROUND)
                await story(node, agent)
                assert agent.executor.failures() == []
            # All as it was: groups, their lines, and every thread in the root group again.
            assert node.groups() == set(before)
            assert {group: node.schemata(group) for group in ["", *before]} == found
            assert set().union(*node.threads.values()) <= node.tasks()

    try:
        with mounted(lambda: Resctrl(vendor.hardware), mount):
            on_stage(folder, whole, "RdtResctrl=true,Resctrl=true")
    except MissingFuseError as error:
        pytest.skip(str(error))


@pytest.fixture(params=VENDORS, ids=lambda vendor: vendor.id)
def vendor(request: pytest.FixtureRequest) -> Vendor:
    found: Vendor = request.param
    return found


def test_classes_get_their_groups_on_a_stand_in(tmp_path: Path, vendor: Vendor) -> None:
    async def story(node: Node, agent: Agent) -> None:
        assert node.groups() == {"LSR", "LS", "BE"}
        node.check_classes()
        for group in ("LSR", "LS", "BE"):
            assert node.tasks(group) == node.threads[group.lower()]
        # A pod that comes later, and a process that a running one starts.
        await node.start("late", "BE")
        node.run("ls", node.pods["ls"].containers[0].directory)
        await asyncio.sleep(THREADS)
        assert node.tasks("BE") == node.threads["be"] | node.threads["late"]
        assert node.tasks("LS") == node.threads["ls"]
        assert len(node.threads["ls"]) == 3

    live(tmp_path, vendor, story)


def test_classes_that_are_switched_off_leave_their_threads_on_a_stand_in(
    tmp_path: Path, vendor: Vendor
) -> None:
    async def story(node: Node, agent: Agent) -> None:
        await node.configure(enable=False)
        await asyncio.sleep(THREADS)
        assert set().union(*node.threads.values()) <= node.tasks()
        await node.configure(bandwidth=100)
        await asyncio.sleep(THREADS)
        full = node.vendor.hardware.bandwidth_max
        for group, (mask, _) in node.vendor.classes.items():
            assert node.schemata(group) == node.everywhere(mask, full)
            assert node.tasks(group) == node.threads[group.lower()]

    live(tmp_path, vendor, story)


def test_a_pods_own_group_follows_its_annotation_on_a_stand_in(
    tmp_path: Path, vendor: Vendor
) -> None:
    async def story(node: Node, agent: Agent) -> None:
        await node.start("own", "LS", OWN)
        await asyncio.sleep(THREADS)
        group = node.own_group("own")
        assert node.schemata(group) == node.everywhere(*vendor.own)
        assert node.tasks(group) == node.threads["own"]
        await node.annotate("own", EDITED)
        await asyncio.sleep(ROUND)
        first, second = vendor.hardware.cache_ids
        on_first, elsewhere, bandwidth = vendor.edited
        edited = Schemata({first: on_first, second: elsewhere},
                          {first: bandwidth, second: bandwidth})  # fmt: skip
        assert node.schemata(group) == edited
        assert node.tasks(group) == node.threads["own"]
        # Without it the pod is one of its class again; with it anew, it leaves that again.
        await node.annotate("own", None)
        await asyncio.sleep(THREADS)
        assert group not in node.groups()
        assert node.tasks("LS") == node.threads["ls"] | node.threads["own"]
        await node.annotate("own", OWN)
        await asyncio.sleep(THREADS)
        assert node.tasks("LS") == node.threads["ls"]
        assert node.tasks(group) == node.threads["own"]
        await node.end("own")
        await asyncio.sleep(THREADS)
        assert node.groups() == {"LSR", "LS", "BE"}
        assert agent.reconciler.problems() == {}

    live(tmp_path, vendor, story)


def test_what_a_hand_does_to_groups_of_a_stand_in_is_put_back(
    tmp_path: Path, vendor: Vendor
) -> None:
    async def story(node: Node, agent: Agent) -> None:
        await node.start("own", "LS", OWN)
        await asyncio.sleep(THREADS)
        group = node.own_group("own")
        for edited in ("BE", group):
            (node.mount / edited / "schemata").write_text(vendor.by_hand)
        for thread in node.threads["be"]:
            (node.mount / "tasks").write_text(f"{thread}\n")
        (node.mount / "LSR").rmdir()
        await asyncio.sleep(THREADS)
        assert node.tasks("BE") == node.threads["be"]
        await asyncio.sleep(FORCED - THREADS)
        node.check_classes()
        assert node.schemata(group) == node.everywhere(*vendor.own)
        assert node.tasks("LSR") == node.threads["lsr"]

    live(tmp_path, vendor, story)


def test_a_group_of_a_stand_in_that_was_there_before_stays_as_it_was(
    tmp_path: Path, vendor: Vendor
) -> None:
    async def story(node: Node, agent: Agent) -> None:
        node.check_classes()
        assert node.tasks("BE") == node.threads["be"]

    live(tmp_path, vendor, story, {"BE": vendor.by_hand, "other": vendor.by_hand})
