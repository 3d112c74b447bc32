# SPDX-License-Identifier: Apache-2.0
"""The committed tables of core types are what our own control plane tells of itself."""

from __future__ import annotations

import http.client
import json
from importlib.resources import files
from typing import Any

import pytest

from tests.controlplane.binaries import MissingProgramError, go
from tests.controlplane.dump_messages import dump as dump_messages
from tests.controlplane.dump_messages import go_sources
from tests.controlplane.dump_schemas import GROUP_VERSIONS, dump
from tests.controlplane.plane import RealControlPlane

pytestmark = pytest.mark.real


def test_the_table_of_types_is_up_to_date(real_plane: RealControlPlane) -> None:
    connection = http.client.HTTPSConnection(
        "127.0.0.1", real_plane.port, context=real_plane.tls(), timeout=30
    )
    documents: list[dict[str, Any]] = []
    for path in GROUP_VERSIONS:
        connection.request("GET", f"/openapi/v3/{path}")
        documents.append(json.load(connection.getresponse()))
    connection.close()
    committed = files("koord.controlplane.schema").joinpath("core.json").read_text("utf-8")
    assert dump(documents) == committed


def test_the_table_of_messages_is_up_to_date() -> None:
    try:
        go()
    except MissingProgramError as error:
        pytest.skip(str(error))
    folder = files("koord.controlplane.schema")
    types = json.loads(folder.joinpath("core.json").read_bytes())
    committed = folder.joinpath("proto.json").read_text("utf-8")
    assert dump_messages(types, go_sources(types)) == committed
