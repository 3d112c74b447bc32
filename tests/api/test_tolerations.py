# SPDX-License-Identifier: Apache-2.0
"""Which tolerations cover which taints: Kubernetes 1.35 with its comparison operators off."""

from __future__ import annotations

import pytest

from koord.api.kinds.constraints import Taint, Toleration
from koord.api.tolerations import KEEPS_OUT, PREFERS_NOT, covers, tolerates, untolerated

# Key, operator, value and effect of a toleration; value of a taint of key k; the taint's effect is
# NoSchedule.
CASES = [
    (("k", "Exists", "", "NoSchedule"), "", True),
    (("k", "Exists", "", "NoSchedule"), "v", True),
    (("k", "Exists", "", ""), "v", True),
    (("", "Exists", "", "NoSchedule"), "v", True),
    (("", "Exists", "", ""), "v", True),
    (("", "Exists", "", "NoExecute"), "v", False),
    (("l", "Exists", "", ""), "v", False),
    (("k", "Exists", "other", ""), "v", True),
    (("k", "Equal", "v", "NoSchedule"), "v", True),
    (("k", "", "v", "NoSchedule"), "v", True),
    (("k", "", "v", ""), "v", True),
    (("k", "Equal", "w", "NoSchedule"), "v", False),
    (("k", "Equal", "v", "NoExecute"), "v", False),
    (("k", "Equal", "v", "PreferNoSchedule"), "v", False),
    (("k", "Equal", "", ""), "v", False),
    (("k", "Equal", "", ""), "", True),
    # The API server refuses these of pods, but not in templates of custom resources.
    (("", "Equal", "v", ""), "v", True),
    (("", "", "", ""), "", True),
    (("", "", "", ""), "v", False),
    (("k", "Other", "v", ""), "v", False),
    (("k", "exists", "", ""), "v", False),
    (("k", "Lt", "950", "NoSchedule"), "800", False),
    (("k", "Gt", "750", "NoSchedule"), "950", False),
    (("k", "Lt", "950", "NoSchedule"), "950", False),
]


@pytest.mark.parametrize(("toleration", "value", "expected"), CASES)
def test_one(toleration: tuple[str, str, str, str], value: str, expected: bool) -> None:
    taint = Taint(key="k", value=value, effect="NoSchedule")
    made = Toleration(*toleration)
    assert covers(made, taint) is expected
    assert tolerates([Toleration("x", "Exists"), made], taint) is expected


def test_the_first_of_some_effects_that_nothing_covers() -> None:
    taints = [
        Taint("a", "", "PreferNoSchedule"),
        Taint("b", "", "NoSchedule"),
        Taint("c", "", "NoExecute"),
    ]
    some = [Toleration("b", "Exists")]
    assert untolerated(taints, some, KEEPS_OUT) is taints[2]
    assert untolerated(taints, some, PREFERS_NOT) is taints[0]
    assert untolerated(taints, [], KEEPS_OUT) is taints[1]
    assert untolerated(taints, [*some, Toleration("c", "Exists")], KEEPS_OUT) is None
