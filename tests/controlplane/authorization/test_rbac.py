# SPDX-License-Identifier: Apache-2.0
"""Roles and bindings against a plain model, over random ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from koord.controlplane.authorization.access import AccessRequest
from koord.controlplane.authorization.identity import Identity
from koord.controlplane.authorization.rbac import STORAGES, Authorizer
from tests.models import rbac

Document = dict[str, Any]
NAMESPACES, NAMES = ["a", "b"], ["x", "y"]
_STORAGES = dict(zip(("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"), STORAGES,
                     strict=True))  # fmt: skip


class Objects:
    """A reader of the objects of one example."""

    def __init__(self, objects: list[Document]) -> None:
        self._objects = objects

    def documents(self, storage: str, namespace: str = "") -> Iterator[Document]:
        return (each for each in self._objects if _STORAGES[each["kind"]] == storage)

    def document(self, storage: str, namespace: str, name: str) -> Document | None:
        raise AssertionError("not asked")

    def generation(self, *storages: str) -> int:
        return 1


def few(*values: str) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(values), min_size=1, max_size=2, unique=True)


rules = st.one_of(
    st.fixed_dictionaries(
        {"verbs": few("get", "list", "*"), "apiGroups": few("", "apps", "*"),
         "resources": few("pods", "pods/log", "*/log", "*", "jobs")},
        optional={"resourceNames": few(*NAMES)},
    ),
    st.fixed_dictionaries({"verbs": few("get", "*"), "nonResourceURLs": few("/m", "/d/*", "*")}),
)  # fmt: skip
subjects = st.one_of(
    st.fixed_dictionaries({"kind": st.just("User"), "name": st.sampled_from(["u", "v"])}),
    st.fixed_dictionaries({"kind": st.just("Group"), "name": st.sampled_from(["g", "h"])}),
    st.fixed_dictionaries(
        {"kind": st.just("ServiceAccount"), "name": st.sampled_from(NAMES),
         "namespace": st.sampled_from(NAMESPACES)}
    ),
)  # fmt: skip


@st.composite
def clusters(draw: st.DrawFn) -> list[Document]:
    found: list[Document] = []
    for name in NAMES:
        body = {"rules": draw(st.lists(rules, max_size=2)), "metadata": {"name": name}}
        found.append({"kind": "ClusterRole", **body})
        for namespace in NAMESPACES:
            meta = {"name": name, "namespace": namespace}
            own = draw(st.lists(rules, max_size=1))
            found.append({"kind": "Role", "metadata": meta, "rules": own})
    for number in range(draw(st.integers(0, 4))):
        scope = draw(st.sampled_from([None, *NAMESPACES]))
        kind = draw(st.sampled_from(["Role", "ClusterRole"])) if scope else "ClusterRole"
        found.append({
            "kind": "RoleBinding" if scope else "ClusterRoleBinding",
            "metadata": {"name": f"b{number}", **({"namespace": scope} if scope else {})},
            "roleRef": {"kind": kind, "name": draw(st.sampled_from([*NAMES, "gone"]))},
            "subjects": draw(st.lists(subjects, max_size=2)),
        })  # fmt: skip
    return found


accesses = st.one_of(
    st.fixed_dictionaries(
        {"verb": st.sampled_from(["get", "list", "watch"]),
         "group": st.sampled_from(["", "apps", "batch"]),
         "resource": st.sampled_from(["pods", "jobs", "nodes"]),
         "subresource": st.sampled_from(["", "log", "exec"]),
         "namespace": st.sampled_from(["", *NAMESPACES]), "name": st.sampled_from(["", *NAMES])}
    ),
    st.fixed_dictionaries(
        {"verb": st.sampled_from(["get", "post"]), "path": st.sampled_from(["/m", "/mm", "/d/x"])}
    ),
)  # fmt: skip
users = st.sampled_from(["u", "w", "system:serviceaccount:a:x", "system:serviceaccount:b:y"])


@given(objects=clusters(), user=users, groups=few("g", "i"), asked=accesses)
def test_allows_what_the_model_allows(
    objects: list[Document], user: str, groups: list[str], asked: Document
) -> None:
    verdict = Authorizer(Objects(objects)).verdict(
        Identity(user, tuple(groups)), AccessRequest(**asked)
    )
    assert verdict.allowed == rbac.allowed(objects, user, groups, asked)
    assert verdict.reason.startswith("RBAC: allowed by ") == verdict.allowed


def test_roles_that_aggregate_each_other_end() -> None:
    def role(name: str, rule: Document) -> Document:
        meta = {"name": name, "labels": {"to": "all"}}
        selector = {"clusterRoleSelectors": [{"matchLabels": {"to": "all"}}]}
        return {"kind": "ClusterRole", "metadata": meta, "rules": [rule],
                "aggregationRule": selector}  # fmt: skip

    plain = {
        "kind": "ClusterRole", "metadata": {"name": "c", "labels": {"to": "all"}},
        "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}],
    }  # fmt: skip
    nothing = {"verbs": ["delete"], "apiGroups": [""], "resources": ["pods"]}
    binding = {
        "kind": "ClusterRoleBinding", "metadata": {"name": "b"},
        "roleRef": {"kind": "ClusterRole", "name": "a"},
        "subjects": [{"kind": "User", "name": "u"}],
    }  # fmt: skip
    authorizer = Authorizer(Objects([role("a", nothing), role("b", nothing), plain, binding]))
    who = Identity("u", ())
    assert authorizer.verdict(who, AccessRequest("get", "", "pods")).allowed
    # What stands in an aggregating role itself is overwritten on a real server.
    assert not authorizer.verdict(who, AccessRequest("delete", "", "pods")).allowed


def test_without_enforcement_everything_is_allowed() -> None:
    authorizer = Authorizer(Objects([]), enforced=False)
    assert authorizer.verdict(Identity("u", ()), AccessRequest("delete", "", "nodes")).allowed


def test_decisions_about_what_is_long_are_not_kept() -> None:
    """Reviews ask about paths of up to 128 KiB, as many as one likes."""
    authorizer = Authorizer(Objects([]))
    who = Identity("u", ())
    for number in range(10):
        assert not authorizer.verdict(who, AccessRequest("get", path=f"/{number}")).allowed
        long = AccessRequest("get", path=f"/{number}" + "x" * 100_000)
        assert not authorizer.verdict(who, long).allowed
    kept = authorizer._bindings.verdicts
    assert sorted(access.path for _, _, access in kept) == [f"/{n}" for n in range(10)]
