# SPDX-License-Identifier: Apache-2.0
"""Random strategic merge patches, applied documents and custom resources, all from one seed.

``python -m tests.contract.recording`` sends them to a real kube-apiserver and keeps its answers.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from copy import deepcopy
from typing import Any

Document = dict[str, Any]

DEPLOYMENT: Document = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "d", "labels": {"a": "1", "b": "2"}, "finalizers": ["x.io/a", "x.io/b"]},
    "spec": {
        "selector": {"matchLabels": {"app": "d"}},
        "template": {
            "metadata": {"labels": {"app": "d", "k": "v"}},
            "spec": {
                "containers": [
                    {
                        "name": "a",
                        "image": "i",
                        "env": [{"name": name, "value": "1"} for name in "ABC"],
                        "ports": [
                            {"containerPort": 80, "protocol": "TCP"},
                            {"containerPort": 81, "protocol": "UDP"},
                        ],
                        "args": ["x", "y"],
                    },
                    {"name": "b", "image": "i"},
                    {"name": "c", "image": "j"},
                ],
                "tolerations": [{"key": "q", "operator": "Exists"}],
                "volumes": [
                    {"name": "v", "emptyDir": {}},
                    {"name": "w", "configMap": {"name": "z", "defaultMode": 420}},
                ],
                "nodeSelector": {"n": "1"},
            },
        },
    },
}
JUNK: list[Any] = [
    None, 0, 1, -1, 1.5, True, "", "x", "abc", [], {}, ["a"], [1], {"a": 1}, [None], [{}],
    "2030-01-01T00:00:00Z", 10**12, "10", "50%", {"zz": {"q": 1}}, "ABC def", "a.b/c",
]  # fmt: skip
FORMATTED = {
    "date-time": "2030-01-01T00:00:00Z", "date": "2030-01-01", "byte": "YWI=", "ipv4": "10.0.0.1",
    "duration": "5m", "uuid": "01234567-89ab-cdef-0123-456789abcdef", "uri": "/x",
    "cidr": "10.0.0.0/8",
}  # fmt: skip


class StrategicPatches:
    """Strategic merge patches of :data:`DEPLOYMENT`."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def patch(self) -> Document:
        """One patch; some are refused."""
        patch: Document = {}
        if self._maybe(0.5):
            patch["metadata"] = self._metadata()
        if self._maybe(0.9):
            spec: Document = {}
            if self._maybe(0.7):
                self._keyed(spec, "containers", "abcd", self._container)
            if self._maybe(0.5):
                self._keyed(spec, "volumes", "vwx", self._volume)
            if self._maybe(0.3):
                spec["tolerations"] = self._one([[], None, [{"key": "r", "operator": "Exists"}]])
            if self._maybe(0.3):
                selectors = [{"n": None}, {"m": "1"}, None, {"$patch": "replace", "q": "1"}]
                spec["nodeSelector"] = self._one(selectors)
            patch["spec"] = {"template": {"spec": spec}}
        return patch

    def _metadata(self) -> Document:
        metadata: Document = {}
        if self._maybe(0.5):
            labels = [{"a": None}, {"c": "3"}, {"$patch": "replace", "z": "1"}, None]
            metadata["labels"] = self._one(labels)
        names = [f"x.io/{name}" for name in "abcd"]
        if self._maybe(0.5):
            metadata["finalizers"] = self._some(names[:3]) or names[:1]
            if self._maybe(0.5):
                metadata["$setElementOrder/finalizers"] = self._some(names) or names
        if self._maybe(0.3):
            metadata["$deleteFromPrimitiveList/finalizers"] = self._some(names)
        return metadata

    def _keyed(
        self, parent: Document, field: str, names: str, make: Callable[[], Document]
    ) -> None:
        items = []
        for name in self._some(list(names)):
            directive = self._one(["delete", "replace"]) if self._maybe(0.15) else ""
            made = {"$patch": directive} if directive else make()
            items.append({"name": name, **made})
        if self._maybe(0.05):
            items.append({"$patch": "replace"})
        parent[field] = items
        if self._maybe(0.5):
            told = [item["name"] for item in items if "$patch" not in item]
            for name in names:
                if name not in told and self._maybe(0.6):
                    told.insert(self._random.randint(0, len(told)), name)
            if self._maybe(0.1):
                self._random.shuffle(told)
            parent[f"$setElementOrder/{field}"] = [{"name": name} for name in told]

    def _container(self) -> Document:
        container: Document = {}
        if self._maybe(0.7):
            container["image"] = self._one(["i", "k"])
        if self._maybe(0.5):
            values = ["1", "9", None]
            self._keyed(container, "env", "ABCD", lambda: {"value": self._one(values)})
        if self._maybe(0.3):
            ports = self._some([80, 81, 82])
            container["ports"] = [{"containerPort": port, "protocol": "UDP"} for port in ports]
        if self._maybe(0.3):
            container["args"] = self._one([["z"], None])
        return container

    def _volume(self) -> Document:
        volume: Document = self._one(
            [
                {"emptyDir": {}},
                {"emptyDir": None},
                {"configMap": {"name": "q"}},
                {"$retainKeys": ["name", "emptyDir"], "emptyDir": {}},
                {"$retainKeys": ["name", "configMap"], "configMap": {"optional": True}},
                {"$retainKeys": ["name"]},
            ]
        )
        return deepcopy(volume)

    def _one(self, choices: list[Any]) -> Any:
        return self._random.choice(choices)

    def _some(self, choices: list[Any]) -> list[Any]:
        return self._random.sample(choices, self._random.randint(0, min(3, len(choices))))

    def _maybe(self, chance: float) -> bool:
        return self._random.random() < chance


