# SPDX-License-Identifier: Apache-2.0
"""Which objects a ClusterColocationProfile is for."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.api.kinds.cluster import Namespace
from koord.api.kinds.meta import ObjectMeta
from koord.api.protocol import keys
from koord.base.errors import KoordError
from koord.controllers.cluster.colocation_profiles import selection
from tests.controllers.cluster.colocation_profiles.test_effect import profile


@pytest.mark.parametrize(
    ("given_", "percent"),
    [(None, 100), (0, 0), (30, 30), ("30%", 30), ("0%", 0), ("100%", 100), ("250%", 100), (-3, 0)],
)
def test_the_share_of_pods(given_: Any, percent: int) -> None:
    spec = {} if given_ is None else {"probability": given_}
    assert selection.percent(profile(spec)) == percent


@pytest.mark.parametrize("wrong", ["30", "x%", "%", "1.5%", "-3%"])
def test_a_share_that_is_none_is_an_error(wrong: str) -> None:
    with pytest.raises(KoordError, match=r"spec\.probability"):
        selection.percent(profile({"probability": wrong}))


@given(share=st.integers(0, 100), uids=st.integers(0, 10_000))
def test_a_pod_draws_once_and_larger_shares_take_in_smaller_ones(share: int, uids: int) -> None:
    made, uid = profile({}), ObjectMeta(name=f"pod-{uids}", namespace="d")
    drawn = selection.is_in_share(made, uid, share)
    assert drawn == selection.is_in_share(made, uid, share)
    assert not drawn or selection.is_in_share(made, uid, min(share + 1, 100))
    assert not selection.is_in_share(made, uid, 0)
    assert selection.is_in_share(made, uid, 100)


@pytest.mark.parametrize("share", [1, 30, 99])
def test_the_share_is_exact_not_one_more(share: int) -> None:
    pods = 200_000
    drawn = sum(selection.draw("p", f"d/pod-{i}") < share for i in range(pods))
    # Five standard deviations; share + 1 percent would be nine or more away.
    fraction = share / 100
    assert abs(drawn - pods * fraction) < 5 * (pods * fraction * (1 - fraction)) ** 0.5


@pytest.mark.parametrize("told", ["", "x", "[]", '{"p":"1"}', '{"other":1}', '{"p":1.5}', "null"])
def test_a_note_that_cannot_be_read_counts_as_none(told: str) -> None:
    plain = ObjectMeta(name="a", namespace="d", generate_name="a-")
    noted = ObjectMeta(name="a", namespace="d", generate_name="a-",
                       annotations={keys.PROFILE_DRAWS: told})  # fmt: skip
    made = profile({})
    assert selection.number_of(made, noted) == selection.number_of(made, plain)


def test_only_of_a_generated_name_a_note_counts() -> None:
    made = profile({})
    notes = {keys.PROFILE_DRAWS: '{"p":1000}'}
    plain = ObjectMeta(name="a", namespace="d", annotations=notes)
    generated = ObjectMeta(name="a", namespace="d", annotations=notes, generate_name="a")
    assert selection.number_of(made, plain) < 100
    assert selection.number_of(made, generated) == 1000


def test_profiles_draw_apart() -> None:
    both = sum(
        selection.draw("one", str(i)) < 50 and selection.draw("other", str(i)) < 50
        for i in range(4000)
    )
    assert 800 < both < 1200


def test_selectors_of_pods_and_namespaces() -> None:
    pod = ObjectMeta(name="p", namespace="n", labels={"app": "web"})
    space = Namespace(metadata=ObjectMeta(name="n", labels={"team": "a"}))
    web, team = {"matchLabels": {"app": "web"}}, {"matchLabels": {"team": "a"}}
    for spec, namespace, holds in (
        ({}, space, False),
        ({"selector": {}}, None, True),
        ({"selector": web}, None, True),
        ({"selector": {"matchLabels": {"app": "x"}}}, space, False),
        ({"selector": web, "namespaceSelector": team}, space, True),
        ({"selector": web, "namespaceSelector": {}}, space, True),
        ({"selector": web, "namespaceSelector": {}}, None, True),
        ({"selector": web, "namespaceSelector": team}, None, False),
        ({"selector": web, "namespaceSelector": {"matchLabels": {"team": "b"}}}, space, False),
    ):
        assert selection.is_selected(profile(spec).spec, pod.labels, namespace) is holds
