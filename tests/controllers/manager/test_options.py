# SPDX-License-Identifier: Apache-2.0
"""Flags: lists of names, addresses, durations, gates."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.base.errors import KoordError
from koord.controllers.manager.app import CONTROLLERS
from koord.controllers.manager.options import CONTROLLERS as NAMES
from koord.controllers.manager.options import ManagerOptions, enabled

_KNOWN = ("a", "b", "c")
_ITEMS = st.lists(st.sampled_from((*_KNOWN, *(f"-{name}" for name in _KNOWN), "*")))


@given(items=_ITEMS)
def test_the_first_item_that_fits_decides(items: list[str]) -> None:
    wanted = []
    for name in _KNOWN:
        on, off = (items.index(i) if i in items else len(items) for i in (name, f"-{name}"))
        if on < off or (on == off and "*" in items):
            wanted.append(name)
    assert enabled("--x", ",".join(items), _KNOWN) == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("*", list(NAMES)),
        ("*,-nodeslo", [name for name in NAMES if name != "nodeslo"]),
        ("-nodeslo, *", [name for name in NAMES if name != "nodeslo"]),
        ("nodeslo,-nodeslo", ["nodeslo"]),
        ("", []),
    ],
)
def test_controllers_are_chosen(text: str, wanted: list[str]) -> None:
    options = ManagerOptions(controllers=text)
    options.check()
    assert options.enabled_controllers() == wanted


def test_all_controllers_run_by_default() -> None:
    assert ManagerOptions().enabled_controllers() == sorted(CONTROLLERS)
    assert len(ManagerOptions().enabled_noderesource_plugins()) == 6


@pytest.mark.parametrize(
    ("period", "seconds"), [("", 0.0), ("0", 0.0), ("90s", 90.0), ("soon", 0.0), ("-1h", 0.0)]
)
def test_a_sync_period_that_cannot_be_read_is_ignored(period: str, seconds: float) -> None:
    assert ManagerOptions(sync_period=period).resync_seconds() == seconds


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("controllers", "nodemetrc", "--controllers: got 'nodemetrc', expected a known name, such"),
        ("noderesource_plugins", "-Batch", "--noderesource-plugins: got '-Batch'"),
        ("metrics_addr", "8080", "--metrics-addr: got '8080', expected HOST:PORT or :PORT"),
        ("health_probe_addr", ":x", "--health-probe-addr: got ':x'"),
        ("leader_elect_resource_lock", "endpoints", "expected leases"),
        ("feature_gates", "WebhookFramwork=false", "such as WebhookFramework"),
    ],
)
def test_what_cannot_be_meant_is_refused(field: str, value: Any, message: str) -> None:
    with pytest.raises(KoordError, match=r"^--") as refused:
        ManagerOptions(**{field: value}).check()
    assert message in str(refused.value)