class AppliedDocuments:
    """Deployments as several managers would apply them."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def document(self) -> Document:
        """One document; fields that others set come and go."""
        metadata: Document = {"name": "d"}
        if self._maybe(0.5):
            metadata["labels"] = {key: self._one("12") for key in self._some("abc")} or {"a": "1"}
        if self._maybe(0.3):
            metadata["finalizers"] = [f"k.io/{name}" for name in self._some("ab")] or ["k.io/a"]
        spec: Document = {}
        if self._maybe(0.8):
            spec["selector"] = {"matchLabels": {"app": "d"}}
            labels = {"app": "d", **({"t": self._one("12")} if self._maybe(0.4) else {})}
            spec["template"] = {"metadata": {"labels": labels}, "spec": self._pod()}
        if self._maybe(0.5):
            spec["replicas"] = self._one([1, 2])
        if self._maybe(0.3):
            surge = self._one([1, "50%"])
            rolling = {"maxSurge": surge, "maxUnavailable": 1}
            spec["strategy"] = {"type": "RollingUpdate", "rollingUpdate": rolling}
        document: Document = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata}
        return {**document, "spec": spec} if spec else document

    def _pod(self) -> Document:
        names = ["m", *self._some("no")]
        pod: Document = {"containers": [self._container(name) for name in names]}
        if self._maybe(0.3):
            pod["nodeSelector"] = {"a": self._one("12")}
        if self._maybe(0.3):
            pod["tolerations"] = [{"key": self._one("ab"), "operator": "Exists"}]
        if self._maybe(0.3):
            sources = [{"emptyDir": {}}, {"configMap": {"name": "q"}}]
            pod["volumes"] = [{"name": "v", **self._one(sources)}]
        return pod

    def _container(self, name: str) -> Document:
        container: Document = {"name": name, "image": self._one("ik")}
        if self._maybe(0.5):
            variables = self._some("ABC") or ["A"]
            container["env"] = [{"name": each, "value": self._one("12")} for each in variables]
        if self._maybe(0.4):
            protocol = {"protocol": "TCP"} if self._maybe(0.5) else {}
            ports = self._some([80, 81]) or [80]
            container["ports"] = [{"containerPort": port, **protocol} for port in ports]
        if self._maybe(0.3):
            container["args"] = self._some("xy") or ["x"]
        if self._maybe(0.3):
            container["resources"] = {"requests": {"cpu": self._one(["1", "500m"])}}
        return container

    def _one(self, choices: Any) -> Any:
        return self.random.choice(choices)

    def _some(self, choices: Any) -> list[Any]:
        return self.random.sample(list(choices), self.random.randint(0, len(choices)))

    def _maybe(self, chance: float) -> bool:
        return self.random.random() < chance


class CustomDocuments:
    """Values by a structural schema, with some junk among them."""

    def __init__(self, seed: int, junk: float) -> None:
        self._random = random.Random(seed)
        self._junk = junk

    def value(self, schema: Document, depth: int = 0) -> Any:
        """One value."""
        if depth and self._random.random() < self._junk:
            return deepcopy(self._random.choice(JUNK))
        if schema.get("x-kubernetes-int-or-string"):
            return self._random.choice([1, "50%", 5])
        if "enum" in schema:
            return self._random.choice(schema["enum"])
        kind = schema.get("type")
        if kind == "object":
            return self._object(schema, depth)
        if kind == "array":
            count = self._random.choice([0, 1, 1, 2])
            return [self.value(schema["items"], depth + 1) for _ in range(count)]
        scalars: dict[str, list[Any]] = {
            "string": [FORMATTED.get(schema.get("format", ""), "abc")],
            "integer": [2, 4, 6],
            "number": [0, 1.5, 2],
            "boolean": [True, False],
        }
        return deepcopy(self._random.choice(scalars.get(str(kind), JUNK)))

    def _object(self, schema: Document, depth: int) -> Document:
        made: Document = {}
        for key, inner in schema.get("properties", {}).items():
            chance = 0.97 if key in schema.get("required", ()) else 0.25
            if self._random.random() < chance:
                made[key] = self.value(inner, depth + 1)
        values = schema.get("additionalProperties")
        if isinstance(values, dict):
            for key in ("a", "b", "c.d/e")[: self._random.randint(0, 3)]:
                made[key] = self.value(values, depth + 1)
        if schema.get("x-kubernetes-embedded-resource"):
            made |= {"apiVersion": "v1", "kind": "Pod"}
        if self._random.random() < 0.05:
            made["unknownField"] = deepcopy(self._random.choice(JUNK))
        return made
