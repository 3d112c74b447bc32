# SPDX-License-Identifier: Apache-2.0
"""Takes out of text what looks like a secret: behind the allow-list, for messages and logs.

Rule: docs/guide-support-bundle.md#what-is-in-it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from koord.cli.commands.bundle.allow_list import LEFT_OUT

_WORDS: Final = r"pass(?:word|wd|phrase)|secret|token|api[-_]?key|credentials?|authorization"
# Each begins with something definite and looks a bounded way ahead, so that a line that somebody
# else has written costs no more than its length.
_PATTERNS: Final = (
    # A certificate or a key, on one line with escapes or on several; a cut one to its end.
    (re.compile(r"-----BEGIN [A-Z ]+-----.*?(?:-----END [A-Z ]+-----|\Z)", re.DOTALL), LEFT_OUT),
    # A JSON web token, such as those of service accounts.
    (re.compile(r"(?<![\w-])eyJ[\w-]{6,}\.[\w-]+(?:\.[\w-]*)?"), LEFT_OUT),
    (re.compile(r"(?i)\b(bearer|basic)\s{1,8}[\w.~+/=-]{6,}"), rf"\1 {LEFT_OUT}"),
    (re.compile(r"://[^\s/@\"']{1,256}@"), f"://{LEFT_OUT}@"),
    # What stands behind a name, as NAME=..., "NAME": "..." or NAME: ...
    (
        re.compile(
            rf"(?i)((?:{_WORDS})[\w.-]{{0,64}}[\"']?\s{{0,8}}[=:]\s{{0,8}})(?!{LEFT_OUT})"
            r"(\"[^\"]*\"?|'[^']*'?|[^\s\"',;{}\[\]]+)"
        ),
        rf"\1{LEFT_OUT}",
    ),
)
_FLAG: Final = re.compile(r"((?<![\w-])--?([a-zA-Z][\w-]{0,64})\s{1,8})(?!-|<)\S+")
_SECRET_KEY: Final = re.compile(rf"(?i){_WORDS}")
_NEVER: Final = frozenset(("env", "envFrom", "args", "command", "stringData", "caBundle"))


def scrubbed(text: str) -> str:
    """The text without what looks like a secret."""
    for pattern, instead in _PATTERNS:
        text = pattern.sub(instead, text)
    return _FLAG.sub(_flag, text)


def _flag(match: re.Match[str]) -> str:
    """A flag and the word behind it, which goes where the flag's name says that it is a secret."""
    return f"{match[1]}{LEFT_OUT}" if _SECRET_KEY.search(match[2]) else match[0]


def scrubbed_document(value: Any) -> Any:
    """A value of JSON without such texts, and without what containers are started with.

    Keys that name a secret lose their text; what they hold otherwise, such as the name of an
    object, is looked at in turn.
    """
    if isinstance(value, str):
        return scrubbed(value)
    if isinstance(value, list):
        return [scrubbed_document(each) for each in value]
    if isinstance(value, Mapping):
        return {scrubbed(str(key)): _field(str(key), each) for key, each in value.items()}
    return value


def _field(key: str, value: Any) -> Any:
    if key in _NEVER and isinstance(value, str | list):
        return LEFT_OUT
    if isinstance(value, str | list) and value and _SECRET_KEY.search(key):
        return LEFT_OUT
    return scrubbed_document(value)
