# SPDX-License-Identifier: Apache-2.0
"""The tables of core types and messages are what the control plane of the tests says of them."""

from __future__ import annotations

import json
from importlib.resources import files

import pytest

from tests.contract.api import Api
from tests.real.binaries import MissingProgramError, go
from tests.real.dump_messages import dump as dump_messages
from tests.real.dump_messages import go_sources
from tests.real.dump_schemas import GROUP_VERSIONS, dump
from tests.real.plane import RealControlPlane

pytestmark = pytest.mark.real
CORE_TYPES = files("koord.api.patching").joinpath("core.json")
MESSAGES = files("koord.controlplane.schema.builtin").joinpath("proto.json")


def test_the_table_of_types_is_up_to_date(real_plane: RealControlPlane) -> None:
    api = Api(real_plane.port, real_plane.tls())
    documents = [api.get(f"/openapi/v3/{path}").ok for path in GROUP_VERSIONS]
    api.close()
    assert dump(documents) == CORE_TYPES.read_text("utf-8")


def test_the_table_of_messages_is_up_to_date() -> None:
    try:
        go()
    except MissingProgramError as error:
        pytest.skip(str(error))
    types = json.loads(CORE_TYPES.read_bytes())
    committed = MESSAGES.read_text("utf-8")
    assert dump_messages(types, go_sources(types)) == committed
