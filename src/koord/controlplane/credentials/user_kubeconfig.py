# SPDX-License-Identifier: Apache-2.0
"""A cluster's entries in the kubeconfig that a user has already.

The file is replaced whole or not at all, under the lock file that kubectl takes too, and is
readable to its owner alone. Entries of other names and keys that are not known here stay.
"""

from __future__ import annotations

import json
import os
import re
import socket
import time
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import yaml

from koord.base.documents import parse_documents, read_text
from koord.base.errors import KoordError
from koord.controlplane.credentials.pki import write_private

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_LISTS = ("clusters", "users", "contexts")
# What a user of koord's has.
_USER_KEYS = frozenset(("token",))
_CURRENT, _FORMER = "current-context", "former-context"
# Such as y, 1e3, 0o17.
_AMBIGUOUS = re.compile(r"[yYnN]$|[0-9+.-]")
# Under this name a context says what is koord's.
_EXTENSION = "koord"
_LOCK_SECONDS, _ANSWER_SECONDS = 2.0, 1.0
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


def merge(path: Path, content: str, answers: Callable[[str], bool] | None = None) -> str:
    """Puts in the entries of a kubeconfig, and makes its context the current one.

    Where another cluster of this machine has the name and still runs, they get the next free one:
    ``koord-2``, ``koord-3``. Those of clusters that run no more give way.

    Args:
        path: made where it is not there.
        content: as :func:`koord.controlplane.credentials.kubeconfig.text` gives it.
        answers: whether anything listens at a server's URL; None for a connection that is tried.

    Returns:
        The name. The context that was current before stands in the file, for a cluster that was
        killed cannot take its entries out.

    Raises:
        KoordError: see :func:`check`; or the file cannot be written.
    """
    new = json.loads(content)
    base = str(new[_CURRENT])
    server = str(new["clusters"][0]["cluster"]["server"])
    with _locked(path):
        check(path, base)
        found = _read(path)

        def gone(name: str) -> bool:
            other = str((_entry(found, "cluster", name) or {}).get("server", ""))
            return other in ("", server) or not (answers or _answers)(other)

        for each in _numbered(found, base):
            if gone(each):
                _take_out(found, each)
        name = base
        if gone(base):
            _take_out(found, base)
        else:
            taken = {entry.get("name") for kind in _LISTS for entry in found[kind]}
            name = next(each for at in count(2) if (each := f"{base}-{at}") not in taken)
        _put_in(found, new, name)
        _write(path, found)
    return name


def remove(path: Path, name: str, content: str) -> None:
    """Takes the entries out again, unless another cluster has put its own there since.

    The context that was current before is again, if it is still there.

    Args:
        path: of the file.
        name: as :func:`merge` gave it.
        content: what was put in.

    Raises:
        KoordError: the file cannot be read or written.
    """
    mine = json.loads(content)["clusters"][0]["cluster"]
    with _locked(path):
        found = _read(path)
        if _entry(found, "cluster", name) != mine:
            return
        _take_out(found, name)
        _write(path, found)


def _put_in(config: dict[str, Any], new: dict[str, Any], name: str) -> None:
    context: dict[str, Any] = {"cluster": name, "user": name}
    if former := str(config.get(_CURRENT) or ""):
        context["extensions"] = [{"name": _EXTENSION, "extension": {_FORMER: former}}]
    inner = {"cluster": new["clusters"][0]["cluster"], "user": new["users"][0]["user"]}
    for kind, what in (*inner.items(), ("context", context)):
        config[f"{kind}s"].append({"name": name, kind: what})
    config[_CURRENT] = name


def _take_out(config: dict[str, Any], name: str) -> None:
    """What was current before it is so again, and what came after it goes back to that."""
    former = _former(config, name)
    for kind in _LISTS:
        config[kind] = [each for each in config[kind] if each.get("name") != name]
    if config.get(_CURRENT) == name:
        known = [each.get("name") for each in config["contexts"]]
        config[_CURRENT] = former if former in known else ""
    for inner in map(_extension, config["contexts"]):
        if inner.get(_FORMER) == name:
            inner[_FORMER] = former


def _former(config: dict[str, Any], name: str) -> str:
    """The context that was current before that of a name; empty for none."""
    for entry in config["contexts"]:
        if entry.get("name") == name:
            return str(_extension(entry).get(_FORMER) or "")
    return ""


def _extension(entry: dict[str, Any]) -> dict[str, Any]:
    """What koord has noted in a context; empty for nothing."""
    context = entry.get("context")
    extensions = context.get("extensions") if isinstance(context, dict) else None
    for each in extensions if isinstance(extensions, list) else ():
        inner = each.get("extension") if isinstance(each, dict) else None
        if isinstance(inner, dict) and each.get("name") == _EXTENSION:
            return inner
    return {}


def _numbered(config: dict[str, Any], base: str) -> list[str]:
    """The further names of clusters of this machine, none but those that koord has put in."""
    names = []
    for entry in config["contexts"]:
        name = str(entry.get("name"))
        server = str((_entry(config, "cluster", name) or {}).get("server", ""))
        user = _entry(config, "user", name)
        if (
            re.fullmatch(rf"{re.escape(base)}-[0-9]+", name)
            and _FORMER in _extension(entry)
            and urlsplit(server).hostname in _HOSTS
            and user is not None
            and user.keys() <= _USER_KEYS
        ):
            names.append(name)
    return names


def _answers(url: str) -> bool:
    parts = urlsplit(url)
    try:
        address = (parts.hostname or "", parts.port or 443)
        with socket.create_connection(address, timeout=_ANSWER_SECONDS):
            return True
    except (OSError, ValueError):
        return False


def _entry(config: dict[str, Any], kind: str, name: str) -> dict[str, Any] | None:
    """What is said of the cluster, user or context of a name; None where there is none."""
    for entry in config[f"{kind}s"]:
        if entry.get("name") == name:
            inner = entry.get(kind)
            return inner if isinstance(inner, dict) else {}
    return None


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
    text = yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True)
    try:
        # Where it is a link, what it points to is replaced.
        write_private(path.resolve(), text.encode())
    except OSError as error:
        raise KoordError.wrap(str(path), "", error) from None


class _Dumper(yaml.SafeDumper):
    """Quotes what kubectl's parser takes for a number or a boolean and PyYAML does not."""


def _quoted(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = '"' if _AMBIGUOUS.match(text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style)


_Dumper.add_representer(str, _quoted)


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
