# SPDX-License-Identifier: Apache-2.0
"""Rules of the core kinds against plain models, and on documents with parts missing."""

from __future__ import annotations

import copy
import json
import string
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from koord.api.kinds.meta import LabelSelector
from koord.api.selectors import matches as typed_matches
from koord.controlplane.kinds.validation import names, object_meta
from koord.controlplane.kinds.validation.quantities import canonical_milli, parsed
from koord.controlplane.kinds.validation.workload_spec import matches
from koord.controlplane.resource import Context, Resource
from koord.kube.errors import ApiError
from tests.controlplane.goldens import case_files, cases
from tests.controlplane.recording import RESOURCES

Document = dict[str, Any]
CASES = [case for name in case_files() for case in cases(name)]
NOW = "2030-01-02T03:04:05Z"
LOWER, EDGES = (
    set(string.ascii_lowercase + string.digits),
    set(string.ascii_letters + string.digits),
)
texts = st.text(st.sampled_from("aZ9-._/ A"), max_size=70) | st.text(max_size=5)


def is_dns_label(text: str) -> bool:
    if not 1 <= len(text) <= 63:
        return False
    return text[0] in LOWER and text[-1] in LOWER and set(text) <= LOWER | {"-"}


def is_label_value(text: str) -> bool:
    if not text:
        return True
    inside = set(text) <= EDGES | set("-_.")
    return len(text) <= 63 and inside and text[0] in EDGES and text[-1] in EDGES


@given(texts)
def test_names_are_good_where_a_plain_reading_says_so(text: str) -> None:
    assert (not names.dns_label(text)) is is_dns_label(text)
    assert (not names.label_value(text)) is is_label_value(text)
    parts = text.split(".")
    subdomain = len(text) <= 253 and all(is_dns_label(p) or _long(p) for p in parts)
    assert (not names.dns_subdomain(text)) is subdomain
    prefix, slash, name = text.rpartition("/")
    key = bool(name) and is_label_value(name) and (not slash or not names.dns_subdomain(prefix))
    assert (not names.label_key(text)) is (
        key and text.count("/") <= 1 and bool(prefix or not slash)
    )


def _long(part: str) -> bool:
    """Parts of a subdomain have no limit of their own."""
    return len(part) > 63 and is_dns_label(part[:2] + part[-2:]) and set(part) <= LOWER | {"-"}


keys = st.sampled_from(["a", "b", "c"])
values = st.sampled_from(["x", "y", ""])
requirements = st.fixed_dictionaries(
    {
        "key": keys,
        "operator": st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist"]),
        "values": st.lists(values, min_size=1, max_size=2),
    }
)


@given(
    st.dictionaries(keys, values), st.lists(requirements, max_size=3), st.dictionaries(keys, values)
)
def test_a_selector_matches_as_the_typed_one_does(
    wanted: dict[str, str], expressions: list[Document], labels: dict[str, str]
) -> None:
    selector = {"matchLabels": wanted, "matchExpressions": expressions}
    typed = msgspec.convert(selector, LabelSelector)
    assert matches(selector, labels) is typed_matches(typed, labels)


@given(st.integers(0, 10**9), st.sampled_from(["", "m", "u", "n", "k", "Ki"]))
def test_amounts_are_rounded_up_to_thousandths(number: int, suffix: str) -> None:
    text = f"{number}{suffix}"
    rounded = parsed(canonical_milli(text))
    assert rounded >= parsed(text)
    assert (rounded - parsed(text)) < parsed("1m")
    assert canonical_milli(canonical_milli(text)) == canonical_milli(text)


def admitted(resource: Resource, body: Document) -> Document | None:
    """A document taken through all rules; None where one of them refuses."""
    document, _ = resource.schema.decode(json.dumps(body).encode(), "Ignore")
    strategy, metadata = resource.strategy, document.setdefault("metadata", {})
    metadata.update(uid="u", creationTimestamp=NOW)
    metadata.setdefault("name", "x")
    if resource.namespaced:
        metadata["namespace"] = "golden"
    strategy.default(document)
    strategy.prepare_create(document, Context(now=NOW))
    causes = [*object_meta.validate_create(resource, document), *strategy.validate(document)]
    return None if causes else document


def cut(data: st.DataObject, value: Any) -> None:
    """Takes one part out of a document, anywhere."""
    while True:
        inside = list(value) if isinstance(value, dict) else list(range(len(value)))
        if not inside:
            return
        key = data.draw(st.sampled_from(inside))
        if not isinstance(value[key], dict | list) or not value[key] or data.draw(st.booleans()):
            del value[key]
            return
        value = value[key]


@given(st.sampled_from(CASES), st.data())
def test_a_document_with_parts_missing_is_refused_or_whole(
    case: Document, data: st.DataObject
) -> None:
    resource, body = RESOURCES[case["in"]], copy.deepcopy(case["object"])
    for _ in range(data.draw(st.integers(0, 3))):
        cut(data, body)
    try:
        document = admitted(resource, body)
    except ApiError:
        return
    if document is None:
        return
    strategy = resource.strategy
    assert len(strategy.row(document, 1.0)) == len(strategy.columns)
    assert set(strategy.fields(document)) == set(strategy.selectable)
    changed, context = copy.deepcopy(document), Context(now=NOW)
    strategy.default(changed)
    assert changed == document, "defaults that were set once are set"
    strategy.prepare_update(changed, document, context)
    assert not strategy.validate_update(changed, document)
    status = copy.deepcopy(document)
    strategy.prepare_subresource("status", status, document, context)
    assert not strategy.validate_subresource("status", status, document)
    assert strategy.grace_period_seconds(document, None) >= 0
