# SPDX-License-Identifier: Apache-2.0
"""Traffic classes on the kernel of the guest, whose cgroups are v2: `make test-node`."""

from __future__ import annotations

from typing import Any

import pytest

from tests.ci import IN_CI
from tests.node.guest import tools_disk
from tests.scenes.network_scene import BE_LIMIT, TOTAL
from tests.scenes.test_network import BUILT, OWN, carried, check_tools
from tests.vm import packages
from tests.vm.machine import Guest

pytestmark = pytest.mark.node

SECONDS = 1800.0


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Any:
    check_tools()
    try:
        programs = packages.find()
        disk = tools_disk.write(programs, tmp_path_factory.mktemp("guest"))
    except packages.MissingVmError as error:
        if IN_CI:
            pytest.fail(str(error))
        pytest.skip(str(error))
    with Guest(echo=True, disks=[disk], hardware=("-smp", "4", "-m", "2G")) as guest:
        order = {"stories": ["tables", "sockets_v2", "pods"]}
        return guest.run("tests.node.guest.network", order, SECONDS)


def test_tables_of_many_sizes_are_in_the_kernel_as_they_were_made(seen: Any) -> None:
    assert seen["tables"] == {"wrong": [], "left": False}


def test_sockets_of_the_nodes_network_by_their_cgroup(seen: Any) -> None:
    assert seen["sockets_v2"]["failures"] == []
    carried(seen["sockets_v2"]["be"], BE_LIMIT, "1:4", "1:fff4", "1:1")


def test_classes_hold_real_traffic_and_are_gone_at_the_end(seen: Any) -> None:
    """What an emulated processor sends is less than what services may."""
    pods = seen["pods"]
    (own,) = pods["classes"].keys() - BUILT.keys()
    assert pods["classes"] == {**BUILT, own: OWN}
    assert (pods["before"], pods["during"], pods["failures"]) == ("noqueue 0:", "htb 1:", [])
    carried(pods["be"], BE_LIMIT, "1:4", "1:fff4", "1:1")
    for sent, class_ in (("ls", "1:3"), ("node", "1:2")):
        busiest = max((name for name in pods[sent] if name in BUILT), key=pods[sent].__getitem__)
        assert class_ in pods[sent], (busiest, pods[sent])
        assert pods[sent][class_] < 1.1 * TOTAL
    assert (pods["idle"], pods["mended"], pods["left"]) == ([], True, [own])
    assert (pods["old"], pods["new"]) == ("noqueue 0:", "htb 1:")
    assert (pods["remaining"], pods["after"], pods["gone"]) == ([], "noqueue 0:", True)
