# SPDX-License-Identifier: Apache-2.0
"""A daemon's program as its user meets it: what it says of wrong usage, what its ports answer."""

from __future__ import annotations

import time
import urllib.error
import urllib.request
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

PATIENCE_SECONDS = 60.0


def usage_error(
    main: Callable[[], None],
    words: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> str:
    """What a program says of wrong words: one line, and the exit status of wrong usage.

    Args:
        main: its console script.
        words: its name and arguments.
        monkeypatch, capsys: the test's.
    """
    monkeypatch.setattr("sys.argv", words)
    with pytest.raises(SystemExit) as caught:
        main()
    error = capsys.readouterr().err
    assert caught.value.code == 2
    assert error.count("\n") == 1
    return error


def answer(url: str, tls: ssl.SSLContext | None = None, body: bytes | None = None) -> str:
    """The body of an answer, of a refusal too; waits until somebody listens."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    asked = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    while True:
        try:
            with urllib.request.urlopen(asked, context=tls, timeout=20) as answered:
                return str(answered.read().decode())
        except urllib.error.HTTPError as error:
            with error:
                return error.read().decode()
        except OSError:
            assert time.monotonic() < deadline, url
            time.sleep(0.05)
