# SPDX-License-Identifier: Apache-2.0
"""What the embedded server remembers of specs that came before is bounded, by number and length.

Rule: docs/limits-server.md.
"""

from __future__ import annotations

from collections.abc import Sized

from koord.controlplane.kinds.pod import defaults, spec_validation
from koord.controlplane.kinds.validation.causes import Causes
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


def test_specs_of_pods_that_passed_the_checks() -> None:
    sizes = [len(_checked(_spec(number))) for number in range(STEPS)]
    assert max(sizes) == spec_validation._KNOWN_SPECS < STEPS
    before = len(_checked(_spec(0)))
    assert len(_checked(_spec(1, spec_validation._LONGEST_KNOWN))) <= before
