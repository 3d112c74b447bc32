# SPDX-License-Identifier: Apache-2.0
"""The kubeconfig that reaches a server: self-contained, readable to its owner alone."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

from koord.base.errors import KoordError
from koord.controlplane.credentials.pki import write_private

if TYPE_CHECKING:
    from pathlib import Path

    from koord.controlplane.credentials.pki import Credentials


def text(url: str, credentials: Credentials | None, name: str = "koord") -> str:
    """A kubeconfig (JSON, which is YAML).

    Args:
        url: of the server.
        credentials: None for a server without TLS and token.
    """
    cluster: dict[str, Any] = {"server": url}
    user: dict[str, Any] = {}
    if credentials is not None:
        cluster["certificate-authority-data"] = base64.b64encode(credentials.authority).decode()
        user["token"] = credentials.token
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    }
    return json.dumps(config, indent=2) + "\n"


def write(path: Path, content: str) -> None:
    """Writes a kubeconfig with mode 0600.

    Raises:
        KoordError: the file cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_private(path, content.encode())
    except OSError as error:
        raise KoordError.wrap(str(path), "", error) from None
