# SPDX-License-Identifier: Apache-2.0
"""Within a group no name is given twice, whatever definitions come and go."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from koord.controlplane.customresources import accepted_names

Document = dict[str, Any]
WORDS = st.sampled_from(["a", "b", "c", "d"])
NAMES = st.fixed_dictionaries(
    {"plural": WORDS, "kind": WORDS},
    optional={"singular": WORDS, "listKind": WORDS, "shortNames": st.lists(WORDS, max_size=2)},
)
STEPS = st.lists(st.tuples(st.integers(0, 3), st.none() | NAMES), max_size=12)


def claimed(names: Document) -> list[tuple[str, str]]:
    """Each name that a definition holds, once, with the space that it is from."""
    paths = {names.get("plural"), names.get("singular"), *names.get("shortNames", ())}
    kinds = {names.get("kind"), names.get("listKind")}
    found = [("path", name) for name in paths] + [("kind", name) for name in kinds]
    return [(space, name) for space, name in found if name]


def definition(number: int, names: Document) -> Document:
    return {"metadata": {"name": f"n{number}"}, "spec": {"group": "g", "names": names}}


@given(STEPS)
def test_names_are_given_once(steps: list[tuple[int, Document | None]]) -> None:
    there: dict[int, Document] = {}
    for number, names in steps:
        if names is None:
            there.pop(number, None)
        elif number in there:
            there[number]["spec"]["names"] = names
        else:
            there[number] = definition(number, names)
        for crd in there.values():
            accepted = accepted_names.accept(crd, there.values())
            crd["status"] = {"acceptedNames": accepted.names}
            wanted = claimed(crd["spec"]["names"])
            assert accepted.all == (set(wanted) == set(claimed(accepted.names)))
        held = Counter(
            one for crd in there.values() for one in claimed(crd["status"]["acceptedNames"])
        )
        assert max(held.values(), default=1) == 1


def test_another_group_has_names_of_its_own() -> None:
    names = {"plural": "as", "kind": "A"}
    other = definition(1, names) | {"status": {"acceptedNames": names}}
    other["spec"]["group"] = "h"
    accepted = accepted_names.accept(definition(2, names), [other])
    assert (accepted.all, accepted.names) == (True, names)
