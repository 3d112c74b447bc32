# SPDX-License-Identifier: Apache-2.0
"""Which amounts columns have room for."""

from __future__ import annotations

import pytest

from koord.api import Node
from koord.api.protocol import keys
from koord.controllers.manager.noderesource.state.published import published_amounts
from tests.controllers.manager.noderesource import builders
from tests.controllers.manager.noderesource.state.cases import BATCH, CASE, NAMES


@pytest.mark.parametrize(
    "odd",
    [
        builders.node({NAMES[0]: "1500m"}),
        builders.node({NAMES[0]: "5"}, capacity={NAMES[0]: "6"}),
        builders.node({NAMES[1]: str(2**60)}),
        builders.node(annotations={keys.ORIGIN_EXTENDED_ALLOCATABLE: "{"}),
        builders.node(
            annotations={keys.ORIGIN_EXTENDED_ALLOCATABLE: '{"resources":{"example.com/x":"1"}}'}
        ),
        builders.node(annotations={keys.THIRD_PARTY_ALLOCATIONS: "{"}),
    ],
)
def test_columns_have_no_room_for_what_is_odd(odd: Node) -> None:
    assert published_amounts(odd, None) is None
    assert published_amounts(CASE.node(), CASE.topology()) is not None


@pytest.mark.parametrize("field", ["capacity", "allocatable", "available"])
def test_nor_for_zones_that_show_two_amounts(field: str) -> None:
    resource = {"name": BATCH[0], "capacity": "5", "allocatable": "5", "available": "5"}
    zone = {"name": "node-0", "type": "Node", "resources": [resource | {field: "6"}]}
    assert published_amounts(CASE.node(), builders.topology([zone])) is None
    other = {"name": "cache", "type": "Socket", "resources": [resource]}
    assert published_amounts(CASE.node(), builders.topology([other])) is None
