# SPDX-License-Identifier: Apache-2.0
"""ValidatingAdmissionPolicies of one test: made, bound to its namespace, waited for."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from typing import Any

from tests.contract.api import Answer, Api, Document, at
from tests.contract.documents import config_map, document

WAIT_SECONDS = 90.0
POLICIES = "admissionregistration.k8s.io/v1/validatingadmissionpolicies"
BINDINGS = "admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
_numbers = itertools.count(1)
RULE: Document = {
    "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"],
    "resources": ["configmaps"],
}  # fmt: skip
# Every policy of these tests refuses this object, so that one sees when it is in force.
PROBE = "probe"
PROBED = {"expression": "object.metadata.name != 'probe'", "message": "the probe"}

Enforce = Callable[..., str]


def policy(name: str, *validations: Document, **spec: Any) -> Document:
    constraints = spec.pop("matchConstraints", {"resourceRules": [RULE]})
    whole = {"matchConstraints": constraints, "validations": [*validations, PROBED], **spec}
    return document(
        "admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy", name, spec=whole
    )


def enforcing(api: Api, namespace: str) -> Iterator[Enforce]:
    """Binds a policy to a namespace, and waits until it is in force."""
    made: list[str] = []

    def make(
        *validations: Document,
        actions: tuple[str, ...] = ("Deny",),
        param_ref: Document | None = None,
        **spec: Any,
    ) -> str:
        name = f"contract-{next(_numbers)}"
        api.post(at(POLICIES), policy(name, *validations, **spec)).ok["metadata"]
        made.append(at(POLICIES, name=name))
        selector = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
        bound: Document = {
            "policyName": name, "validationActions": list(actions),
            "matchResources": {"namespaceSelector": selector},
        }  # fmt: skip
        if param_ref is not None:
            bound["paramRef"] = param_ref
        kind = "ValidatingAdmissionPolicyBinding"
        body = document("admissionregistration.k8s.io/v1", kind, name, spec=bound)
        api.post(at(BINDINGS), body).ok["metadata"]
        made.append(at(BINDINGS, name=name))
        deadline = time.monotonic() + WAIT_SECONDS
        while not _in_force(create(PROBE, dryRun="All")):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        return name

    def create(name: str, **options: Any) -> Answer:
        return api.post(at("configmaps", namespace), config_map(name), **options)

    yield make
    for path in reversed(made):
        api.delete(path)


def _in_force(answer: Answer) -> bool:
    return answer.code == 422 or any("the probe" in text for text in answer.warnings)
