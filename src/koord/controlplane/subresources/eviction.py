# SPDX-License-Identifier: Apache-2.0
"""``POST pods/NAME/eviction``: a deletion that PodDisruptionBudgets must allow."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from koord.base import faults
from koord.base.documents import Document
from koord.controlplane.api_errors import (
    bad_request,
    failure,
    forbidden,
    method_not_allowed,
    too_many_requests,
)
from koord.controlplane.handlers.delete import Deletion
from koord.controlplane.handlers.write import RequestTarget
from koord.controlplane.kinds.documents import condition, condition_is_true, section
from koord.controlplane.kinds.validation.workload_spec import matches
from koord.controlplane.requests.bodies import checked
from koord.controlplane.storage.conversion import StoreReader
from koord.controlplane.subresources.binding import set_condition

if TYPE_CHECKING:
    from koord.controlplane.resource import Context, Resource
    from koord.controlplane.subresources.request import SubresourceRequest
    from koord.kube.errors import ApiError


BUDGETS = "poddisruptionbudgets.policy"
RETRY_SECONDS = 10
MOST_UNCONFIRMED = 2000
_VIOLATED = "Cannot evict pod as it would violate the pod's disruption budget."
_SEVERAL = (
    "This pod has more than one PodDisruptionBudget, "
    "which the eviction subresource does not support."
)


class Evictions:
    """The handler.

    Args:
        budgets: the resource of PodDisruptionBudgets.
    """

    def __init__(self, budgets: Resource) -> None:
        self._budgets = budgets

    async def __call__(self, call: SubresourceRequest) -> tuple[int, Document]:
        """Deletes a pod if its budget, where it has one, allows a disruption, and takes it.

        Raises:
            ApiError: 404 no pod; 409 a precondition; 429 no disruption left; 500 several budgets.
        """
        if call.method != "POST":
            raise method_not_allowed()
        eviction = checked(call.document or {}, "policy", "v1", "Eviction")
        if (eviction.get("metadata") or {}).get("name", call.name) != call.name:
            raise bad_request("name in URL does not match name in Eviction object")
        options: Document = eviction.get("deleteOptions") or {}
        context = call.context
        if options.get("dryRun"):
            context = msgspec.structs.replace(context, dry_run=True)
        pod = call.verbs.read(call.resource, call.namespace, call.name)
        if not _is_free(pod):
            await self._take(call, pod, context)
        faults.point("controlplane.evict")
        await self._delete(call, options, context)
        return 201, {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Success",
            "code": 201,
        }

    async def _take(self, call: SubresourceRequest, pod: Document, context: Context) -> None:
        """Takes one disruption from the pod's budget, unless it is unhealthy and that is free."""
        found = [
            budget
            for budget in StoreReader(call.verbs.store).documents(BUDGETS, call.namespace)
            if _covers(budget, pod)
        ]
        if len(found) > 1:
            raise failure(500, "", _SEVERAL)
        if not found or _is_unguarded(pod, found[0]):
            return

        def take(budget: Document) -> None:
            refusal = _refusal(self._budgets, budget)
            if refusal is not None:
                raise refusal
            status = budget["status"]
            status["disruptionsAllowed"] -= 1
            status.setdefault("disruptedPods", {})[call.name] = context.now

        name = found[0]["metadata"]["name"]
        await call.verbs.change(self._budgets, call.namespace, name, take, context)

    async def _delete(self, call: SubresourceRequest, options: Document, context: Context) -> None:
        target = RequestTarget(call.resource, call.namespace, call.name)
        reason = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting",
        }
        preconditions = options.get("preconditions") or {}
        if not context.dry_run and not preconditions.get("resourceVersion"):
            await call.verbs.change(
                call.resource,
                call.namespace,
                call.name,
                lambda pod: set_condition(pod.setdefault("status", {}), reason, context.now),
                context,
            )
        await Deletion(call.verbs).delete(target, options, context)


def _is_free(pod: Document) -> bool:
    """Whether nothing is disrupted: not running yet, or no longer, or going anyway."""
    if "deletionTimestamp" in pod["metadata"]:
        return True
    return section(pod, "status").get("phase") in ("Succeeded", "Failed", "Pending")


def _covers(budget: Document, pod: Document) -> bool:
    selector = section(budget, "spec").get("selector")
    return selector is not None and matches(selector, pod["metadata"].get("labels") or {})


def _is_unguarded(pod: Document, budget: Document) -> bool:
    """Whether a pod is unhealthy, and its budget lets such pods go."""
    if condition_is_true(pod, "Ready"):
        return False
    if section(budget, "spec").get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = section(budget, "status")
    wanted = status.get("desiredHealthy", 0)
    return bool(status.get("currentHealthy", 0) >= wanted > 0)


def _refusal(resource: Resource, budget: Document) -> ApiError | None:
    """Why a budget allows no disruption now."""
    metadata, status = budget["metadata"], section(budget, "status")
    name, allowed = metadata["name"], status.get("disruptionsAllowed", 0)
    if status.get("observedGeneration", 0) < metadata.get("generation", 0):
        why = f"The disruption budget {name} is still being processed by the server."
        return _too_many(why, RETRY_SECONDS)
    if allowed < 0:
        return forbidden(resource, name, "pdb disruptions allowed is negative")
    if len(status.get("disruptedPods") or ()) > MOST_UNCONFIRMED:
        why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        return forbidden(resource, name, why)
    return None if allowed else _too_many(_spent(budget, name, status), 0)


def _spent(budget: Document, name: str, status: Document) -> str:
    """Why nothing is left of a budget."""
    begin = f"The disruption budget {name}"
    told = condition(budget, "DisruptionAllowed") or {}
    message = told.get("message") if told.get("status") == "False" else ""
    if message and told.get("reason") == "SyncFailed":
        return f"{begin} does not allow evicting pods currently because it failed sync: {message}"
    wanted, healthy = status.get("desiredHealthy", 0), status.get("currentHealthy", 0)
    if healthy <= wanted:
        return f"{begin} needs {wanted} healthy pods and has {healthy} currently"
    if message:
        return f"{begin} does not allow evicting pods currently ({told.get('reason')}): {message}"
    return f"{begin} does not allow evicting pods currently"


def _too_many(why: str, retry_after_seconds: int) -> ApiError:
    refusal = too_many_requests(_VIOLATED, retry_after_seconds, "DisruptionBudget")
    assert refusal.status.details is not None
    refusal.status.details.causes[0].message = why
    return refusal
