# SPDX-License-Identifier: Apache-2.0
"""Manifests against the types that three versions of Kubernetes publish.

The tables in ``tests/data/openapi`` have the names and types of what the chart renders, and of all
that these refer to; they come from ``api/openapi-spec/v3`` of Kubernetes' Go module:

    python -m tests.deploy.openapi 1.37 $(go env GOMODCACHE)/k8s.io/kubernetes@v1.37.2
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.real.dump_schemas import dump

TABLES = Path(__file__).parents[1] / "data" / "openapi"
VERSIONS = ("1.32", "1.35", "1.37")
GROUPS = (
    "api__v1", "apis__admissionregistration.k8s.io__v1", "apis__apps__v1",
    "apis__apiextensions.k8s.io__v1", "apis__networking.k8s.io__v1", "apis__policy__v1",
    "apis__rbac.authorization.k8s.io__v1", "apis__scheduling.k8s.io__v1",
)  # fmt: skip
KINDS = (
    "v1/ConfigMap", "v1/Namespace", "v1/Pod", "v1/Secret", "v1/Service", "v1/ServiceAccount",
    "admissionregistration.k8s.io/v1/MutatingWebhookConfiguration",
    "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy",
    "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicyBinding",
    "admissionregistration.k8s.io/v1/ValidatingWebhookConfiguration",
    "apiextensions.k8s.io/v1/CustomResourceDefinition", "apps/v1/DaemonSet", "apps/v1/Deployment",
    "networking.k8s.io/v1/NetworkPolicy", "policy/v1/PodDisruptionBudget",
    "rbac.authorization.k8s.io/v1/ClusterRole", "rbac.authorization.k8s.io/v1/ClusterRoleBinding",
    "rbac.authorization.k8s.io/v1/Role", "rbac.authorization.k8s.io/v1/RoleBinding",
    "scheduling.k8s.io/v1/PriorityClass",
)  # fmt: skip
# JSON's types by the words of a table.
_SCALARS: Mapping[str, tuple[type, ...]] = {
    "string": (str,), "byte": (str,), "time": (str,), "micro-time": (str,), "boolean": (bool,),
    "int32": (int,), "int64": (int,), "double": (int, float), "object": (dict,),
    "int-or-string": (int, str), "quantity": (int, float, str),
}  # fmt: skip


class TypeTable:
    """The types of one version of Kubernetes.

    Args:
        version: one of :data:`VERSIONS`.
    """

    def __init__(self, version: str) -> None:
        text = (TABLES / f"kubernetes-{version}.json").read_text("utf-8")
        self._types: dict[str, Any] = json.loads(text)
        self._kinds = {each["kind"]: name for name, each in self._types.items() if "kind" in each}

    def knows(self, document: Mapping[str, Any]) -> bool:
        """Whether a document is of a kind of Kubernetes' own."""
        return f"{document['apiVersion']}/{document['kind']}" in self._kinds

    def problems(self, document: Mapping[str, Any]) -> list[str]:
        """What a server would warn of or refuse: unknown fields, missing ones, wrong types."""
        kind = self._kinds[f"{document['apiVersion']}/{document['kind']}"]
        return list(self._of(kind, document, ""))

    def _of(self, expression: str, value: Any, path: str) -> Iterator[str]:
        if value is None:  # As good as left out.
            return
        if expression.startswith(("[]", "{}")):
            wanted = list if expression.startswith("[]") else dict
            if not isinstance(value, wanted):
                yield f"{path}: {value!r} is no {wanted.__name__}"
                return
            for key, item in enumerate(value) if isinstance(value, list) else value.items():
                yield from self._of(expression[2:], item, f"{path}[{key}]")
        elif expression in _SCALARS:
            kinds = _SCALARS[expression]
            if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
                yield f"{path}: {value!r} is no {expression}"
        elif expression != "any":
            yield from self._struct(self._types[expression], value, path)

    def _struct(self, entry: Mapping[str, Any], value: Any, path: str) -> Iterator[str]:
        if "is" in entry:
            yield from self._of(entry["is"], value, path)
            return
        if not isinstance(value, dict):
            yield f"{path}: {value!r} is no mapping"
            return
        for name in entry.get("required", ()):
            if value.get(name) is None:
                yield f"{path}.{name}: missing"
        for name, inner in value.items():
            field = entry["fields"].get(name)
            if field is None:
                yield f"{path}.{name}: unknown"
                continue
            said = field if isinstance(field, dict) else {"type": field}
            if "enum" in said and inner not in said["enum"]:
                yield f"{path}.{name}: {inner!r} is none of {said['enum']}"
            yield from self._of(said["type"], inner, f"{path}.{name}")


def table(module: Path) -> str:
    """The table of a version, from its Go module."""
    folder = module / "api" / "openapi-spec" / "v3"
    documents = [json.loads((folder / f"{name}_openapi.json").read_text()) for name in GROUPS]
    types: dict[str, Any] = json.loads(dump(documents))
    left = [name for name, each in types.items() if each.get("kind") in KINDS]
    kept: set[str] = set()
    while left:
        name = left.pop()
        if name in types and name not in kept:
            kept.add(name)
            left += re.findall(r'"(?:\[\]|\{\})*([A-Za-z0-9_.-]+)"', json.dumps(types[name]))
    lines = (
        f"{json.dumps(name)}: {json.dumps(types[name], separators=(',', ':'))}"
        for name in sorted(kept)
    )
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    (TABLES / f"kubernetes-{sys.argv[1]}.json").write_text(table(Path(sys.argv[2])), "utf-8")
