# SPDX-License-Identifier: Apache-2.0
"""Writes the goldens of ``test_goldens.py`` anew, from a real kube-apiserver.

``python -m tests.contract.recording PORT TOKEN`` asks a server on loopback. It makes the namespace
``recording`` and the custom resource ``things.contract.koord.dev``.
"""

from __future__ import annotations

import argparse
import ssl
from typing import Any

import yaml

from tests.contract.api import APPLY_PATCH, JSON, STRATEGIC_PATCH, Api, at
from tests.contract.generated import (
    DEPLOYMENT,
    AppliedDocuments,
    CustomDocuments,
    StrategicPatches,
)
from tests.contract.goldens import FOLDER, normal, save

Document = dict[str, Any]

NAMESPACE = "recording"
COUNT = 120
"""Steps of one file."""


def perform(api: Api, namespace: str, step: Document) -> Document:
    """Sends one step; gives the normal form of the answer."""
    path = step["path"].replace("NAMESPACE", namespace)
    if step["method"] == "PUT":
        body = _as_before(api.get(path).ok, step["body"])
    else:
        body = step.get("body")
    query = step.get("query", {})
    answer = api.call(step["method"], path, body, content=step.get("content", JSON), **query)
    return normal(answer)


def _as_before(current: Document, changes: Document) -> Document:
    """What is there, with some fields replaced: a client that reads, changes and writes."""
    if labels := changes["metadata"].get("labels"):
        current["metadata"]["labels"] = labels
    current["spec"] |= changes.get("spec", {})
    return current


def strategic_steps() -> list[Document]:
    """Patches of one deployment, none of which is stored."""
    patches = StrategicPatches(seed=1)
    path = at("deployments", "NAMESPACE")
    steps: list[Document] = [{"method": "POST", "path": path, "body": DEPLOYMENT}]
    for _ in range(COUNT):
        query = {"dryRun": "All"}
        body = patches.patch()
        if _has_two_answers(body):
            continue
        steps.append(
            {"method": "PATCH", "path": f"{path}/d", "content": STRATEGIC_PATCH, "query": query,
             "body": body}
        )  # fmt: skip
    return steps


def _has_two_answers(patch: Document) -> bool:
    """Whether a finalizer is both added and deleted.

    A real kube-apiserver walks a Go map, whose order it draws, so that either may come first.
    """
    metadata = patch.get("metadata", {})
    deleted = metadata.get("$deleteFromPrimitiveList/finalizers", [])
    return not set(deleted).isdisjoint(metadata.get("finalizers", []))


def apply_steps() -> list[Document]:
    """Several managers apply one deployment, others update it."""
    documents = AppliedDocuments(seed=1)
    path = at("deployments", "NAMESPACE", "d")
    steps: list[Document] = []
    for number in range(COUNT):
        body = documents.document()
        if number and documents.random.random() < 0.2:
            query = {"fieldManager": documents.random.choice(["u1", "u2"])}
            steps.append({"method": "PUT", "path": path, "query": query, "body": body})
            continue
        manager = documents.random.choice(["m1", "m2", "m3"])
        query = {"fieldManager": manager}
        if documents.random.random() < 0.5:
            query["force"] = "true"
        steps.append(
            {"method": "PATCH", "path": path, "content": APPLY_PATCH, "query": query, "body": body}
        )
    # The first one creates the deployment.
    labels = {"app": "d"}
    pod = {"containers": [{"name": "m", "image": "i"}]}
    steps[0]["body"]["spec"] = {
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod},
    }
    return steps


def custom_definition() -> Document:
    """A kind with everything that structural schemas can say."""
    definition: Document = yaml.safe_load((FOLDER / "thing.yaml").read_text())
    return definition


def custom_steps() -> list[Document]:
    """Things, none of which is stored: half of them nearly right, half with junk."""
    schema = custom_definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    path = at("contract.koord.dev/v1/things", "NAMESPACE")
    steps = []
    for number in range(COUNT):
        documents = CustomDocuments(seed=number, junk=0.0 if number % 2 else 0.05)
        spec = documents.value(schema["properties"]["spec"])
        body = {
            "apiVersion": "contract.koord.dev/v1",
            "kind": "Thing",
            "metadata": {"name": "t"},
            "spec": spec,
        }
        query = {"dryRun": "All"}
        steps.append({"method": "POST", "path": path, "query": query, "body": body})
    return steps


FILES = {"strategic": strategic_steps, "apply": apply_steps, "custom": custom_steps}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("port", type=int)
    parser.add_argument("token")
    arguments = parser.parse_args()
    headers = {"Authorization": f"Bearer {arguments.token}"}
    api = Api(arguments.port, ssl._create_unverified_context(), headers)
    api.post(at("customresourcedefinitions"), custom_definition())
    metadata = {"name": NAMESPACE}
    api.post(at("namespaces"), {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    for name, steps in FILES.items():
        recorded = [{**step, "answer": perform(api, NAMESPACE, step)} for step in steps()]
        save(name, recorded)
        deployment = at("deployments", NAMESPACE, "d")
        api.patch(deployment, {"metadata": {"finalizers": None}})
        api.delete(deployment)
    api.delete(at("customresourcedefinitions", name="things.contract.koord.dev"))
    api.close()


if __name__ == "__main__":
    main()
