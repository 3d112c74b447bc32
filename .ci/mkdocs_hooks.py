# SPDX-License-Identifier: Apache-2.0
"""How pages are built: without the marks that say how a code block is held to be true."""

from __future__ import annotations

import re

_MARK = re.compile(r"^(\s*```\w*) (?:run|parse|record)\b.*$", re.MULTILINE)


def on_page_markdown(markdown: str, **_: object) -> str:
    """A page's text as mkdocs reads it."""
    return _MARK.sub(r"\1", markdown)
