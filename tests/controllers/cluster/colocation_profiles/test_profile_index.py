# SPDX-License-Identifier: Apache-2.0
"""The index selects what asking every profile would; few are asked."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.api.kinds.cluster import Namespace
from koord.api.kinds.meta import ObjectMeta
from koord.api.kinds.profile import ClusterColocationProfile
from koord.base.errors import KoordError
from koord.controllers.cluster.colocation_profiles.profile_index import ProfileIndex
from tests.controllers.cluster.colocation_profiles.test_effect import profile
from tests.models import profile_selection

_KEYS, _VALUES = st.sampled_from(("a", "b", "c")), st.sampled_from(("1", "2", ""))
_LABELS = st.dictionaries(_KEYS, _VALUES)
_REQUIREMENTS = st.one_of(
    st.fixed_dictionaries({
        "key": _KEYS, "operator": st.sampled_from(("In", "NotIn")),
        "values": st.lists(_VALUES, min_size=1, max_size=3),
    }),
    st.fixed_dictionaries({
        "key": _KEYS, "operator": st.sampled_from(("Exists", "DoesNotExist")),
    }),
)  # fmt: skip
_SELECTORS = st.fixed_dictionaries(
    {}, optional={"matchLabels": _LABELS, "matchExpressions": st.lists(_REQUIREMENTS, max_size=2)}
)
_SPECS = st.fixed_dictionaries(
    {}, optional={"selector": _SELECTORS, "namespaceSelector": _SELECTORS}
)


@given(
    changes=st.lists(st.tuples(st.sampled_from("pqrst"), st.none() | _SPECS), max_size=12),
    labels=_LABELS,
    namespace=st.none() | _LABELS,
    with_namespaces=st.booleans(),
)
def test_profiles_that_come_change_and_go_select_as_in_the_model(
    changes: list[tuple[str, Any]],
    labels: dict[str, str],
    namespace: dict[str, str] | None,
    with_namespaces: bool,
) -> None:
    index, specs = ProfileIndex(with_namespaces=with_namespaces), {}
    for name, spec in changes:
        if spec is None:
            index.remove(name)
            specs.pop(name, None)
        else:
            index.put(profile(spec, name))
            specs[name] = spec
    around = None if namespace is None else Namespace(metadata=ObjectMeta(labels=namespace))
    found = [usable.profile.metadata.name for usable in index.selected(labels, around)]
    assert found == sorted(
        name
        for name, spec in specs.items()
        if profile_selection.selects(spec, labels, namespace, with_namespaces=with_namespaces)
    )
    assert len(index) == len(specs)


def test_a_profile_that_cannot_be_evaluated_selects_nothing_and_replaces_its_former_self() -> None:
    index = ProfileIndex()
    index.put(profile({"selector": {}}))
    for wrong in (
        {"probability": "x"},
        {"selector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}},
        {"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}},
    ):
        with pytest.raises(KoordError, match=r"spec\."):
            index.put(profile(wrong))
        assert index.selected({}) == []


def test_of_two_hundred_profiles_only_those_with_the_pods_label_are_asked() -> None:
    index = ProfileIndex()
    for number in range(200):
        # They share a label; the one that tells them apart is what they are found by.
        chosen = {"matchLabels": {"colocation": "on", "team": f"t{number}"}}
        index.put(profile({"selector": chosen}, f"p{number:03}"))
    asked = list(index._candidates({"colocation": "on", "team": "t7"}, None))
    assert len(asked) <= 2
    found: list[ClusterColocationProfile] = [
        usable.profile for usable in index.selected({"colocation": "on", "team": "t7"})
    ]
    assert [each.metadata.name for each in found] == ["p007"]
