# SPDX-License-Identifier: Apache-2.0
"""String formats: the same texts pass as on a real server, which made the table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.controlplane.schema.custom import formats

TABLE: dict[str, list[str]] = json.loads(
    (Path(__file__).parent / "golden" / "formats.json").read_text()
)
NAMES = sorted({name for passed in TABLE.values() for name in passed})


@pytest.mark.parametrize("name", NAMES)
def test_the_same_texts_pass_as_on_a_real_server(name: str) -> None:
    assert formats.is_enforced(name)
    passed = [text for text, names in TABLE.items() if name in names]
    assert [text for text in TABLE if formats.is_valid(name, text)] == passed


@given(st.text(max_size=30))
def test_any_text_has_an_answer(text: str) -> None:
    for name in NAMES:
        assert formats.is_valid(name, text) in (True, False)


def test_unknown_formats_take_anything() -> None:
    assert not formats.is_enforced("int32")
    assert formats.is_valid("int32", "x")
