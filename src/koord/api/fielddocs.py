# SPDX-License-Identifier: Apache-2.0
"""Descriptions of types and fields out of their docstrings: one text for Python and kubectl."""

from __future__ import annotations

import inspect


def summary(kind: type) -> str:
    """The first paragraph of a type's docstring on one line, plain text."""
    text = inspect.cleandoc(kind.__doc__ or "")
    return " ".join(text.partition("\n\n")[0].split()).replace("``", "")


def field_docs(kind: type) -> dict[str, str]:
    """The text for each wire name in the ``Attributes:`` block of a type's docstring."""
    text = inspect.cleandoc(kind.__doc__ or "")
    _, _, block = text.partition("Attributes:\n")
    docs: dict[str, str] = {}
    name = ""
    for line in block.splitlines():
        if not line.startswith("    "):
            break
        if line.startswith("     "):
            docs[name] += " " + line.strip()
        else:
            name, _, first = line.strip().partition(": ")
            docs[name] = first
    return docs
