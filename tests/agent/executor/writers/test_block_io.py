# SPDX-License-Identifier: Apache-2.0
"""Claims on block devices of cgroup v2, against a plain model of what its io controller does."""

from __future__ import annotations

import copy
import errno
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.agent.executor import write_events
from koord.agent.executor.claim import Claim
from koord.agent.executor.host_executor import ExecutorOptions, HostExecutor
from koord.agent.executor.journal import Journal
from koord.agent.executor.writers.cgroup_files import CgroupFileWriter
from koord.base.clock import VirtualClock
from koord.kernels.cgroup import (
    CATALOGUE,
    Base,
    Outcome,
    Write,
    Written,
    file_text,
    says_same,
)
from koord.kernels.cgroup_parse import Version
from tests.agent.executor.rig import quick_directory
from tests.standins.blockio import COEFFICIENTS, Cost, Disks, IoGroup, Text
from tests.standins.model import File

POD, DEVICES = "pod", ("8:0", "8:16")
THROTTLES = {"blkio.throttle.read_bps_device": "rbps", "blkio.throttle.write_bps_device": "wbps",
             "blkio.throttle.read_iops_device": "riops",
             "blkio.throttle.write_iops_device": "wiops"}  # fmt: skip
WEIGHT, QOS, MODEL = "blkio.cost.weight", "blkio.cost.qos", "blkio.cost.model"
MOST_IOPS = 2**32 - 1


class BlockFiles:
    """Files of a cgroup and of the root, without a file system between."""

    version = Version.V2

    def __init__(self, root: IoGroup) -> None:
        self.root = root
        self.writes: list[str] = []

    def file(self, resource: str, directory: str) -> File:
        group = self.root.children[directory] if directory else self.root
        in_v2 = CATALOGUE[resource].v2
        assert in_v2 is not None
        found = group.entries().get(in_v2.name)
        if not isinstance(found, Text):
            raise FileNotFoundError(errno.ENOENT, "no such file", in_v2.name)
        return found

    def text(self, resource: str, directory: str) -> str:
        return self.file(resource, directory).read()

    def number(self, resource: str, directory: str) -> int:
        raise NotImplementedError

    def numbers(self, resource: str, directories: Sequence[str]) -> list[int | None]:
        raise NotImplementedError

    def texts(self, resource: str, directories: Sequence[str]) -> list[str | None]:
        raise NotImplementedError

    def is_absent(self, resource: str, directory: str) -> bool:
        return False

    def gone(self, resource: str, directory: str) -> bool:
        return False

    def write_leveled(
        self, levels: Sequence[Sequence[Write]], now_seconds: float
    ) -> list[list[Written]]:
        return [[self._write(each) for each in level] for level in levels]

    def _write(self, write: Write) -> Written:
        file = self.file(write.resource, write.directory)
        text = file_text(write.resource, self.version, write.value)
        if says_same(write.resource, self.version, text, file.read()):
            return Written(Outcome.UNCHANGED, 0, "")
        try:
            file.write(text)
        except OSError as error:
            none = error.errno == errno.EOPNOTSUPP
            outcome = Outcome.UNSUPPORTED if none else Outcome.FAILED
            return Written(outcome, error.errno or 0, str(error))
        self.writes.append(text)
        return Written(Outcome.WRITTEN, 0, "")


class Node:
    """An executor on the model."""

    def __init__(self, state: Path, root: IoGroup, **settings: Any) -> None:
        self.root, self.files, self.clock = root, BlockFiles(root), VirtualClock()
        self.told: list[write_events.WriteEvent] = []
        kind = CgroupFileWriter({Base.CGROUP: self.files})
        journal = Journal(state, "boot")
        chosen = ExecutorOptions(Version.V2, **settings)
        self.executor = HostExecutor([kind], journal, self.clock, chosen, self.told.append)

    def claim(self, owner: str, wanted: dict[tuple[str, str], str]) -> None:
        claims = [
            Claim(resource, "" if resource in (QOS, MODEL) else POD, f"{device} {value}", "test")
            for (resource, device), value in wanted.items()
        ]
        self.executor.state(owner, "s", claims)
        self.clock.advance(61)
        self.executor.settle()


def fresh(costs: dict[str, Cost | None] | None = None) -> IoGroup:
    root = IoGroup(Disks(dict.fromkeys(DEVICES) if costs is None else costs))
    root.mkdir(POD)
    return root


