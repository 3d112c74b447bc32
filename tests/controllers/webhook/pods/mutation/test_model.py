# SPDX-License-Identifier: Apache-2.0
"""Rules of mutation against the plain model, on random pods."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from koord.api.protocol import keys
from koord.controllers.webhook.pods.mutation.handler import PodMutationHandler
from koord.kernels.quantity import Quantity
from tests.controllers.cluster.colocation_profiles.test_effect import profile
from tests.controllers.webhook.pods.scene import Scene, admitted, request
from tests.models import pod_mutation

Document = dict[str, Any]
_TEXTS = {
    "cpu": {"1": 1000, "500m": 500, 2: 2000, "0": 0, "1500m": 1500},
    "memory": {"4Gi": 4 << 30, "1G": 10**9, 1024: 1024, "0": 0},
    "kubernetes.io/batch-cpu": {"1k": 1000, 250: 250},
    "kubernetes.io/mid-memory": {"1Mi": 1 << 20},
    "koordinator.sh/gpu": {50: 50, "100": 100, "200": 200, 150: 150},
    "koordinator.sh/gpu-core": {"100": 100, 300: 300},
    "koordinator.sh/gpu-memory-ratio": {"200": 200, 50: 50},
    "koordinator.sh/gpu-memory": {"8Gi": 8 << 30},
    "koordinator.sh/gpu.shared": {2: 2, "1": 1},
}
_AMOUNTS = st.fixed_dictionaries(
    {}, optional={name: st.sampled_from(list(texts)) for name, texts in _TEXTS.items()}
)
_CONTAINERS = st.fixed_dictionaries({}, optional={"requests": _AMOUNTS, "limits": _AMOUNTS})
_CLASSES = {"koord-batch": "batch", "koord-mid": "mid", "koord-free": "", "koord-prod": ""}


def _plain(container: Document) -> Document:
    """A container's amounts as the model counts them."""
    return {
        part: {name: _TEXTS[name][amount] for name, amount in amounts.items()}
        for part, amounts in container.items()
    }


def _counted(resources: Document) -> Document:
    """The same of what came out; CPU in milli-cores where it is still CPU."""
    return {
        part: {
            name: Quantity.from_wire(amount).milli() if name == "cpu" else
            Quantity.from_wire(amount).value()
            for name, amount in amounts.items()
        }
        for part, amounts in resources.items()
        if amounts
    }  # fmt: skip


@given(
    app=st.lists(_CONTAINERS, min_size=1, max_size=2),
    init=st.lists(_CONTAINERS, max_size=1),
    name=st.sampled_from(sorted(_CLASSES)),
)
def test_resources_and_annotation_are_those_of_the_model(
    app: list[Document], init: list[Document], name: str
) -> None:
    scene = Scene()
    handler = PodMutationHandler(scene.dependencies)
    scene.put(profile({"labels": {keys.PRIORITY_CLASS: name}}))
    given_: Document = {
        f"{kind}-{index}": resources
        for kind, listed in (("app", app), ("init", init))
        for index, resources in enumerate(listed)
    }
    spec = {
        key: [
            {"name": each, "resources": resources}
            for each, resources in given_.items()
            if each.startswith(kind)
        ]
        for key, kind in (("containers", "app"), ("initContainers", "init"))
    }
    document = admitted(handler, request({"metadata": {}, "spec": spec})).document
    assert document is not None
    translated = {
        each: pod_mutation.translated(_plain(resources), _CLASSES[name])
        for each, resources in given_.items()
    }
    said = document["metadata"].get("annotations", {}).get(keys.EXTENDED_RESOURCE_SPEC)
    found = json.loads(said).get("containers", {}) if said else {}
    assert {each: _counted(parts) for each, parts in found.items()} == pod_mutation.told(translated)
    for container in (*document["spec"]["containers"], *document["spec"]["initContainers"]):
        expected = translated[container["name"]]
        if container["name"].startswith("app"):
            expected = pod_mutation.with_devices(expected)
        expected = {part: amounts for part, amounts in expected.items() if amounts}
        assert _counted(container["resources"]) == expected
