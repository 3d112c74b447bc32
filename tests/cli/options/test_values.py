# SPDX-License-Identifier: Apache-2.0
"""Options that take a duration."""

from __future__ import annotations

import pytest

from koord.base.errors import KoordError
from koord.cli.options.values import seconds


@pytest.mark.parametrize(("text", "found"), [("30s", 30.0), ("1m30s", 90.0), ("0", 0.0)])
def test_durations_are_read_as_the_wire_writes_them(text: str, found: float) -> None:
    assert seconds("--scheduling-timeout")(text) == found


@pytest.mark.parametrize("text", ["", "abc", "30", "-1s", "9" * 5000 + "s"])
def test_what_is_none_is_one_line(text: str) -> None:
    with pytest.raises(KoordError, match=r"--scheduling-timeout.*expected a duration") as told:
        seconds("--scheduling-timeout")(text)
    assert "\n" not in str(told.value)