numbers = st.integers(1, 2**33)
qualities = st.builds(
    "enable=1 ctrl=user rpct={} rlat={} wpct={} wlat={}".format,
    st.integers(0, 100), st.integers(0, 9999), st.integers(0, 100), st.integers(0, 9999),
)  # fmt: skip
models = st.one_of(
    st.just("ctrl=auto"),
    st.tuples(*[numbers] * len(COEFFICIENTS)).map(
        lambda ns: " ".join(
            ["ctrl=user", *(f"{k}={n}" for k, n in zip(COEFFICIENTS, ns, strict=True))]
        )
    ),
)
wishes = st.fixed_dictionaries(
    {},
    optional={
        (resource, device): values
        for device in DEVICES
        for resource, values in {
            **dict.fromkeys(THROTTLES, st.one_of(st.just("0"), numbers.map(str))),
            WEIGHT: st.integers(1, 100).map(str), QOS: qualities, MODEL: models,
        }.items()
    },
)  # fmt: skip
limits = st.dictionaries(st.sampled_from(sorted(THROTTLES.values())), st.integers(1, MOST_IOPS - 1))


@st.composite
def kernels(draw: st.DrawFn) -> IoGroup:
    """A tree whose limits, weights and costs somebody set before koord came."""
    root = fresh()
    pod = root.children[POD]
    pod.weight = draw(st.sampled_from([100, 40]))
    for device in DEVICES:
        if held := draw(limits):
            pod.write_limits(f"{device} " + " ".join(f"{k}={n}" for k, n in held.items()))
        if draw(st.booleans()):
            enabled = draw(st.sampled_from(["enable=0", "enable=1"]))
            root.disks.write_quality(f"{device} {enabled}")
            if draw(st.booleans()):
                root.disks.write_quality(f"{device} {draw(qualities)} min=50.5 max=150 {enabled}")
            if draw(st.booleans()):
                root.disks.write_model(f"{device} {draw(models)}")
            if draw(st.booleans()):
                pod.write_weights(f"{device} {draw(st.integers(1, 10000))}")
    return root


def state_of(root: IoGroup) -> Any:
    """What somebody has set; a weight that is the default of all devices is none of a device."""
    pod = root.children[POD]
    weights = {device: own for device, own in pod.weights.items() if own != pod.weight}
    costs = {d: cost for d, cost in root.disks.costs.items() if cost not in (None, Cost())}
    held = {device: limits for device, limits in pod.limits.items() if limits}
    return copy.deepcopy((pod.weight, weights, held, costs))


def expect(before: Any, wanted: dict[tuple[str, str], str], weighable: set[str]) -> Any:
    """The state that wishes make of another."""
    weight, weights, held, costs = copy.deepcopy(before)
    for (resource, device), value in wanted.items():
        if resource in THROTTLES:
            name, own = THROTTLES[resource], held.setdefault(device, {})
            own.pop(name, None)
            if int(value) and not (name.endswith("iops") and int(value) >= MOST_IOPS):
                own[name] = int(value)
        elif resource == WEIGHT:
            weights.pop(device, None)
            if device in weighable and int(value) != weight:
                weights[device] = int(value)
        else:
            cost = costs.setdefault(device, Cost())
            words = dict(word.split("=") for word in value.split())
            user = words.pop("ctrl") == "user"
            if resource == QOS:
                cost.enabled, cost.user_quality = bool(int(words.pop("enable"))), user
                cost.quality |= {
                    name: f"{number}.00" if name.endswith("pct") else number
                    for name, number in words.items()
                }
            else:
                cost.user_model = user
                cost.model = {**(words if user else Cost().model)}
    held = {device: limits for device, limits in held.items() if limits}
    return weight, weights, held, {d: cost for d, cost in costs.items() if cost != Cost()}


