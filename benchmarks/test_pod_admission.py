# SPDX-License-Identifier: Apache-2.0
"""What profiles for others cost a new pod."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api.kinds.profile import ClusterColocationProfile
from koord.controllers.webhook.pods.mutation.handler import PodMutationHandler
from tests.controllers.cluster.colocation_profiles.test_effect import profile
from tests.controllers.webhook.pods.scene import BATCH, Scene, admitted, request

if TYPE_CHECKING:
    from benchmarks.conftest import Gate

PROFILES, REVIEWS = 200, 300
POD = {
    "metadata": {"name": "p", "namespace": "d", "labels": {"app": "web", "team": "t7"}},
    "spec": {"containers": [
        {"name": f"c{i}", "image": "i", "resources": {"limits": {"cpu": "1", "memory": "4Gi"}}}
        for i in range(2)
    ]},
}  # fmt: skip


def _handler(count: int) -> PodMutationHandler:
    """With so many profiles, of which one is for the pod."""
    scene = Scene()
    handler = PodMutationHandler(scene.dependencies)
    scene.put(BATCH)
    scene.put_namespace(colocation="on")
    for number in range(7, 7 + count):
        scene.put(_profile(number))
    return handler


def _profile(number: int) -> ClusterColocationProfile:
    spec = {
        "namespaceSelector": {"matchLabels": {"colocation": "on"}},
        "selector": {"matchLabels": {"team": f"t{number}"}},
        "qosClass": "BE", "priorityClassName": "koord-batch", "labels": {"by": str(number)},
    }  # fmt: skip
    return profile(spec, f"p{number}")


def test_two_hundred_profiles_cost_a_pod_little_more_than_one(gate: Gate) -> None:
    many, one = _handler(PROFILES), _handler(1)
    asked = request(POD)
    document = admitted(many, asked).document
    assert document is not None
    assert document["metadata"]["labels"]["by"] == "7"

    def reviews(handler: PodMutationHandler) -> None:
        for _ in range(REVIEWS):
            handler.admit(asked)

    gate("admission: 200 profiles against 1", lambda: reviews(many), lambda: reviews(one), 0.7)
