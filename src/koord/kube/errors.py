# SPDX-License-Identifier: Apache-2.0
"""What an API server says when it refuses, and what happens when none answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from koord.api.wirestruct import WireStruct, emitted
from koord.base.errors import Code, KoordError, one_line

if TYPE_CHECKING:
    from collections.abc import Awaitable

T = TypeVar("T")
_FORBIDDEN, _NOT_FOUND = 403, 404


class StatusCause(WireStruct):
    """One reason of several, as in a validation error.

    Attributes:
        reason: machine-readable, e.g. ``FieldValueRequired``.
        message: for people.
        field: path of the field, e.g. ``spec.containers[0].name``.
    """

    reason: str = ""
    message: str = ""
    field: str = ""


class StatusDetails(WireStruct):
    """Which object a status is about."""

    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: list[StatusCause] = []
    retry_after_seconds: int = 0


class Status(WireStruct):
    """The ``Status`` object of the Kubernetes API: the answer to whatever yields no object."""

    kind: str = emitted(str)
    api_version: str = emitted(str)
    metadata: dict[str, str] = emitted(dict)
    status: str = ""
    message: str = ""
    reason: str = ""
    details: StatusDetails | None = None
    code: int = 0

    def __post_init__(self) -> None:
        self.kind = self.kind or "Status"
        self.api_version = self.api_version or "v1"


class ApiError(KoordError):
    """An API server refused.

    Attributes:
        status: what it said.
    """

    exit_status = 1

    def __init__(self, status: Status) -> None:
        self.status = status
        details = status.details or StatusDetails()
        named = " ".join(part for part in (details.kind, details.name) if part)
        super().__init__(
            named or "API server", "", status.reason or status.code, status.message, Code.INVALID
        )

    def _line(self) -> str:
        said = self.status.message or f"status {self.status.code}"
        return one_line(f"the API server refused: {said}")

    @property
    def http_status(self) -> int:
        """The HTTP status, e.g. 409."""
        return self.status.code

    @property
    def reason(self) -> str:
        """The machine-readable reason, e.g. ``Conflict``; empty where the server gave none."""
        return self.status.reason

    @property
    def retry_after_seconds(self) -> int:
        """How long the server asks to wait; 0 where it says nothing."""
        return self.status.details.retry_after_seconds if self.status.details else 0


class PodRefusalError(ApiError):
    """An API server refused a pod, and an event on the pod's owner has told its author."""


class TransportError(ConnectionError):
    """No answer came: refused, cut, timed out, or no TLS.

    Whether the request took effect is unknown unless ``sent`` is False.

    Args:
        message: one line.
        sent: False if the request surely never reached the server.
    """

    def __init__(self, message: str, sent: bool = True) -> None:
        super().__init__(message)
        self.sent = sent


def causes_of(error: ApiError) -> list[StatusCause]:
    """The single reasons behind an error; empty where the server gave none."""
    return error.status.details.causes if error.status.details else []


async def unless_missing(answer: Awaitable[T]) -> T | None:
    """The answer to a request about an object or a kind; None where the server has no such one.

    Raises:
        ApiError: the server refuses for another reason.
    """
    try:
        return await answer
    except ApiError as error:
        if error.http_status != _NOT_FOUND:
            raise
        return None


def is_definition_going(error: ApiError) -> bool:
    """Whether nothing can be created because the kind's definition is being deleted."""
    terminating = "custom resource definition is terminating"
    return error.http_status == _FORBIDDEN and terminating in error.status.message


__all__ = [
    "ApiError",
    "Status",
    "StatusCause",
    "StatusDetails",
    "TransportError",
    "causes_of",
    "is_definition_going",
    "unless_missing",
]
