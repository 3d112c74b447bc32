# SPDX-License-Identifier: Apache-2.0
"""Traffic classes on the kernel of the guest, whose cgroups are v2: `make test-node`.

Which packets are in which class is judged, and not that ceilings hold them back: what an emulated
processor sends beside other work may be less.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.ci import missing
from tests.node.guest import tools_disk
from tests.scenes.network_scene import BE_LIMIT, OWN_LIMIT, TOTAL
from tests.scenes.test_network import BUILT, OWN, belonged, check_tools
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
        missing(error)
    with Guest(echo=True, disks=[disk], hardware=("-smp", "4", "-m", "2G")) as guest:
        order = {"stories": ["tables", "sockets_v2", "pods"]}
        return guest.run("tests.node.guest.network", order, SECONDS)


def test_tables_of_many_sizes_are_in_the_kernel_as_they_were_made(seen: Any) -> None:
    assert seen["tables"] == {"wrong": [], "left": False}


def test_sockets_of_the_nodes_network_by_their_cgroup(seen: Any) -> None:
    assert seen["sockets_v2"]["failures"] == []
    belonged(seen["sockets_v2"]["be"], BE_LIMIT, "1:4", "1:fff4", "1:1")


def test_classes_hold_real_traffic_and_are_gone_at_the_end(seen: Any) -> None:
    pods = seen["pods"]
    (own,) = pods["classes"].keys() - BUILT.keys()
    assert pods["classes"] == {**BUILT, own: OWN}
    assert (pods["before"], pods["during"], pods["failures"]) == ("noqueue 0:", "htb 1:", [])
    belonged(pods["be"], BE_LIMIT, "1:4", "1:fff4", "1:1")
    belonged(pods["own"], OWN_LIMIT, own, "1:fff4", "1:1")
    belonged(pods["ls"], TOTAL, "1:3", "1:fff3", "1:1")
    belonged(pods["node"], TOTAL, "1:2", "1:fff2", "1:1")
    assert (pods["idle"], pods["mended"], pods["left"]) == ([], True, [own])
    assert (pods["old"], pods["new"]) == ("noqueue 0:", "htb 1:")
    assert (pods["remaining"], pods["after"], pods["gone"]) == ([], "noqueue 0:", True)
