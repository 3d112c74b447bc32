# SPDX-License-Identifier: Apache-2.0
"""A cluster's entries in the kubeconfig that a user has already.

The file is replaced whole or not at all, under the lock file that kubectl takes too, and is
readable to its owner alone. Entries of other names and keys that are not known here stay.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import yaml

from koord.base.documents import parse_documents, read_text
from koord.base.errors import KoordError
from koord.controlplane.pki import write_private

if TYPE_CHECKING:
    from collections.abc import Iterator

_LISTS = ("clusters", "users", "contexts")
# What a user of koord's has.
_USER_KEYS = frozenset(("token",))
_CURRENT, _FORMER = "current-context", "former-context"
_LOCK_SECONDS = 2.0
_HOSTS = ("127.0.0.1", "localhost", "::1")


def default_path() -> Path:
    """Where kubectl writes: the first file of ``KUBECONFIG``, or ``~/.kube/config``."""
    named = [each for each in os.environ.get("KUBECONFIG", "").split(os.pathsep) if each]
    return Path(named[0]) if named else Path.home() / ".kube" / "config"


def check(path: Path, name: str = "koord") -> None:
    """Whether entries of that name can be put into a file.

    Raises:
        KoordError: it is no kubeconfig that can be read, or the name is another cluster's.
    """
    found = _read(path)
    cluster, user = (_entry(found, each, name) for each in ("cluster", "user"))
    server = str((cluster or {}).get("server", ""))
    if server and urlsplit(server).hostname not in _HOSTS:
        expected = f"another name than {name} for a cluster elsewhere"
        raise KoordError(str(path), f"clusters[{name}]", server, expected)
    # Credentials exist nowhere else: what koord has not written is not written over.
    if user is not None and (cluster is None or not user.keys() <= _USER_KEYS):
        expected = f"another name than {name} for the user of another cluster"
        raise KoordError(str(path), f"users[{name}]", ",".join(user) or "{}", expected)
    for entry in found["contexts"]:
        context = entry.get("context") or {}
        uses = (context.get("cluster"), context.get("user")) if isinstance(context, dict) else ()
        if uses != (name, name) and (entry.get("name") == name or name in uses):
            given = f"cluster {uses[0]}, user {uses[1]}" if uses else context
            expected = f"another name than {name} for what is of another cluster"
            raise KoordError(str(path), f"contexts[{entry.get('name')}]", given, expected)


def merge(path: Path, content: str) -> str:
    """Puts in the entries of a kubeconfig, and makes its context the current one.

    Args:
        path: made where it is not there.
        content: as :func:`koord.controlplane.kubeconfig.text` gives it.

    Returns:
        The context that was current before any cluster of that name; empty for none. It stands in
        the file too, for a cluster that was killed cannot take its entries out.

    Raises:
        KoordError: see :func:`check`; or the file cannot be written.
    """
    new = json.loads(content)
    name = str(new[_CURRENT])
    with _locked(path):
        check(path, name)
        found = _read(path)
        former = _former(found, name)
        if former:
            extension = {"name": name, "extension": {_FORMER: former}}
            new["contexts"][0]["context"]["extensions"] = [extension]
        for each in _LISTS:
            found[each] = _without(found[each], name) + new[each]
        found[_CURRENT] = name
        _write(path, found)
    return former


def remove(path: Path, content: str, former: str) -> None:
    """Takes the entries out again, unless another cluster has put its own there since.

    Args:
        path: of the file.
        content: what was put in.
        former: the context that becomes the current one again, if it is still there.

    Raises:
        KoordError: the file cannot be read or written.
    """
    mine = json.loads(content)
    name = str(mine[_CURRENT])
    with _locked(path):
        found = _read(path)
        if [each for each in found["clusters"] if each.get("name") == name] != mine["clusters"]:
            return
        for each in _LISTS:
            found[each] = _without(found[each], name)
        if found.get(_CURRENT) == name:
            known = [each.get("name") for each in found["contexts"]]
            found[_CURRENT] = former if former in known else ""
        _write(path, found)


def _former(found: dict[str, Any], name: str) -> str:
    """The context that is current, or was before that of a name."""
    current = str(found.get(_CURRENT) or "")
    if current != name:
        return current
    for each in (_entry(found, "context", name) or {}).get("extensions") or ():
        inner = each.get("extension") if isinstance(each, dict) else None
        if isinstance(inner, dict) and each.get("name") == name:
            return str(inner.get(_FORMER) or "")
    return ""


def _entry(found: dict[str, Any], kind: str, name: str) -> dict[str, Any] | None:
    """What is said of the cluster, user or context of a name; None where there is none."""
    for entry in found[f"{kind}s"]:
        if entry.get("name") == name:
            inner = entry.get(kind)
            return inner if isinstance(inner, dict) else {}
    return None


def _without(entries: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return [each for each in entries if each.get("name") != name]


def _read(path: Path) -> dict[str, Any]:
    """A kubeconfig with its three lists; an empty one where there is no file."""
    documents = parse_documents(read_text(path), str(path)) if path.exists() else []
    found = documents[0] if documents else {"apiVersion": "v1", "kind": "Config"}
    right = len(documents) <= 1 and isinstance(found, dict) and found.get("kind") == "Config"
    for each in _LISTS if right else ():
        entries = found[each] = found.get(each) or []
        right &= isinstance(entries, list) and all(isinstance(entry, dict) for entry in entries)
    if not right:
        raise KoordError(str(path), "", "another document", "a kubeconfig")
    return found


def _write(path: Path, document: dict[str, Any]) -> None:
    text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True)
    try:
        # Where it is a link, what it points to is replaced.
        write_private(path.resolve(), text.encode())
    except OSError as error:
        raise KoordError.wrap(str(path), "", error) from None


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Holds the lock file of kubectl's own changes."""
    lock = path.with_name(path.name + ".lock")
    end = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            break
        except FileExistsError:
            if time.monotonic() > end:
                expected = "no lock of another program (remove it if none runs)"
                raise KoordError(str(lock), "", "a file", expected) from None
            time.sleep(0.05)
        except OSError as error:
            raise KoordError.wrap(str(lock), "", error) from None
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)
