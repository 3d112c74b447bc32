# SPDX-License-Identifier: Apache-2.0
"""Answers ``/mutate-pod``: new pods; an UPDATE passes unchanged.

Rule: docs/reference/admission.md#profiles-on-new-pods.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from koord.api.kinds.pod import Pod
from koord.api.kinds.quota import ElasticQuotaProfile
from koord.api.protocol import keys, quotas
from koord.base.errors import KoordError
from koord.base.worker import HEAVY_BYTES
from koord.controllers.webhook.elasticquotas.quota_state import QuotaState
from koord.controllers.webhook.framework.admission_decision import (
    ALLOWED,
    AdmissionDecision,
    denied,
)
from koord.controllers.webhook.framework.admission_request import Operation, ResourceName
from koord.controllers.webhook.pods.mutation.pod_mutation import (
    MutatedPod,
    MutationSwitches,
    PodSurroundings,
    mutate,
)
from koord.controllers.webhook.pods.mutation.quota_tree_affinity import profile_of_tree
from koord.controllers.webhook.profiles.profile_choice import ChosenProfiles, ProfileChoice

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable

    from koord.api.kinds.meta import ObjectMeta
    from koord.controllers.cluster.colocation_profiles.profile_index import UsableProfile
    from koord.controllers.webhook.elasticquotas.quota_topology import QuotaTopology
    from koord.controllers.webhook.framework.admission_request import AdmissionRequest
    from koord.controllers.webhook.framework.handler import HandlerDependencies

PODS = ResourceName("", "pods")


class PodMutationHandler:
    """Changes new pods.

    Args:
        dependencies: what it works with.
    """

    def __init__(self, dependencies: HandlerDependencies) -> None:
        gates = dependencies.gates
        self._profiles = ProfileChoice(dependencies)
        self._worker = dependencies.worker
        self._switches = MutationSwitches(
            translates_resources=not gates.enabled("ColocationProfileSkipMutatingResources"),
            tells_extended_resources=not gates.enabled("DisableExtendedResourceSpec"),
            completes_devices=not gates.enabled("DisableDeviceResourceSpec"),
        )
        self._trees = QuotaTreeProfiles(dependencies) if gates.enabled("MultiQuotaTree") else None

    def admit(self, request: AdmissionRequest) -> AdmissionDecision | Awaitable[AdmissionDecision]:
        """The pod as it is to be.

        Raises:
            KoordError: the pod cannot be read.
        """
        if request.resource != PODS or request.operation is not Operation.CREATE:
            return ALLOWED
        meta = request.decode(Pod).metadata
        meta.namespace = meta.namespace or request.namespace
        chosen = self._profiles.of(meta, review=request.uid)
        light = len(request.raw_object or b"") < HEAVY_BYTES
        if isinstance(chosen, ChosenProfiles) and light:
            return self._decided(self._mutated(request, self._surroundings(meta, chosen)))
        return self._waited(request, meta, chosen)

    async def _waited(
        self,
        request: AdmissionRequest,
        meta: ObjectMeta,
        chosen: ChosenProfiles | Awaitable[ChosenProfiles],
    ) -> AdmissionDecision:
        try:
            found = chosen if isinstance(chosen, ChosenProfiles) else await chosen
        except KoordError as error:
            return denied([error], HTTPStatus.INTERNAL_SERVER_ERROR)
        around, weight = self._surroundings(meta, found), len(request.raw_object or b"")
        return self._decided(await self._worker.call(weight, self._mutated, request, around))

    def _surroundings(self, meta: ObjectMeta, chosen: ChosenProfiles) -> PodSurroundings:
        tree = self._trees.of(meta) if self._trees is not None else None
        return PodSurroundings(chosen.selected, chosen.drawn, chosen.classes, tree, chosen.draws)

    def _mutated(self, request: AdmissionRequest, surroundings: PodSurroundings) -> MutatedPod:
        """Looks at nothing that changes."""
        return mutate(request.document(), surroundings, self._switches, request.title)

    def _decided(self, mutated: MutatedPod) -> AdmissionDecision:
        for usable, error in mutated.failures:
            self._profiles.report(usable.profile, error)
        return AdmissionDecision(
            warnings=skipped(mutated.failures),
            document=mutated.document if mutated.effects else None,
            effects=tuple(mutated.effects),
        )


def skipped(failures: Iterable[tuple[UsableProfile, KoordError]]) -> tuple[str, ...]:
    """What the user is told of profiles that could not be applied."""
    return tuple(f"not applied: {error}" for _, error in failures)


class QuotaTreeProfiles:
    """Which nodes a pod's quota tree has.

    Args:
        dependencies: views and options.
    """

    def __init__(self, dependencies: HandlerDependencies) -> None:
        self._tree = QuotaState.of(dependencies).tree
        self._profiles = dependencies.views.view(ElasticQuotaProfile)

    def of(self, meta: ObjectMeta) -> ElasticQuotaProfile | None:
        """The profile of a pod's tree; None where it is in none.

        Args:
            meta: of the pod, with its namespace.
        """
        tree = tree_of(self._tree, meta)
        if not tree:
            return None
        return profile_of_tree(
            profile
            for _, profile in self._profiles.items()
            if profile.metadata.labels.get(keys.QUOTA_TREE_ID) == tree
        )


def tree_of(known: QuotaTopology, meta: ObjectMeta) -> str:
    """The id of a pod's quota tree, empty for none.

    Args:
        known: quotas.
        meta: of the pod, with its namespace.
    """
    named = known.item(meta.labels.get(keys.QUOTA_NAME) or meta.namespace)
    if named is None or not known.reaches(named.metadata.namespace, meta.namespace):
        bound = known.bound_to(meta.namespace)
        named = known.item(bound) if bound is not None else None
    return quotas.tree_id(named) if named is not None else ""
