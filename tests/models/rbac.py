# SPDX-License-Identifier: Apache-2.0
"""RBAC as its documentation states it, by going through every binding, role and rule."""

from __future__ import annotations

from typing import Any

Document = dict[str, Any]


def allowed(objects: list[Document], user: str, groups: list[str], asked: Document) -> bool:
    """Whether some binding gives some role with some rule that covers what is asked.

    Args:
        objects: roles and bindings of all kinds.
        user: who asks.
        groups: what they belong to.
        asked: verb, group, resource, subresource, namespace, name; or verb and path.
    """
    for binding in objects:
        if not binding["kind"].endswith("Binding"):
            continue
        scope = binding["metadata"].get("namespace")
        if scope is not None and scope != asked.get("namespace"):
            continue
        if not any(_is_subject(each, scope, user, groups) for each in binding["subjects"]):
            continue
        for role in objects:
            if role["kind"] != binding["roleRef"]["kind"]:
                continue
            if role["metadata"]["name"] != binding["roleRef"]["name"]:
                continue
            if role["kind"] == "Role" and role["metadata"]["namespace"] != scope:
                continue
            if any(_covers(rule, asked) for rule in role["rules"]):
                return True
    return False


def _is_subject(subject: Document, scope: str | None, user: str, groups: list[str]) -> bool:
    if subject["kind"] == "User":
        return bool(subject["name"] == user)
    if subject["kind"] == "Group":
        return subject["name"] in groups
    namespace = subject.get("namespace", scope)
    return f"system:serviceaccount:{namespace}:{subject['name']}" == user


def _covers(rule: Document, asked: Document) -> bool:
    if not {"*", asked["verb"]} & set(rule["verbs"]):
        return False
    if "path" in asked:
        urls = rule.get("nonResourceURLs", [])
        exact = asked["path"] in urls
        return exact or any(u[-1] == "*" and asked["path"].startswith(u[:-1]) for u in urls)
    wanted = {"*", asked["resource"]}
    if asked["subresource"]:
        wanted = {
            "*", f"{asked['resource']}/{asked['subresource']}", f"*/{asked['subresource']}"
        }  # fmt: skip
    names = rule.get("resourceNames", [])
    return bool(
        {"*", asked["group"]} & set(rule.get("apiGroups", []))
        and wanted & set(rule.get("resources", []))
        and (not names or asked["name"] in names)
    )
