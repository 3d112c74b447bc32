# SPDX-License-Identifier: Apache-2.0
"""What looks like a secret goes, and what does not stays."""

from __future__ import annotations

import pytest

from koord.cli.commands.bundle.scrubbing import scrubbed, scrubbed_document


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("password: abc", "password: <left out>"),
        ('{"apiKey": "x y", "a": 1}', '{"apiKey": <left out>, "a": 1}'),
        ("DB_TOKEN=abc def", "DB_TOKEN=<left out> def"),
        ("-v 5 --client-secret abc", "-v 5 --client-secret <left out>"),
        ("--token=<left out>", "--token=<left out>"),
        ("sent Bearer abcdefgh.ijk", "sent Bearer <left out>"),
        ("eyJhbGciOiJ.eyJzdWIiOi.abc z", "<left out> z"),
        ("at https://u:p@h/x", "at https://<left out>@h/x"),
        ("a -----BEGIN A KEY-----\nx\n-----END A KEY----- b", "a <left out> b"),
        ("a -----BEGIN A KEY-----\nx", "a <left out>"),
        ("secret not found", "secret not found"),
        ("secretRef: {name: x}", "secretRef: {name: x}"),
        ('koord_events_total{result="written"} 3.0', 'koord_events_total{result="written"} 3.0'),
    ],
)
def test_text(text: str, left: str) -> None:
    assert scrubbed(text) == left


def test_documents() -> None:
    given = {"env": ["a"], "token": "t", "tokens": ["t"], "secretRef": {"name": "n"}, "n": 1}
    assert scrubbed_document({"deep": [given]}) == {
        "deep": [
            {
                "env": "<left out>",
                "token": "<left out>",
                "tokens": "<left out>",
                "secretRef": {"name": "n"},
                "n": 1,
            }
        ]
    }
