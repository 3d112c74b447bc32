# SPDX-License-Identifier: Apache-2.0
"""``koord up`` has admission in the process, and does without where that is asked for."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from koord.kube.client import Client
from koord.kube.errors import ApiError
from tests.cli.commands.up.test_command import up

PROFILE = {
    "apiVersion": "config.koordinator.sh/v1alpha1",
    "kind": "ClusterColocationProfile",
    "metadata": {"name": "batch"},
    "spec": {
        "selector": {"matchLabels": {"app": "spark"}},
        "qosClass": "BE",
        "priorityClassName": "koord-batch",
    },
}


def _pod(name: str, labels: dict[str, str]) -> dict[str, Any]:
    amounts = {"cpu": "1", "memory": "1Gi"}
    each = {"name": "main", "image": "a", "resources": {"requests": amounts, "limits": amounts}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "spec": {"containers": [each]},
    }


async def _batch_pod(client: Client) -> dict[str, Any]:
    """A pod that the profile has caught: admission follows profiles by a watch."""
    await client.create(PROFILE)
    async with asyncio.timeout(30):
        number = 0
        while True:
            number += 1
            made = await client.create(_pod(f"p{number}", {"app": "spark"}))
            if "koordinator.sh/qosClass" in made["metadata"]["labels"]:
                return made
            await asyncio.sleep(0.05)


def test_pods_are_changed_and_refused() -> None:
    with up("--nodes", 0, "--without", "scheduler") as running:
        made = running.ask(_batch_pod)
        assert made["metadata"]["labels"]["koordinator.sh/qosClass"] == "BE"
        (container,) = made["spec"]["containers"]
        assert container["resources"]["requests"]["kubernetes.io/batch-memory"] == "1Gi"
        bad = _pod("bad", {"koordinator.sh/qosClass": "BE"})
        with pytest.raises(ApiError, match=r"vpod\.koordinator\.sh"):
            running.ask(lambda client: client.create(bad))
        assert running.end()[0] == 0


def test_without_webhooks_pods_stay_as_they_are() -> None:
    with up("--nodes", 0, "--without", "scheduler", "--webhooks", "off") as running:
        assert "webhooks" not in running.line["components"]

        async def make(client: Client) -> dict[str, Any]:
            await client.create(PROFILE)
            return await client.create(_pod("a", {"koordinator.sh/qosClass": "BE"}))

        assert running.ask(make)["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "1"
        assert running.end()[0] == 0
