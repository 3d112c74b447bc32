# SPDX-License-Identifier: Apache-2.0
"""Cases for the core kinds, and what a real kube-apiserver answered to each.

A file of ``tests/data/kube/cases`` is a list of cases: a resource, an object to create, and changes
to be put afterwards (merge patches that the runner applies itself, so that a PUT is sent); what is
``given`` is made before, status and all, and only there for the case. The file
of the same name in ``goldens`` holds the answers, recorded from a real server, without what differs
from run to run: uids, versions, times, allocated addresses.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import yaml

DATA = Path(__file__).parents[1] / "data" / "kube"
NAMESPACE = "golden"

Document = dict[str, Any]
Send = Callable[[str, str, Document | None, bool], tuple[int, Document]]
"""Method, path, body and whether a table is wanted to status and answer."""

_DROPPED = ("uid", "resourceVersion", "creationTimestamp", "managedFields", "selfLink")
_TIMES = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_AGE = re.compile(r"\b\d+[smhdy](\d+[smhd])?\b(?= ago|$)")
_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_LIMITS = re.compile(r", (?=minimum|maximum)")
_ADDRESS = re.compile(r"10\.96\.\d+\.\d+")


def case_files() -> list[str]:
    """Names of the files of cases, without suffix."""
    return sorted(path.stem for path in (DATA / "cases").glob("*.yaml"))


@cache
def cases(name: str) -> list[Document]:
    """The cases of one file; ``$base`` names an earlier object that the case's object patches."""
    loaded: list[Document] = yaml.safe_load((DATA / "cases" / f"{name}.yaml").read_text())
    bases: dict[str, Document] = {}
    found = []
    for case in loaded:
        if "base" in case and "case" not in case:
            bases[case["base"]] = case["object"]
            continue
        base = bases.get(case.get("base", ""), {})
        case["object"] = merged(copy.deepcopy(base), case.get("object", {}))
        for entry in (case, *case.get("given", ())):
            entry["object"].setdefault("metadata", {}).setdefault("name", case["case"])
        found.append(case)
    return found


@cache
def goldens(name: str) -> dict[str, list[Document]]:
    """The answers of a real server, by case."""
    loaded: dict[str, list[Document]] = json.loads((DATA / "goldens" / f"{name}.json").read_text())
    return loaded


def merged(document: Any, patch: Any) -> Any:
    """RFC 7396, save that a list of dicts patched by ``{index: patch}`` is changed in place."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    if isinstance(document, list) and all(key.isdigit() for key in patch):
        changed = list(document)
        for key, inner in patch.items():
            changed[int(key)] = merged(changed[int(key)], inner)
        return changed
    result = dict(document) if isinstance(document, dict) else {}
    for key, inner in patch.items():
        if inner is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), inner)
    return result


def normalised(answer: Any) -> Any:
    """An answer without what differs between two runs."""
    if isinstance(answer, dict):
        kept = {key: normalised(value) for key, value in answer.items()}
        if isinstance(metadata := kept.get("metadata"), dict):
            for key in _DROPPED:
                metadata.pop(key, None)
        if kept.get("kind") == "Status":
            _sort_causes(kept)
        return kept
    if isinstance(answer, list):
        return [normalised(value) for value in answer]
    if isinstance(answer, str):
        answer = _UID.sub("UID", _TIMES.sub("TIME", answer))
        return _ADDRESS.sub("ADDRESS", answer)
    return answer


def _sort_causes(status: Document) -> None:
    """Several causes come in the order of Go's maps, which is none, and some twice."""
    before, forbidden, listed = status.get("message", "").partition(" is forbidden: [")
    if forbidden:
        parts = sorted(_LIMITS.split(listed.removesuffix("]")))
        status["message"] = f"{before}{forbidden}{', '.join(parts)}]"
    details = status.get("details") or {}
    causes = details.get("causes") or []
    if len(causes) > 1:
        unique = {(cause["field"], cause["message"]): cause for cause in causes}
        details["causes"] = [unique[key] for key in sorted(unique)]
        status["message"] = status["message"].partition(" is invalid: ")[0]


def run(case: Document, send: Send, collection: str) -> Iterator[Document]:
    """The answers to the steps of a case, the last one being the object's table row.

    A step is ``update: PATCH``, ``SUBRESOURCE: PATCH`` or ``post: {SUBRESOURCE: body}``.
    """
    status, answer = send("POST", collection, case["object"], False)
    yield {"code": status, "answer": normalised(answer)}
    if status >= 300:
        return
    item = f"{collection}/{answer['metadata']['name']}"
    for step in case.get("then", ()):
        ((verb, patch),) = step.items()
        if verb == "post":
            ((subresource, body),) = patch.items()
            status, answer = send("POST", f"{item}/{subresource}", body, False)
            yield {"code": status, "answer": normalised(answer)}
            continue
        suffix = "" if verb == "update" else f"/{verb}"
        status, current = send("GET", item, None, False)
        changed = merged(current, patch)
        status, answer = send("PUT", item + suffix, changed, False)
        yield {"code": status, "answer": normalised(answer)}
    status, table = send("GET", item, None, True)
    if status != 200:
        yield {"code": status}
        return
    columns = [
        [column[key] for key in ("name", "type", "format", "priority")]
        for column in table["columnDefinitions"]
    ]
    cells = [_without_age(cell) for cell in table["rows"][0]["cells"]]
    yield {"columns": columns, "cells": cells}


def _without_age(cell: Any) -> Any:
    if isinstance(cell, str):
        cell = _AGE.sub("AGE", cell)
    return normalised(cell)
