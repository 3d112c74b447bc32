# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from koord.base import log


@pytest.fixture(autouse=True)
def _restore() -> Iterator[None]:
    root = logging.getLogger("koord")
    before = root.handlers, root.level, root.propagate
    yield
    root.handlers, root.level, root.propagate = before[0], before[1], before[2]


def test_an_event_is_one_line_of_keys_and_values() -> None:
    output = io.StringIO()
    log.setup(output=output)
    log.get("scheduler").info("pod bound", extra=log.fields(pod="default/web", reason="a\nb", n=3))
    line = output.getvalue()
    assert line.count("\n") == 1
    assert line.endswith(
        'level=info component=scheduler message="pod bound" pod=default/web reason="a\\nb" n=3\n'
    )


def test_json_carries_the_same_event() -> None:
    output = io.StringIO()
    log.setup(as_json=True, output=output)
    try:
        raise OSError(28, "no space")
    except OSError:
        log.get("agent").exception("write failed", extra=log.fields(path="cpu.max"))
    event = json.loads(output.getvalue())
    assert (event["level"], event["component"], event["path"]) == ("error", "agent", "cpu.max")
    assert "no space" in event["error"]


@pytest.mark.parametrize(("verbosity", "shown"), [(0, "WE"), (2, "IWE"), (4, "DIWE")])
def test_verbosity(verbosity: int, shown: str) -> None:
    output = io.StringIO()
    log.setup(verbosity, output=output)
    logger = log.get("x")
    for level, letter in zip((10, 20, 30, 40), "DIWE", strict=True):
        logger.log(level, letter)
    assert [line.split("message=")[1] for line in output.getvalue().splitlines()] == list(shown)
