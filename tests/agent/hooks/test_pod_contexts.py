# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import traceback
from collections.abc import Callable

import pytest

from koord.agent.hooks.pod_contexts import pod_context, read_once
from koord.api.protocol.scheduling import resource_status
from koord.base.errors import KoordError
from tests.agent.hooks.build import STATUS, pod

EXTENDED = "node.koordinator.sh/extended-resource-spec"
CONTEXT = pod_context(pod(annotations={STATUS: "{", EXTENDED: "{"}))


@pytest.mark.parametrize(
    "ask",
    [
        lambda: read_once(CONTEXT, resource_status),
        lambda: len(CONTEXT.extended or ()),
        lambda: list(CONTEXT.extended or ()),
        lambda: (CONTEXT.extended or {})["main"],
    ],
)
def test_what_cannot_be_read_is_told_anew_each_time(ask: Callable[[], object]) -> None:
    """Hooks ask every ten seconds: an error raised again would keep the frames of all times."""
    told = []
    for _ in range(3):
        with pytest.raises(KoordError, match="pod-u1") as raised:
            ask()
        told.append(raised.value)
    assert len({id(error) for error in told}) == 3
    assert len({str(error) for error in told}) == 1
    assert len({len(traceback.extract_tb(error.__traceback__)) for error in told}) == 1
