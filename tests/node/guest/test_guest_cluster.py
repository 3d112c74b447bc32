# SPDX-License-Identifier: Apache-2.0
"""A cluster of one real node on cgroup v2, in the guest: `make test-node`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.ci import missing
from tests.node.cluster.judgement import Judgement
from tests.node.enter import MissingNodeError, hierarchies, run_inside
from tests.node.guest.control_plane import PROGRAMS, STORY_SECONDS
from tests.node.packages import MissingPackageError
from tests.node.packages import find as find_package
from tests.real.fixtures import need
from tests.vm import packages

pytestmark = pytest.mark.node

_PLANE = ("etcd", "kube-apiserver", "kube-controller-manager")
# To start, and to say what was seen.
_SECONDS = STORY_SECONDS + 600.0


@pytest.fixture(scope="module")
def story() -> Any:
    """What happened, as far as it came."""
    need(*PROGRAMS, *_PLANE)
    try:
        find_package("runc")
        packages.find()
        hierarchies()
    except (MissingPackageError, packages.MissingVmError, MissingNodeError) as error:
        missing(error)
    found = run_inside("tests.node.guest.control_plane", {}, _SECONDS, live=True)
    print(json.dumps(found, indent=1))
    return found


@pytest.fixture
def seen(story: Any) -> Any:
    """Its figures, of a story that was told to its end."""
    assert "failure" not in story, story["failure"]
    return story["figures"]


class TestInTheGuest(Judgement):
    """On cgroup v2: a quota of nothing, and what the runtime makes of 1024 shares."""

    no_quota = "max 100000"
    whole_cpu = "39"


def test_the_kernel_is_that_of_the_guest(seen: Any) -> None:
    assert seen["node"]["status"]["nodeInfo"]["kernelVersion"] == seen["release"]


def test_a_koordlet_that_is_restarted_leaves_containers_alone(seen: Any) -> None:
    """The same containers since the same time, with the same CPUs."""
    assert len(seen["before a restart"]) == 3
    assert seen["after a restart"] == seen["before a restart"]


def test_nothing_else_failed(story: Any) -> None:
    """But suppression, without a sample that is new enough, and what took too long."""
    known = "to act upon", "no answer in time"
    told = [line for line in story["figures"]["told"] if not any(part in line for part in known)]
    assert told == []
    assert "failure" not in story, json.dumps(story)
