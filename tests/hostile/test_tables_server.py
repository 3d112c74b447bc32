# SPDX-License-Identifier: Apache-2.0
"""What the embedded server remembers of specs that came before is bounded, by number and length.

Rule: docs/limits-server.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sized

import msgspec
import pytest

from koord.controlplane.kinds.pod import defaults, spec_validation
from koord.controlplane.kinds.validation.causes import Causes
from koord.controlplane.schema.builtin import core_schema
from tests.contract.api import Document

STEPS = 2_000


def _spec(number: int, length: int = 0) -> Document:
    arguments = ["x" * length] * bool(length)
    containers = [{"name": f"c{number}", "image": "i", "args": arguments}]
    return {"containers": containers}


def _checked(spec: Document) -> Sized:
    causes = Causes()
    defaults.default_pod(spec)
    spec_validation.check_pod({"metadata": {}, "spec": spec}, causes)
    assert not causes
    return spec_validation._good_specs


def _decoded(spec: Document) -> Sized:
    schema = core_schema.core_schema("", "v1", "Pod")
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": spec}
    schema.decode(msgspec.json.encode(body), "Strict")
    return schema._specs


@pytest.mark.parametrize(
    ("read", "most", "longest"),
    [
        (_checked, spec_validation._KNOWN_SPECS, spec_validation._LONGEST_KNOWN),
        (_decoded, core_schema._REMEMBERED, core_schema._LARGEST_REMEMBERED),
    ],
    ids=["checked", "decoded"],
)
def test_specs_of_pods(read: Callable[[Document], Sized], most: int, longest: int) -> None:
    sizes = [len(read(_spec(number))) for number in range(STEPS)]
    assert max(sizes) == most < STEPS
    before = len(read(_spec(0)))
    assert len(read(_spec(1, longest))) <= before
