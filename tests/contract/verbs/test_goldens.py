# SPDX-License-Identifier: Apache-2.0
"""Random patches, applies and custom resources: both servers answer as a real one once did."""

from __future__ import annotations

import time

import pytest

from tests.contract.api import Api, at
from tests.contract.goldens import load
from tests.contract.recording import custom_definition, perform

PATIENCE_SECONDS = 10.0


def differing(api: Api, namespace: str, name: str) -> list[object]:
    """The steps whose answers are not the recorded ones, each with both."""
    steps = load(name)
    assert len(steps) > 100
    found: list[object] = []
    for number, step in enumerate(steps):
        answer = perform(api, namespace, step)
        if answer != step["answer"]:
            found.append((number, step, answer))
    return found


@pytest.mark.parametrize("name", ["strategic", "apply"])
def test_patches_of_a_deployment(api: Api, namespace: str, name: str) -> None:
    assert differing(api, namespace, name) == []


def test_custom_resources_of_every_shape(api: Api, namespace: str) -> None:
    definition = custom_definition()
    assert api.post(at("customresourcedefinitions"), definition).code == 201
    try:
        _wait_until_served(api, namespace)
        assert differing(api, namespace, "custom") == []
    finally:
        api.delete(at("customresourcedefinitions", name=definition["metadata"]["name"]))


def _wait_until_served(api: Api, namespace: str) -> None:
    path = at("contract.koord.dev/v1/things", namespace)
    end = time.monotonic() + PATIENCE_SECONDS
    while api.get(path).code != 200:
        assert time.monotonic() < end, "the custom resource is not served"
        time.sleep(0.05)
