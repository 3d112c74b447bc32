# SPDX-License-Identifier: Apache-2.0
"""Which machines a start of ``koord up`` has when it says nothing of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from koord.base.errors import KoordError
from koord.cli.commands.up import node_pools
from koord.simulator.nodes.pools import NodePool, NodePools, PoolGPUs, TaintSpec


def test_without_a_word_they_are_those_of_the_data_folder(tmp_path: Path) -> None:
    cards = PoolGPUs(count=2, memory="16Gi", numa_nodes=[0, 1])
    taint = TaintSpec("dedicated", "NoSchedule", "train")
    pools = NodePools(
        [NodePool(name="web", count=7), NodePool(name="train", gpus=cards, taints=[taint])]
    )
    node_pools.keep(pools, tmp_path)
    assert node_pools.resolve_pools(None, None, False, tmp_path) == pools


def test_a_number_counts_before_the_data_folder(tmp_path: Path) -> None:
    node_pools.keep(NodePools([NodePool(name="web", count=7)]), tmp_path)
    found = node_pools.resolve_pools(2, None, False, tmp_path)
    assert [(pool.name, pool.count) for pool in found.pools] == [("node", 2)]


def test_a_new_folder_has_three(tmp_path: Path) -> None:
    found = node_pools.resolve_pools(None, None, False, tmp_path / "new")
    assert [(pool.name, pool.count) for pool in found.pools] == [("node", 3)]


def test_what_is_kept_and_was_changed_is_read_as_strictly_as_any(tmp_path: Path) -> None:
    (tmp_path / "pools.json").write_text(
        '{"apiVersion": "simulator.koord/v1", "kind": "NodePools", "pools": [{"nam": "web"}]}'
    )
    with pytest.raises(KoordError, match=r"pools.json: pools.0.: got 'nam', expected .*name"):
        node_pools.resolve_pools(None, None, False, tmp_path)
