# SPDX-License-Identifier: Apache-2.0
"""The label ``scheduling.koordinator.sh/scheduler-name`` says whose a pod is."""

from __future__ import annotations

from typing import Any

from koord.api.kinds.pod import Pod
from koord.kube.patches import Patch
from tests.controllers.cluster.harness import Cluster, Document, play, pod

LABEL = "scheduling.koordinator.sh/scheduler-name"


def named(name: str, spec: str, label: str | None) -> Document:
    labels = {} if label is None else {LABEL: label}
    return pod(name, {"cpu": "1"}, schedulerName=spec, metadata={"labels": labels})


async def relabel(cluster: Cluster, name: str, label: str | None) -> None:
    change = Patch.merge({"metadata": {"labels": {LABEL: label}}})
    await cluster.client.patch(Pod, name, change, "default")


def profiles(cluster: Cluster, *names: str) -> list[str]:
    waiting: dict[str, Any] = {
        each.info.pod.metadata.name: each.profile for each in cluster.app.scheduler.queue.waiting()
    }
    return [waiting.get(name, "") for name in names]


def test_the_label_goes_before_the_spec() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.node("n", {})
        await cluster.add(
            named("spec", "koord-scheduler", None),
            named("label", "elsewhere", "koord-scheduler"),
            named("other", "koord-scheduler", "elsewhere"),
            named("empty", "koord-scheduler", ""),
        )
        assert await cluster.placed("spec", "label") == {"spec": "n", "label": "n"}
        assert await cluster.placed("other", "empty", seconds=5) == {"other": "", "empty": ""}
        await relabel(cluster, "other", None)
        assert await cluster.placed("other") == {"other": "n"}

    play(story)


def test_a_pod_that_waits_changes_hands() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.node("n", {})
        big = pod("big", {"cpu": "9"})
        await cluster.add(big)
        assert await cluster.placed("big", seconds=5) == {"big": ""}
        assert profiles(cluster, "big") == ["koord-scheduler"]
        await relabel(cluster, "big", "second")
        assert await cluster.placed("big", seconds=5) == {"big": ""}
        assert profiles(cluster, "big") == ["second"]
        await relabel(cluster, "big", "elsewhere")
        assert await cluster.placed("big", seconds=5) == {"big": ""}
        assert profiles(cluster, "big") == [""]

    play(story)
