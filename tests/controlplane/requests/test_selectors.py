# SPDX-License-Identifier: Apache-2.0
"""Selectors as text against requirements as plain values."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.controlplane.requests import selectors
from koord.controlplane.storage.collection import Entry
from koord.kube.errors import ApiError

KEYS = st.sampled_from(("app", "tier", "koordinator.sh/qosClass"))
VALUES = st.sampled_from(("", "web", "BE", "10", "2", "03", "x.y_z"))
SETS = st.dictionaries(KEYS, VALUES)
OPERATORS = ("=", "==", "!=", "in", "notin", "exists", "!", ">", "<")


@st.composite
def requirements(draw: st.DrawFn) -> tuple[str, str, list[str]]:
    operator = draw(st.sampled_from(OPERATORS))
    if operator in (">", "<"):
        return operator, draw(KEYS), [str(draw(st.integers(0, 20)))]
    return operator, draw(KEYS), draw(st.lists(VALUES, min_size=1, max_size=3))


def written(operator: str, key: str, values: list[str]) -> str:
    if operator in ("in", "notin"):
        return f"{key} {operator} ({', '.join(values)})"
    if operator in ("exists", "!"):
        return key if operator == "exists" else f"!{key}"
    return f"{key}{operator}{values[0]}"


def holds(operator: str, key: str, values: list[str], labels: dict[str, str]) -> bool:
    """The rule of each operator (Kubernetes' documentation of label selectors)."""
    value = labels.get(key)
    if operator in ("=", "=="):
        return value == values[0]
    if operator == "!=":
        return value != values[0]
    if operator == "in":
        return value is not None and value in values
    if operator == "notin":
        return value is None or value not in values
    if operator in ("exists", "!"):
        return (value is not None) is (operator == "exists")
    if value is None or not value.isdigit():
        return False
    return int(value) > int(values[0]) if operator == ">" else int(value) < int(values[0])


@given(st.lists(requirements(), min_size=1, max_size=4), SETS)
def test_labels_match_as_their_requirements_say(
    terms: list[tuple[str, str, list[str]]], labels: dict[str, str]
) -> None:
    match = selectors.labels(",".join(written(*term) for term in terms))
    assert match is not None
    assert match(labels) is all(holds(*term, labels) for term in terms)


@given(st.text(alphabet="abc=!,() <>-./\\'\"0\n\x00é", max_size=20))
def test_any_text_is_a_selector_or_400(text: str) -> None:
    for parse in (selectors.labels, lambda text: selectors.fields(text, ("spec.nodeName",))):
        try:
            match = parse(text)
        except ApiError as refused:
            status = refused.http_status
        else:
            status = 400 if match is None or callable(match) else 0
        assert status == 400


def entry(namespace: str, name: str, node: str) -> Entry:
    return Entry(f"{namespace}/{name}", namespace, name, "u", 1, b"{}", {}, (node,))


@given(
    st.sampled_from(("a", "b")), st.sampled_from(("n,1", "n=1", "n\\1", "", "n1")), st.booleans()
)
def test_fields_match_whatever_characters_they_have(name: str, node: str, same: bool) -> None:
    quoted = node.replace("\\", "\\\\").replace(",", "\\,").replace("=", "\\=")
    text = f"metadata.name={name},spec.nodeName{'=' if same else '!='}{quoted}"
    match = selectors.fields(text, ("spec.nodeName",))
    assert match is not None
    for found in ("n,1", "n=1", "n\\1", "", "n1"):
        assert match(entry("x", "a", found)) is (name == "a" and (found == node) is same)


def test_a_field_that_cannot_be_selected_is_refused() -> None:
    with pytest.raises(ApiError, match=r"field label not supported: spec\.image"):
        selectors.fields("spec.image=x", ("spec.nodeName",))
