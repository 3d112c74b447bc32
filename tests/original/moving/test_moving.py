# SPDX-License-Identifier: Apache-2.0
"""The original's programs and koord's at work on one cluster with a real node.

Moved one after the other as docs/guide-moving.md has it, and back; pods run all the while.
"""

from __future__ import annotations

import itertools
import json
import sys
from typing import Any

import pytest

from koord.kernels.cpuset import CPUSet
from tests.node.enter import MissingNodeError, hierarchies, run_inside
from tests.node.packages import MissingPackageError, find
from tests.original.moving import sides
from tests.original.source import PROGRAMS, MissingSourceError, Source
from tests.real.fixtures import need

pytestmark = pytest.mark.original

_PROGRAMS = (
    "containerd", "containerd-shim-runc-v2", "ctr", "etcd", "helm", "kube-apiserver",
    "kube-controller-manager", "kubectl", "kubelet",
)  # fmt: skip
_SECONDS = 900.0
_FORTH = tuple(f"{program} to koord" for program in sides.PROGRAMS)
_BACK = tuple(f"{program} to koordinator" for program in reversed(sides.PROGRAMS))
# Suppression writes it anew whenever load changes.
_MOVING = "cpu/kubepods/besteffort/cpu.cfs_quota_us"


@pytest.fixture(scope="module")
def story() -> Any:
    """What happened, as far as it came."""
    need(*_PROGRAMS)
    try:
        source = Source.at_hand()
        find("runc")
        hierarchies()
    except (MissingSourceError, MissingPackageError, MissingNodeError) as error:
        pytest.skip(str(error))
    source.build(PROGRAMS, lambda line: print(line, file=sys.stderr, flush=True))
    return run_inside("tests.original.moving.control_plane", {}, _SECONDS)


@pytest.fixture
def seen(story: Any) -> Any:
    """Its figures, of a story that was told to its end."""
    assert "failure" not in story, story["failure"]
    return story["figures"]


@pytest.fixture
def steps(seen: Any) -> Any:
    """What was seen after each step."""
    return seen["steps"]


def sides_at(steps: Any) -> list[dict[str, str]]:
    """Whose each program is after each step."""
    now = dict.fromkeys(sides.PROGRAMS, sides.ORIGINAL)
    found = [dict(now)]
    for step in steps[1:]:
        program, _, side = step["name"].partition(" to ")
        now[program] = sides.OURS if side == "koord" else sides.ORIGINAL
        found.append(dict(now))
    return found


def test_each_program_is_moved_and_moved_back(steps: Any) -> None:
    assert tuple(step["name"] for step in steps) == ("koordinator", *_FORTH, *_BACK)
    assert set(sides_at(steps)[-1].values()) == {sides.ORIGINAL}


def test_no_container_is_restarted(steps: Any) -> None:
    """Nor made anew."""
    first = steps[0]["containers"]
    for containers in first.values():
        assert [(restarts, state) for _, restarts, state in containers] == [(0, ["running"])]
    assert all(step["containers"] == first for step in steps)


def test_no_binding_is_lost(steps: Any) -> None:
    assert len({step["resource status"] for step in steps}) == 1


def test_no_cpu_is_given_twice(steps: Any) -> None:
    """Pods of both schedulers, all of which stay on one machine."""
    given = [CPUSet.parse(step["bound cpus"]) for step in steps]
    assert all(len(cpus) == 2 for cpus in given)
    assert not any(a & b for a, b in itertools.combinations(given, 2)), given


def test_pods_are_changed_and_run_at_each_step(steps: Any) -> None:
    for step in steps:
        assert (step["service"]["qos"], step["service"]["class"]) == ("LS", "koord-prod")


def test_files_say_the_same_after_each_step(steps: Any) -> None:
    first = {name: value for name, value in steps[0]["files"].items() if name != _MOVING}
    status = json.loads(steps[0]["resource status"])
    assert CPUSet.parse(first["bound container cpuset.cpus"]) == CPUSet.parse(status["cpuset"])
    assert first["batch container cpu.cfs_quota_us"] == "20000"
    for step in steps:
        assert {name: step["files"][name] for name in first} == first, step["name"]


def test_only_one_side_writes(steps: Any) -> None:
    """By the API server's audit log, from when a step was done."""
    for step, now in zip(steps, sides_at(steps), strict=True):
        writers = {user for users in step["writers"].values() for user in users}
        assert writers <= {sides.user(side, program) for program, side in now.items()}, step


def test_batch_resources_are_offered_all_the_while(seen: Any) -> None:
    offered = [value for _, value in seen["changes"]["kubernetes.io/batch-cpu"]]
    assert all(offered), offered


def test_protection_is_the_same_whoever_reckons_it(steps: Any) -> None:
    assert all(step["slo"] == steps[0]["slo"] for step in steps)


def test_the_agent_of_either_side_reports_all_pods(steps: Any) -> None:
    for step in steps:
        assert len([name for name in step["metric"]["pods"] if "service-" not in name]) == 4, step


def test_the_check_says_whose_each_program_is(steps: Any) -> None:
    for step, now in zip(steps, sides_at(steps), strict=True):
        moved = {
            component["name"]
            for component in step["check"]["components"]
            for change in component["changes"]
            if change["why"] == "is koord's already"
        }
        assert moved == {each for each, side in now.items() if side == sides.OURS}, step["check"]
