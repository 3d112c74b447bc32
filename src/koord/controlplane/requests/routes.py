# SPDX-License-Identifier: Apache-2.0
"""What a path names: ``/api/v1/namespaces/NS/pods/NAME/status`` and the like."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import unquote

from koord.base.memory.text_cache import text_cache
from koord.controlplane.api_errors import no_such_page, no_such_path


class Route(NamedTuple):
    """A path below ``/api/v1`` or ``/apis/GROUP/VERSION``.

    Attributes:
        watched: by the old form, ``/api/v1/watch/...``.
    """

    group: str
    version: str
    plural: str = ""
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    watched: bool = False


# Resources of the core group that may stand where a namespace's own subresource does not.
_OF_A_NAMESPACE = ("status", "finalize")


@text_cache(4096)
def parse(path: str) -> Route:
    """The route of a percent-encoded path.

    Raises:
        ApiError: 404, it is none.
    """
    parts = path.strip("/").split("/")
    if "%" in path:
        parts = [unquote(part) for part in parts]
    if parts[0] == "api" and len(parts) >= 2:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) >= 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        raise no_such_page()
    if "" in rest or "" in parts[1:2]:
        raise no_such_path()
    watched = rest[:1] == ["watch"]
    rest = rest[1:] if watched else rest
    namespace = ""
    if len(rest) >= 3 and rest[0] == "namespaces" and not (
        len(rest) == 3 and rest[2] in _OF_A_NAMESPACE
    ):  # fmt: skip
        namespace, rest = rest[1], rest[2:]
    if len(rest) > 3:
        raise no_such_path()
    return Route(group, version, *_padded(rest, namespace), watched)


def _padded(rest: list[str], namespace: str) -> tuple[str, str, str, str]:
    plural, name, subresource = (*rest, "", "", "")[:3]
    return plural, namespace, name, subresource
