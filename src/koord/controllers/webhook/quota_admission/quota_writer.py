# SPDX-License-Identifier: Apache-2.0
"""Charges batches of pods to their quotas, each by one write that holds only of what was judged.

Rule: docs/reference/admission.md#quota-admission. A write whose answer was lost is known by its
batch when the quota is read again, so that nothing is charged twice.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import TYPE_CHECKING

from koord.api.kinds.quota import ElasticQuota
from koord.api.protocol import keys
from koord.base import log, rng
from koord.base.errors import KoordError
from koord.controllers.webhook.quota_admission import charge_batch, charge_metrics
from koord.controllers.webhook.quota_admission.charge_batch import LEAST_RETRIES, ChargeRound
from koord.controllers.webhook.quota_admission.pod_charge import used_text
from koord.kube.errors import ApiError, TransportError
from koord.kube.patches import Patch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koord.base.clock import Clock
    from koord.controllers.webhook.options import WebhookOptions
    from koord.controllers.webhook.quota_admission.charge_batch import WaitingPod
    from koord.controllers.webhook.quota_admission.charge_metrics import ChargeMetrics
    from koord.controllers.webhook.quota_admission.written_quotas import WrittenQuotas
    from koord.kube.client import Client

WORKERS = 16
WRITE_SECONDS = 5.0
_LOG = log.get("webhook")
_GONE = "elastic quota {} not found"


class QuotaWriter:
    """Batches by quota; each quota has at most one batch on its way.

    Args:
        client: writes.
        quotas: the newest state of each.
        options: how often and how fast conflicts are tried again.
        clock: the time.
        metrics: counts writes.
    """

    def __init__(
        self,
        client: Client,
        quotas: WrittenQuotas,
        options: WebhookOptions,
        clock: Clock,
        metrics: ChargeMetrics,
    ) -> None:
        self._client = client
        self._metrics = metrics
        self._quotas = quotas
        self._options = options
        self._clock = clock
        self._waiting: dict[str, list[WaitingPod]] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._workers = asyncio.Semaphore(WORKERS)

    def add(self, key: str, pod: WaitingPod) -> None:
        """Has a pod decided with the next batch of a quota, ``namespace/name``."""
        self._waiting.setdefault(key, []).append(pod)
        if key not in self._tasks:
            self._tasks[key] = asyncio.create_task(self._work(key), name=f"quota {key}")

    async def _work(self, key: str) -> None:
        try:
            while batch := self._waiting.pop(key, []):
                async with self._workers:
                    await self._settle(key, batch)
        finally:
            del self._tasks[key]

    async def _settle(self, key: str, batch: list[WaitingPod]) -> None:
        """Answers a whole batch, whatever happens."""
        failure = "charging the quota failed"
        try:
            await self._charge(key, [each for each in batch if not each.answer.done()])
        except (ApiError, TransportError, TimeoutError) as error:
            failure = f"charging the quota failed: {error}"
        except Exception:
            _LOG.exception("quota admission failed", extra={"quota": key})
        finally:
            for each in batch:
                if not each.answer.done():
                    each.answer.set_exception(RuntimeError(failure))

    async def _charge(self, key: str, batch: list[WaitingPod]) -> None:
        quota = self._quotas.newest(key)
        if quota is None or not batch:
            _answer(batch, _GONE.format(key))
            return
        name = batch[0].request
        decided = charge_batch.decide(quota, batch, self._clock.wall_seconds())
        left = max(self._options.quota_update_max_retries, LEAST_RETRIES)
        draw, paused = rng.stream(0, "quota admission", name), 0.0
        while True:
            if isinstance(decided, KoordError):
                _answer(batch, str(decided))
                return
            if not decided.charged:
                _resolve(decided, batch)
                return
            most = self._options.quota_update_max_retries
            left = min(left, charge_batch.retries_for(len(decided.charged), most))
            failure = await self._write(key, quota, decided, name)
            if failure is None:
                _resolve(decided, batch)
                return
            pause = self._options.quota_update_retry_jitter
            if 0 < pause <= self._options.quota_update_max_total_jitter - paused and left > 0:
                paused += pause
                await asyncio.sleep(draw.uniform(pause / 2, pause))
            fresh = self._options.quota_update_conflict_fresh_get
            newer = await self._quotas.newer(key, quota, fresh=fresh)
            if newer is not None and name in charge_batch.charges(newer):
                _resolve(decided, batch)  # it was written, and the answer lost
                return
            if left <= 0 or newer is None:
                _refuse(decided)
                _answer(decided.free, None)
                raise failure
            left, quota = left - 1, newer
            now = self._clock.wall_seconds()
            decided = charge_batch.decide_again(quota, decided, batch, now)

    async def _write(
        self, key: str, quota: ElasticQuota, decided: ChargeRound, name: str
    ) -> ApiError | TransportError | None:
        """None once it is written; a failure after which it may be, or may be tried again."""
        meta = quota.metadata
        change = Patch.merge(
            {
                "metadata": {
                    "resourceVersion": meta.resource_version,
                    "annotations": {
                        keys.QUOTA_CHILD_REQUEST: used_text(decided.used),
                        keys.QUOTA_CHARGES: charge_batch.charges_text(quota, name),
                    },
                }
            }
        )
        try:
            written = await self._client.patch(
                ElasticQuota, meta.name, change, meta.namespace, timeout_seconds=WRITE_SECONDS
            )
        except TransportError as error:
            self._metrics.wrote(charge_metrics.LOST, len(decided.charged))
            return error
        except ApiError as error:
            if error.http_status != HTTPStatus.CONFLICT:
                raise
            self._metrics.wrote(charge_metrics.CONFLICT, len(decided.charged))
            return error
        self._metrics.wrote(charge_metrics.WRITTEN, len(decided.charged))
        self._quotas.keep(key, written)
        return None


def _answer(batch: Sequence[WaitingPod], text: str | None) -> None:
    for each in batch:
        if not each.answer.done():
            each.answer.set_result(text)


def _resolve(decided: ChargeRound, batch: Sequence[WaitingPod]) -> None:
    _refuse(decided)
    _answer(batch, None)


def _refuse(decided: ChargeRound) -> None:
    for each, refusal in decided.refused:
        _answer([each], refusal)
