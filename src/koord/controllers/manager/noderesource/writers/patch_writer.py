# SPDX-License-Identifier: Apache-2.0
"""Patches sent until one is taken: made anew for what the server has whenever somebody was faster.

Rule: docs/reference/node-resources.md#how-a-patch-is-made. Each patch carries the version of the
object that it was made for.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from koord.base import faults, rng
from koord.kube.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Callable

    from koord.api.kinds.meta import Object
    from koord.kube.client import Client
    from koord.kube.patches import Patch

O = TypeVar("O", bound="Object")  # noqa: E741

_NOT_FOUND, _CONFLICT, _TOO_MANY = 404, 409, 429
# Kubernetes' default back-off of conflicts: four tries in all.
_STEPS, _FIRST_SECONDS, _FACTOR, _JITTER = 4, 0.01, 5.0, 0.1


class PatchWriter:
    """Writes single objects.

    Args:
        client: the way to the API server.
        seed: of the back-off's jitter.
    """

    def __init__(self, client: Client, seed: int = 0) -> None:
        self._client = client
        self._draw = rng.stream(seed, "manager", "noderesource", "writer")

    async def send(self, seen: O, patch: Patch, subresource: str = "") -> O | ApiError:
        """Sends a patch once.

        Returns:
            The object as the server has it now, or why it did not take this patch: it is gone,
            somebody was faster, or there are too many requests.

        Raises:
            ApiError: refused.
            TransportError: no answer.
        """
        try:
            faults.point("noderesource.write")
            return await self._client.patch(
                type(seen), seen.metadata.name, patch, subresource=subresource
            )
        except ApiError as error:
            if error.http_status not in (_NOT_FOUND, _CONFLICT, _TOO_MANY):
                raise
            return error

    async def write(
        self,
        seen: O,
        make: Callable[[O], Patch | None],
        subresource: str = "",
        sent: O | ApiError | None = None,
    ) -> O | None:
        """Brings an object to where it should be.

        Args:
            seen: the object as it was last seen.
            make: the patch for a state of the object; None where nothing is to be written.
            subresource: what of the object is patched.
            sent: what came of the first patch, where that was sent already.

        Returns:
            The object as the server has it now, ``seen`` itself where nothing was to be written;
            None where it is gone, which is as good.

        Raises:
            ApiError: refused, or four times somebody was faster.
            TransportError: no answer.
        """
        for step in range(1, _STEPS + 1):
            found, sent = sent, None
            if found is None:
                patch = make(seen)
                if patch is None:
                    return seen
                found = await self.send(seen, patch, subresource)
            if not isinstance(found, ApiError):
                return found
            if found.http_status == _NOT_FOUND:
                return None
            if step == _STEPS:
                raise found
            await asyncio.sleep(self._wait_seconds(step))
            again = await self._read(seen)
            if again is None:
                return None
            seen = again
        raise AssertionError("the last step returns or raises")

    def _wait_seconds(self, step: int) -> float:
        whole: float = _FIRST_SECONDS * _FACTOR ** (step - 1)
        return whole * (1.0 + _JITTER * self._draw.random())

    async def _read(self, seen: O) -> O | None:
        try:
            return await self._client.get(type(seen), seen.metadata.name)
        except ApiError as error:
            if error.http_status == _NOT_FOUND:
                return None
            raise
