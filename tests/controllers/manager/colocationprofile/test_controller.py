# SPDX-License-Identifier: Apache-2.0
"""Profiles on pods that wait: which are changed, how often, how fast."""

from __future__ import annotations

from typing import Any

from koord.api import ClusterColocationProfile, Pod
from koord.api.kinds.meta import Condition
from koord.controllers.manager.colocationprofile.controller import UpdatedPods
from koord.kube.patches import Patch
from tests.controllers.manager.cluster import Scene, reasons, started

NAME, GATE = "colocationprofile", "ColocationProfileController=true"
HANDLED = {"config.koordinator.sh/controller-managed": "true"}
QOS = "koordinator.sh/qosClass"


async def add_profile(scene: Scene, labels: dict[str, str] | None = None, **spec: Any) -> None:
    await scene.client.create(
        {
            "apiVersion": "config.koordinator.sh/v1alpha1", "kind": "ClusterColocationProfile",
            "metadata": {"name": "p", "labels": HANDLED if labels is None else labels},
            "spec": {"selector": {"matchLabels": {"app": "web"}}, **spec},
        }
    )  # fmt: skip


async def add_pod(scene: Scene, name: str, node: str = "", **labels: str) -> None:
    await scene.client.create(
        {
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": "default", "labels": {"app": "web", **labels}},
            "spec": {"containers": [{"name": "c", "image": "none"}],
                     **({"nodeName": node} if node else {})},
        }
    )  # fmt: skip


async def labels(scene: Scene, name: str) -> dict[str, str]:
    return (await scene.client.get(Pod, name, "default")).metadata.labels


def test_pods_that_wait_are_changed_once() -> None:
    async def script(scene: Scene) -> None:
        await add_pod(scene, "waits")
        await add_pod(scene, "runs", "node-1")
        await add_pod(scene, "other", app="db")
        suffixes = {"app": "-canary"}
        await add_profile(scene, qosClass="BE", labelSuffixes=suffixes, patch={
            "spec": {"activeDeadlineSeconds": 77}})  # fmt: skip
        await scene.settle(3)
        assert await labels(scene, "waits") == {"app": "web-canary", QOS: "BE"}
        assert QOS not in await labels(scene, "runs")
        assert QOS not in await labels(scene, "other")

    started(script, NAME, feature_gates=GATE)


def test_a_mapping_copies_a_label_of_a_pod_that_waits_and_keeps_it() -> None:
    async def script(scene: Scene) -> None:
        await add_pod(scene, "waits", team="search")
        mapping = {"team": "cost-center", "none": "empty"}
        await add_profile(scene, labelKeysMapping=mapping)
        await scene.settle(100)
        right = {"app": "web", "team": "search", "cost-center": "search", "empty": ""}
        assert await labels(scene, "waits") == right
        assert len([each for each in scene.writes if "pods" in each]) == 1

    started(script, NAME, feature_gates=GATE)


def test_time_and_new_versions_of_a_profile_add_no_second_suffix() -> None:
    async def script(scene: Scene) -> None:
        await add_pod(scene, "waits")
        await add_profile(scene, selector={}, labelSuffixes={"app": "-canary"})
        await scene.settle(400)
        assert await labels(scene, "waits") == {"app": "web-canary"}
        from koord.api import ClusterColocationProfile

        more = Patch.merge({"spec": {"labels": {"more": "1"}}})
        await scene.client.patch(ClusterColocationProfile, "p", more)
        await scene.settle(400)
        assert await labels(scene, "waits") == {"app": "web-canary", "more": "1"}
        assert len([each for each in scene.writes if "pods" in each]) == 2

    started(script, NAME, feature_gates=GATE)


def test_without_the_gate_or_the_label_nothing_is_touched() -> None:
    async def script(scene: Scene) -> None:
        await add_pod(scene, "waits")
        await add_profile(scene, labels={}, qosClass="BE")
        await scene.settle(60)
        assert QOS not in await labels(scene, "waits")

    started(script, NAME)
    started(script, NAME, feature_gates=GATE)


def test_profiles_without_the_label_count_where_the_flag_says_so() -> None:
    async def script(scene: Scene) -> None:
        await add_pod(scene, "waits")
        await add_profile(scene, labels={}, qosClass="BE")
        await scene.settle(3)
        assert QOS in await labels(scene, "waits")

    started(script, NAME, feature_gates=GATE, colocation_profile_reconcile_by_default=True)