@given(root=kernels(), first=wishes, second=wishes)
def test_what_is_claimed_holds_and_the_rest_stays_until_all_is_given_back(
    root: IoGroup, first: dict[tuple[str, str], str], second: dict[tuple[str, str], str]
) -> None:
    before, files = state_of(root), root.children[POD].print_weights()
    with quick_directory() as place:
        node = Node(Path(place), root)
        for wanted in (first, second, second):
            node.claim("blkio", wanted)
            node.claim("blkio", wanted)  # a weight may have waited for the cost of its device
            weighable = {device for device, cost in root.disks.costs.items() if cost}
            assert state_of(root) == expect(before, wanted, weighable)
            assert node.executor.failures() == []
        written = len(node.files.writes)
        node.claim("blkio", second)
        assert len(node.files.writes) == written
        assert node.executor.give_all_back() == []
        assert state_of(root) == before
        assert root.children[POD].print_weights() == files


@given(root=kernels(), wanted=wishes)
def test_a_dry_run_plans_what_differs_and_changes_nothing(
    root: IoGroup, wanted: dict[tuple[str, str], str]
) -> None:
    before = state_of(root)
    with quick_directory() as place:
        dry = Node(Path(place) / "dry", root, dry_run=True)
        dry.claim("blkio", wanted)
        assert state_of(root) == before
        planned = {told.target for told in dry.told if isinstance(told, write_events.WritePlanned)}
        wet = Node(Path(place) / "wet", root)
        wet.claim("blkio", wanted)
        wet.claim("blkio", wanted)
        written = {told.target for told in wet.told if isinstance(told, write_events.ValueWritten)}
        # What no device has a cost model for cannot be written, nor what comes to no limit at all.
        assert written <= planned
        assert all(
            each.resource == WEIGHT or int(wanted[each.resource, each.field]) >= MOST_IOPS
            for each in planned - written
        )


def test_a_limit_edited_by_hand_comes_back_and_that_is_told(tmp_path: Path) -> None:
    root = fresh()
    node = Node(tmp_path, root)
    wanted = {("blkio.throttle.read_bps_device", "8:0"): "5000"}
    node.claim("blkio", wanted)
    root.children[POD].write_limits("8:0 rbps=max wiops=7")
    node.claim("blkio", wanted)
    assert root.children[POD].limits == {"8:0": {"rbps": 5000, "wiops": 7}}
    last = node.told[-1]
    assert isinstance(last, write_events.ValueWritten)
    assert last.by_hand
    assert str(last.target) == "pod/blkio.throttle.read_bps_device[8:0]"
    assert node.executor.give_all_back() == []
    assert root.children[POD].limits == {"8:0": {"wiops": 7}}


def test_limits_of_one_line_belong_to_different_owners(tmp_path: Path) -> None:
    root = fresh()
    node = Node(tmp_path, root)
    node.claim("reader", {("blkio.throttle.read_bps_device", "8:0"): "5000"})
    node.claim("writer", {("blkio.throttle.write_bps_device", "8:0"): "7000"})
    assert root.children[POD].print_limits() == "8:0 rbps=5000 wbps=7000 riops=max wiops=max\n"
    node.claim("reader", {})
    assert root.children[POD].print_limits() == "8:0 rbps=max wbps=7000 riops=max wiops=max\n"


def test_a_weight_without_a_cost_model_is_told_once_and_is_no_failure(tmp_path: Path) -> None:
    node = Node(tmp_path, fresh())
    for _ in range(3):
        node.claim("blkio", {(WEIGHT, "8:0"): "60"})
    assert node.executor.failures() == []
    assert node.executor.unsupported() == [WEIGHT]
    attempts = [
        told.failure.attempts for told in node.told if isinstance(told, write_events.WriteFailed)
    ]
    assert attempts == [1, 2, 3]
    node.claim("blkio", {(WEIGHT, "8:0"): "60", (QOS, "8:0"): "enable=1 ctrl=user rpct=95 rlat=1 "
                         "wpct=95 wlat=1"})  # fmt: skip
    node.claim("other", {})
    assert node.executor.unsupported() == []
    assert node.root.children[POD].weights == {"8:0": 60}


@pytest.mark.parametrize("value", ["8:0", "8:0 -1", "8:0 x"])
def test_a_limit_that_is_none_is_refused(tmp_path: Path, value: str) -> None:
    node = Node(tmp_path, fresh())
    resource = "blkio.throttle.read_bps_device"
    node.executor.state("blkio", "s", [Claim(resource, POD, value, "test")])
    ((why,),) = node.executor.refused().values()
    assert "blkio.throttle.read_bps_device" in why
    assert "MAJ:MIN and values of 0 to 9223372036854775807" in why
