# SPDX-License-Identifier: Apache-2.0
"""Where koord's answers of admission are meant to differ."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

from tests.vectors.admission.parts import BAD_PATCHES, BAD_TEMPLATE_PATCHES

Json = Any
_BAD = (*BAD_PATCHES, *BAD_TEMPLATE_PATCHES)
_SPEC = "node.koordinator.sh/extended-resource-spec"
_BATCH = ("kubernetes.io/batch-cpu", "kubernetes.io/batch-memory")


def has_unreadable_selector(case: Json, theirs: Json, ours: Json) -> bool:
    """A profile with an operator that there is not."""
    return any(_unreadable(each["spec"]) for each in case["profiles"])


def _unreadable(spec: Json) -> bool:
    return any(
        each["operator"] == "Near"
        for key in ("selector", "namespaceSelector")
        for each in spec.get(key, {}).get("matchExpressions", ())
    )


def has_unknown_namespace(case: Json, theirs: Json, ours: Json) -> bool:
    """A profile with conditions on a namespace that is not known."""
    return (
        case["rule"] == "mutate"
        and not case["namespaces"]
        and any(each["spec"].get("namespaceSelector") for each in case["profiles"])
    )


def has_bad_profile(case: Json, theirs: Json, ours: Json) -> bool:
    """A percentage that is none, or a patch that does not fit, which end the request there."""
    return theirs == {"error": True} and any(
        each["spec"].get("probability") in ("x", "30") or each["spec"].get("patch") in _BAD
        for each in case["profiles"]
    )


def completed_spec(case: Json, theirs: Json, ours: Json) -> Json:
    """Their annotation is koord's without mid resources and init containers."""
    if "object" not in theirs or "object" not in ours:
        return theirs
    said = [
        json.loads(each["object"]["metadata"].get("annotations", {}).get(_SPEC, "{}"))
        for each in (theirs, ours)
    ]
    if said[0] == said[1]:
        return theirs
    init = {each["name"] for each in ours["object"]["spec"].get("initContainers", ())}
    bare = {}
    for name, parts in said[1].get("containers", {}).items():
        kept = {
            part: {key: amount for key, amount in amounts.items() if key in _BATCH}
            for part, amounts in parts.items()
        }
        kept = {part: amounts for part, amounts in kept.items() if amounts}
        if kept and name not in init:
            bare[name] = kept
    if bare != said[0].get("containers", {}):
        return theirs
    return _with(theirs, ours, "metadata", "annotations", _SPEC)


def affinity_once(case: Json, theirs: Json, ours: Json) -> Json:
    """Their terms are koord's with requirements twice."""
    terms = [_terms(each) for each in (theirs, ours)]
    if terms[0] is None or terms[1] is None or terms[0] == terms[1]:
        return theirs
    once = [[each for i, each in enumerate(term) if each not in term[:i]] for term in terms[0]]
    return _with(theirs, ours, "spec", "affinity") if once == terms[1] else theirs


def _terms(answer: Json) -> Json:
    affinity = answer.get("object", {}).get("spec", {}).get("affinity")
    if affinity is None:
        return None
    required = affinity["nodeAffinity"].get("requiredDuringSchedulingIgnoredDuringExecution", {})
    return [
        (term or {}).get("matchExpressions", []) for term in required.get("nodeSelectorTerms", ())
    ]


def tree_of_all_nodes(case: Json, theirs: Json, ours: Json) -> Json:
    """A profile of a tree with an empty selector; their pod gets a term that allows no node."""
    empty = any(each["spec"]["nodeSelector"] == {} for each in case["quotaProfiles"])
    if not empty or "object" not in theirs or "object" not in ours:
        return theirs
    if any(_terms(theirs) or ()):
        return theirs
    return _with(theirs, ours, "spec", "affinity")


def assigns_to_missing_map(case: Json, theirs: Json, ours: Json) -> bool:
    """They write to a map that there is not, and panic."""
    return "assignment to entry in nil map" in theirs.get("panic", "")


def _with(theirs: Json, ours: Json, *path: str) -> Json:
    """Their answer with koord's value at a path."""
    found = deepcopy(theirs)
    at, mine = found["object"], ours["object"]
    for key in path[:-1]:
        at, mine = at.setdefault(key, {}), mine.get(key, {})
    at.pop(path[-1], None)
    if path[-1] in mine:
        at[path[-1]] = mine[path[-1]]
    if not at:
        parent = found["object"]
        for key in path[:-2]:
            parent = parent[key]
        if len(path) > 1:
            parent.pop(path[-2], None)
    return found
