# SPDX-License-Identifier: Apache-2.0
"""The guest is the machine that the scenes need."""

from __future__ import annotations

import pytest

from tests.vm.machine import Guest, GuestError

pytestmark = pytest.mark.vm


def test_koord_reads_sockets_numa_nodes_and_smt_on_cgroup_v2(guest: Guest) -> None:
    seen = guest.run("tests.vm.look")
    assert seen["version"] == 2
    assert {"cpu", "cpuset", "memory", "io"} <= set(seen["controllers"])
    assert seen["pressure"] == ["cpu", "io", "memory"]
    assert seen["summary"] == {
        "cpus": 16, "cores": 8, "sockets": 2, "nodes": 2, "l3": 2, "threads_per_core": 2,
    }  # fmt: skip


def test_what_fails_in_the_guest_fails_here_with_its_words(guest: Guest) -> None:
    with pytest.raises(GuestError, match=r"(?s)tests.vm.none ended with 1.*No module named"):
        guest.run("tests.vm.none")


def test_what_takes_too_long_is_ended_and_the_guest_goes_on(guest: Guest) -> None:
    with pytest.raises(GuestError, match=r"http\.server timed out"):
        guest.run("http.server", 8000, timeout_seconds=3)
    assert guest.run("tests.vm.look")["version"] == 2


def test_a_guest_that_ended_is_started_anew_for_the_next_order(guest: Guest) -> None:
    with pytest.raises(GuestError, match="the guest ended"):
        guest.run("tests.vm.halt")
    assert guest.run("tests.vm.look")["version"] == 2
