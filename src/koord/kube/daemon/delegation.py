# SPDX-License-Identifier: Apache-2.0
"""Who a token stands for and what that user may: asked of the API server, answers kept a while.

As kube-scheduler's secure port does it: a TokenReview, then a SubjectAccessReview of a path that is
no resource. Rule: docs/reference/scheduling.md#who-may-ask.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import msgspec

from koord.base import log
from koord.base.errors import one_line
from koord.kube.transport.messages import Request

if TYPE_CHECKING:
    from collections.abc import Hashable

    from koord.base.clock import Clock
    from koord.kube.daemon.secure_port_options import SecurePortOptions
    from koord.kube.transport.messages import Transport

_TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
_ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_REVIEW_SECONDS = 10.0
_CREATED = (200, 201)
# Anybody may send tokens: what they cost, here and at the API server, has a limit.
_KEPT = 1024
_UNDER_WAY = 32
_LOG = log.get("serving")
_Answer = TypeVar("_Answer")
# Gives an answer, and for how many seconds it is kept.
_Ask = Callable[[], Awaitable[tuple[_Answer, float]]]


class AccessReviewError(Exception):
    """The API server could not be asked, so that nobody may anything."""


class User(NamedTuple):
    """Who asks, as the API server calls them."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


class _UserInfo(msgspec.Struct):
    username: str = ""
    uid: str = ""
    groups: list[str] = []
    extra: dict[str, list[str]] = {}


class _TokenStatus(msgspec.Struct):
    authenticated: bool = False
    user: _UserInfo = msgspec.field(default_factory=_UserInfo)


class _TokenReview(msgspec.Struct):
    status: _TokenStatus


class _AccessStatus(msgspec.Struct):
    allowed: bool = False
    denied: bool = False


class _AccessReview(msgspec.Struct):
    status: _AccessStatus


class Delegation:
    """Asks an API server.

    Args:
        authentication: the way to the server that knows tokens.
        authorization: the way to the server that knows what users may.
        options: how long answers are kept.
        clock: by which they grow old.
    """

    def __init__(
        self,
        authentication: Transport,
        authorization: Transport,
        options: SecurePortOptions,
        clock: Clock,
    ) -> None:
        self._authentication, self._authorization = authentication, authorization
        self._options = options
        self._users: _KeptAnswers[User | None] = _KeptAnswers(clock)
        self._rights: _KeptAnswers[bool] = _KeptAnswers(clock)

    async def user(self, token: str) -> User | None:
        """Whom a bearer token stands for; None for nobody.

        Raises:
            AccessReviewError: the API server could not be asked.
        """

        async def ask() -> tuple[User | None, float]:
            spec = {"token": token}
            body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec}
            found = await _review(self._authentication, _TOKEN_REVIEWS, body, _TokenReview)
            status, kept = found.status, self._options.authentication_token_webhook_cache_ttl
            told = status.user
            if not (status.authenticated and told.username):
                return None, kept
            extra = tuple(sorted((key, tuple(values)) for key, values in told.extra.items()))
            return User(told.username, told.uid, tuple(told.groups), extra), kept

        # The token itself is not kept.
        return await self._users.get(sha256(token.encode("utf-8", "replace")).digest(), ask)

    async def allows(self, user: User, verb: str, path: str) -> bool:
        """Whether a user may do something.

        Args:
            user: from :meth:`user`, or of a certificate.
            verb: an HTTP method in small letters.
            path: of the URL.

        Raises:
            AccessReviewError: the API server could not be asked.
        """

        async def ask() -> tuple[bool, float]:
            spec: dict[str, Any] = {
                "user": user.name,
                "uid": user.uid,
                "groups": user.groups,
                "extra": dict(user.extra),
                "nonResourceAttributes": {"path": path, "verb": verb},
            }
            body = {
                "apiVersion": "authorization.k8s.io/v1",
                "kind": "SubjectAccessReview",
                "spec": spec,
            }
            found = await _review(self._authorization, _ACCESS_REVIEWS, body, _AccessReview)
            may = found.status.allowed and not found.status.denied
            options = self._options
            yes, no = (
                options.authorization_webhook_cache_authorized_ttl,
                options.authorization_webhook_cache_unauthorized_ttl,
            )
            return may, yes if may else no

        return await self._rights.get((user, verb, path), ask)


async def _review(transport: Transport, path: str, body: Any, answered: type[_Answer]) -> _Answer:
    request = Request("POST", path, body=msgspec.json.encode(body), timeout_seconds=_REVIEW_SECONDS)
    kind = path.rpartition("/")[2]
    try:
        answer = await transport.send(request)
        if answer.status not in _CREATED:
            raise AccessReviewError(f"create {kind}: HTTP status {answer.status}")
        return msgspec.json.decode(answer.body, type=answered)
    except AccessReviewError as error:
        _LOG.warning("no review", extra=log.fields(error=str(error)))
        raise
    except (OSError, ValueError) as error:
        why = one_line(str(error)) or type(error).__name__
        _LOG.warning("no review", extra=log.fields(error=f"create {kind}: {why}"))
        raise AccessReviewError(f"create {kind}: {why}") from None


class _KeptAnswers(Generic[_Answer]):
    """Answers by question, each until its time; who asks what is being asked waits for that."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._kept: OrderedDict[Hashable, tuple[_Answer, float]] = OrderedDict()
        self._waiting: dict[Hashable, asyncio.Task[_Answer]] = {}

    async def get(self, key: Hashable, ask: _Ask[_Answer]) -> _Answer:
        kept = self._kept.get(key)
        if kept is not None and self._clock.monotonic_seconds() < kept[1]:
            return kept[0]
        task = self._waiting.get(key)
        if task is None:
            if len(self._waiting) >= _UNDER_WAY:
                raise AccessReviewError("too many at once")
            task = asyncio.create_task(self._ask(key, ask))
            self._waiting[key] = task
        # Who leaves does not end it for the others.
        return await asyncio.shield(task)

    async def _ask(self, key: Hashable, ask: _Ask[_Answer]) -> _Answer:
        try:
            answer, seconds = await ask()
        finally:
            del self._waiting[key]
        self._kept[key] = (answer, self._clock.monotonic_seconds() + seconds)
        self._kept.move_to_end(key)
        while len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        return answer
