# SPDX-License-Identifier: Apache-2.0
"""What a large pod costs is another thread's, so that other reviews are answered meanwhile."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from koord.base.worker import HEAVY_BYTES, Worker
from koord.controllers.webhook.all_reviews import review_service
from koord.controllers.webhook.framework.webhook_table import MUTATE_POD
from tests.controllers.cluster.colocation_profiles.test_effect import profile
from tests.controllers.webhook.pods.scene import BATCH, Scene
from tests.controllers.webhook.reviews import patch_of, review

_PROFILE = {"qosClass": "BE", "priorityClassName": "koord-batch"}


def _pod(containers: int) -> dict[str, Any]:
    each = {"image": "i", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}
    named = [{"name": f"c{number}", **each} for number in range(containers)]
    return {"metadata": {"name": "a", "namespace": "d"}, "spec": {"containers": named}}


@pytest.mark.parametrize(("containers", "calls"), [(2, 0), (1000, 2)])
def test_large_pods_are_changed_beside_the_loop(containers: int, calls: int) -> None:
    body = json.dumps(review(pod=_pod(containers), namespace="d")).encode()
    assert (len(body) > HEAVY_BYTES) is bool(calls)
    answers, beside = [], Worker(threaded=True)
    for worker in (beside, Worker()):
        scene = Scene()
        service = review_service(replace(scene.dependencies, worker=worker))
        scene.put(profile(_PROFILE), BATCH)
        scene.put_namespace()
        answers.append(asyncio.run(service.answer(MUTATE_POD, body)))
    beside.close()
    assert beside.calls == calls
    assert answers[0] == answers[1]
    patch = patch_of(json.loads(answers[0].body)["response"])
    changed = [each for each in patch if each["path"].startswith("/spec/containers/")]
    assert len(changed) >= containers
