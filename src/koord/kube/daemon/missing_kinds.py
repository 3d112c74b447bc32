# SPDX-License-Identifier: Apache-2.0
"""Which of the kinds that a program follows the API server lacks, told to people.

Such a kind counts as empty (:mod:`koord.kube.informers.reflector`); what a program cannot do
meanwhile it says once, at its start.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from koord.base import log

if TYPE_CHECKING:
    from koord.kube.informers.informer import Informer


class ReadinessNote(str):
    """What a check that passes has to say; anybody may read it."""


def unserved(informers: Iterable[Informer[Any]]) -> list[str]:
    """The names of the kinds that the API server lacks, sorted, each once."""
    return sorted({each.name for each in informers if not each.served})


def note(informers: Iterable[Informer[Any]]) -> ReadinessNote | None:
    """For a readiness check: the kinds that the API server lacks; None where it has all."""
    names = unserved(informers)
    return ReadinessNote(f"not served: {', '.join(names)}") if names else None


async def log_missing_kinds(
    logger: logging.Logger, informers: Iterable[Informer[Any]], without: Mapping[str, str]
) -> None:
    """Says in one line what cannot be done, once it is known what the API server lacks.

    Args:
        logger: of the program.
        informers: all of it.
        without: by name of an informer what is not done without the kind; a kind that it does not
            name is no loss.
    """
    followed = list(informers)
    await asyncio.gather(*(each.synced() for each in followed))
    lost = [f"{name}: {without[name]}" for name in unserved(followed) if name in without]
    if lost:
        told = log.fields(without="; ".join(lost), remedy="koord crds install")
        logger.warning("kinds are not served", extra=told)