def test_no_more_pods_a_round_than_tokens() -> None:
    async def script(scene: Scene) -> None:
        for number in range(12):
            await add_pod(scene, f"w{number:02}")
        await add_profile(scene, qosClass="BE")
        await scene.settle(1)
        assert len([each for each in scene.writes if "pods" in each]) == 5
        await scene.settle(31)
        assert len([each for each in scene.writes if "pods" in each]) == 10
        await scene.settle(31)
        assert len([each for each in scene.writes if "pods" in each]) == 12

    slow = {
        "colocation_profile_update_pod_qps": 1, "colocation_profile_update_pod_qps_burst": 5,
    }  # fmt: skip
    started(script, NAME, feature_gates=GATE, **slow)


def test_a_rate_of_0_changes_the_burst_alone() -> None:
    async def script(scene: Scene) -> None:
        for number in range(4):
            await add_pod(scene, f"w{number}")
        await add_profile(scene, qosClass="BE")
        await scene.settle(61)
        assert len([each for each in scene.writes if "pods" in each]) == 3

    none = {
        "colocation_profile_update_pod_qps": 0, "colocation_profile_update_pod_qps_burst": 3,
    }  # fmt: skip
    started(script, NAME, feature_gates=GATE, **none)


def test_a_profile_that_makes_no_sense_is_told_of_and_a_pod_that_refuses_stops_no_other() -> None:
    async def script(scene: Scene) -> None:
        for name in ("a", "b"):
            await add_pod(scene, name)
        await add_profile(scene, probability="30")
        await scene.settle(3)
        assert ("InvalidColocationProfile", "p") in await reasons(scene)
        assert "spec.probability: got '30'" in (await valid(scene)).message
        wrong = {"probability": "100%", "patch": {"spec": {"nodeName": 3}}}
        await scene.client.patch(ClusterColocationProfile, "p", Patch.merge({"spec": wrong}))
        await scene.settle(3)
        told = await reasons(scene)
        assert ("ColocationProfileFailed", "a") in told
        assert ("ColocationProfileFailed", "b") in told
        found = await valid(scene)
        assert (found.status, "spec.patch" in found.message) == ("False", True)
        mended = {"patch": {"spec": {"nodeName": None, "activeDeadlineSeconds": 5}}}
        await scene.client.patch(ClusterColocationProfile, "p", Patch.merge({"spec": mended}))
        await scene.settle(3)
        assert (await valid(scene)).status == "True"

    started(script, NAME, feature_gates=GATE)


def test_a_patch_that_a_pod_cannot_take_is_no_fault_of_the_profile() -> None:
    async def script(scene: Scene) -> None:
        await add_pod(scene, "a")
        # New pods can have it, those that are there cannot change it.
        await add_profile(scene, patch={"spec": {"hostNetwork": True}})
        await scene.settle(3)
        assert ("ColocationProfileFailed", "a") in await reasons(scene)
        found = await scene.client.get(ClusterColocationProfile, "p")
        assert not found.status.conditions

    started(script, NAME, feature_gates=GATE)


def test_a_pod_of_a_generated_name_has_drawn_already() -> None:
    async def script(scene: Scene) -> None:
        for name, number in (("in", 10), ("out", 90)):
            meta = {
                "name": name, "namespace": "default", "generateName": "web-",
                "labels": {"app": "web"},
                "annotations": {"koordinator.sh/colocation-profile-draws": f'{{"p":{number}}}'},
            }  # fmt: skip
            containers = [{"name": "c", "image": "none"}]
            body = {"apiVersion": "v1", "kind": "Pod", "metadata": meta}
            await scene.client.create({**body, "spec": {"containers": containers}})
        await add_profile(scene, qosClass="BE", probability="50%")
        await scene.settle(3)
        assert [QOS in await labels(scene, name) for name in ("in", "out")] == [True, False]

    started(script, NAME, feature_gates=GATE)


async def valid(scene: Scene) -> Condition:
    (found,) = (await scene.client.get(ClusterColocationProfile, "p")).status.conditions
    return found


def test_what_is_done_is_forgotten_after_a_time() -> None:
    done = UpdatedPods(ttl_seconds=10, purge_seconds=15)
    done.add("a", 100)
    assert done.has("a", 109)
    assert not done.has("a", 110)
    done.add("b", 112)
    assert len(done) == 2, "not looked for yet"
    done.add("c", 120)
    assert len(done) == 2
