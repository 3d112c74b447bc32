# SPDX-License-Identifier: Apache-2.0
"""Requests with the answers that a real kube-apiserver once gave, without what differs by run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.contract.api import Answer

Document = dict[str, Any]

FOLDER = Path(__file__).parents[1] / "data" / "contract"
_BY_RUN = ("uid", "resourceVersion", "creationTimestamp", "generation", "namespace")


def load(name: str) -> list[Document]:
    """The steps of one file."""
    steps: list[Document] = json.loads((FOLDER / f"{name}.json").read_text())
    return steps


def save(name: str, steps: list[Document]) -> None:
    """Writes steps, one a line."""
    lines = [json.dumps(step, separators=(",", ":")) for step in steps]
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{name}.json").write_text("[\n" + ",\n".join(lines) + "\n]\n")


def normal(answer: Answer) -> Document:
    """What an answer says that is the same in every run and on both servers.

    Empty values are left out: a real server drops most that were sent, the embedded one keeps them.
    """
    document = answer.document
    if document.get("kind") == "Status":
        causes = [list(cause) for cause in sorted(set(answer.causes))]
        return {"code": answer.code, "reason": document.get("reason", ""), "causes": causes}
    metadata = document["metadata"]
    managers = metadata.pop("managedFields", [])
    for key in _BY_RUN:
        metadata.pop(key, None)
    document.pop("status", None)
    said = {
        "code": answer.code,
        "document": _filled(document),
        "warnings": _of_fields(answer.warnings),
    }
    if any(entry["operation"] == "Apply" for entry in managers):
        untimed = [{key: entry[key] for key in entry if key != "time"} for entry in managers]
        said["managers"] = sorted(untimed, key=lambda entry: json.dumps(entry, sort_keys=True))
    plain: Document = json.loads(json.dumps(said))
    return plain


def _of_fields(warnings: list[str]) -> list[str]:
    """Those about the shape of what was sent; advice on values is another matter."""
    return [text for text in warnings if text.startswith(("unknown field", "duplicate field"))]


def _filled(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {key: _filled(inner) for key, inner in value.items()}
        return {key: inner for key, inner in kept.items() if inner not in ({}, [], "", None)}
    return [_filled(inner) for inner in value] if isinstance(value, list) else value
