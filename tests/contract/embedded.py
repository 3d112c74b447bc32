# SPDX-License-Identifier: Apache-2.0
"""Starts the embedded server for the contract tests."""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class Embedded:
    """A running embedded server."""

    port: int
    authority: Path
    headers: Mapping[str, str]
    kubeconfig: Path

    def tls(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self.authority)


@contextmanager
def start_embedded(folder: Path, *, controllers: bool) -> Iterator[Embedded]:
    pytest.skip("not there yet")
    yield
