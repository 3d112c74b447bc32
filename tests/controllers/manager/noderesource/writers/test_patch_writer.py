# SPDX-License-Identifier: Apache-2.0
"""Patches meet a server that has moved on: made anew, given up, or no longer needed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from koord.api import Node
from koord.base.clock import VirtualClock
from koord.controllers.manager.noderesource.writers.patch_writer import PatchWriter
from koord.kube.client import Client
from koord.kube.errors import ApiError
from koord.kube.patches import Patch
from tests.kube.harness import FakeTransport, answer, failure, run_virtual

CONFLICT = failure(409, "Conflict")


def node(version: int, **labels: str) -> dict[str, object]:
    meta = {"name": "n", "uid": "u", "resourceVersion": str(version), "labels": labels}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta}


def labelled(value: str) -> Callable[[Node], Patch | None]:
    """A patch for every node that has no such label yet."""

    def make(now: Node) -> Patch | None:
        if now.metadata.labels.get("a") == value:
            return None
        version = now.metadata.resource_version
        return Patch.merge({"metadata": {"resourceVersion": version, "labels": {"a": value}}})

    return make


def write(*steps: object) -> tuple[Node | None, list[str], float]:
    """What comes of a write, the requests, and how long it took."""
    clock = VirtualClock()
    script: list[Any] = [answer(step) if isinstance(step, dict) else step for step in steps]
    transport = FakeTransport(script)
    client = Client(transport, requests_per_second=None)
    found = Node()
    found.metadata.name, found.metadata.resource_version = "n", "1"
    done = run_virtual(PatchWriter(client).write(found, labelled("x")), clock)
    asked = [f"{request.method} {request.path}" for request in transport.requests]
    return done, asked, clock.monotonic_seconds()


def test_a_conflict_is_met_with_what_the_server_has() -> None:
    done, asked, seconds = write(CONFLICT, node(5), node(6, a="x"))
    assert done is not None
    assert done.metadata.resource_version == "6"
    assert [each.split()[0] for each in asked] == ["PATCH", "GET", "PATCH"]
    assert 0.01 <= seconds <= 0.011


def test_what_another_has_written_meanwhile_is_not_written_again() -> None:
    done, asked, _ = write(CONFLICT, node(5, a="x"))
    assert done is not None
    assert [each.split()[0] for each in asked] == ["PATCH", "GET"]


@pytest.mark.parametrize("steps", [(failure(404),), (CONFLICT, failure(404))])
def test_a_node_that_is_gone_is_as_good(steps: tuple[object, ...]) -> None:
    assert write(*steps)[0] is None


def test_after_four_conflicts_it_is_given_up() -> None:
    with pytest.raises(ApiError):
        write(*(step for version in (2, 3, 4) for step in (CONFLICT, node(version))), CONFLICT)


def test_a_refusal_is_not_tried_again() -> None:
    with pytest.raises(ApiError):
        write(failure(403, "Forbidden"))
