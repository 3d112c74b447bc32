# SPDX-License-Identifier: Apache-2.0
"""What admission makes of new pods and Reservations, and what it refuses of pods and bindings.

Documents are compared without what says nothing: null, "", [] and {}. All profiles of a case draw
the same number, which never equals a percentage: that one is another area's difference. What is
refused is compared by rule and cause. The cases are made in :mod:`tests.vectors.admission`.
"""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

from koord.api import codec
from koord.api.kinds.cluster import ConfigMap, Namespace, PriorityClass
from koord.api.kinds.meta import ObjectMeta
from koord.api.kinds.pod import Pod
from koord.api.kinds.profile import ClusterColocationProfile
from koord.api.kinds.quota import ElasticQuota, ElasticQuotaProfile
from koord.api.protocol import keys
from koord.base.errors import KoordError
from koord.controllers.cluster.colocation_profiles.profile_index import ProfileIndex, UsableProfile
from koord.controllers.webhook.elasticquotas.quota_topology import QuotaTopology
from koord.controllers.webhook.options import WebhookOptions
from koord.controllers.webhook.pods.mutation.handler import tree_of
from koord.controllers.webhook.pods.mutation.pod_mutation import (
    MutationSwitches,
    PodSurroundings,
    mutate,
)
from koord.controllers.webhook.pods.mutation.quota_tree_affinity import profile_of_tree
from koord.controllers.webhook.pods.validation import enhanced_rules
from koord.controllers.webhook.pods.validation.binding import BindingRules, BindingVerdict
from koord.controllers.webhook.pods.validation.pod_rules import PodRules, ValidationSwitches
from koord.controllers.webhook.profiles import application
from tests.vectors.admission import cases, differences
from tests.vectors.area import Difference, Json

if TYPE_CHECKING:
    import random

SEED = 20263
COVERAGE: dict[str, str] = {}
_FLAGS = {
    "userName": "binding_admission_user_name", "namespaces": "binding_admission_namespaces",
    "excludeNamespaces": "binding_admission_exclude_namespaces",
    "bypassLabels": "binding_admission_bypass_labels",
    "bypassAnnotations": "binding_admission_bypass_annotations",
}  # fmt: skip


def inputs(draw: random.Random) -> list[Json]:
    """See :func:`tests.vectors.area.Area.inputs`."""
    return cases.inputs(draw)


def answer(case: Json) -> Json:
    """See :func:`tests.vectors.area.Area.answer`."""
    if case["rule"] == "mutate":
        return _mutated(case)
    if case["rule"] == "reservation":
        return _reservation(case)
    return _bound(case) if case["rule"] == "binding" else _validated(case)


def _profiles(case: Json, *, with_namespaces: bool) -> tuple[list[UsableProfile], ...]:
    """The profiles that select the object, and those that draw it."""
    index = ProfileIndex(with_namespaces=with_namespaces)
    for document in case["profiles"]:
        try:
            index.put(codec.convert(document, ClusterColocationProfile, "profile"))
        except KoordError:
            continue
    namespace = next(
        (codec.convert(each, Namespace, "namespace") for each in case["namespaces"]), None
    )
    selected = index.selected(case["object"]["metadata"].get("labels", {}), namespace)
    return selected, [each for each in selected if case["drawn"] < each.share_percent]


def _classes(case: Json, drawn: list[UsableProfile]) -> dict[str, PriorityClass]:
    known = [codec.convert(each, PriorityClass, "class") for each in case["classes"]]
    found = {each.metadata.name: each for each in known}
    for usable in drawn:
        name = usable.profile.spec.priority_class_name
        if name and name not in found:
            raise KoordError("", "", name, "a class")
    return found


def _mutated(case: Json) -> Json:
    document = deepcopy(case["object"])
    selected, drawn = _profiles(case, with_namespaces=True)
    gates = case["gates"]
    switches = MutationSwitches(
        translates_resources=not gates.get("ColocationProfileSkipMutatingResources"),
        tells_extended_resources=not gates.get("DisableExtendedResourceSpec"),
        completes_devices=not gates.get("DisableDeviceResourceSpec"),
    )
    try:
        classes = _classes(case, drawn)
        tree = _tree(case) if gates.get("MultiQuotaTree") else None
        found = mutate(document, PodSurroundings(selected, drawn, classes, tree), switches, "Pod p")
    except KoordError:
        return {"error": True}
    again = mutate(deepcopy(found.document), PodSurroundings(tree=tree), switches, "Pod p")
    assert again.document == found.document, "what is done by itself is done once"
    return {"object": cases.canonical(found.document)}


def _quotas(case: Json) -> QuotaTopology:
    tree = QuotaTopology()
    for document in case["quotas"]:
        tree.put(codec.convert(document, ElasticQuota, "quota"))
    return tree


def _tree(case: Json) -> ElasticQuotaProfile | None:
    tree = tree_of(_quotas(case), codec.convert(case["object"]["metadata"], ObjectMeta, "pod"))
    if not tree:
        return None
    profiles = [codec.convert(each, ElasticQuotaProfile, "p") for each in case["quotaProfiles"]]
    return profile_of_tree(
        each for each in profiles if each.metadata.labels.get(keys.QUOTA_TREE_ID) == tree
    )


def _reservation(case: Json) -> Json:
    _, drawn = _profiles(case, with_namespaces=False)
    target = application.RESERVATIONS
    try:
        has_template = "template" in case["object"]["spec"]
        classes = _classes(case, drawn) if has_template else {}
        found = application.apply(deepcopy(case["object"]), drawn, classes, target, "r")
    except KoordError:
        return {"error": True}
    return {"object": cases.canonical(found.document)}


def _bound(case: Json) -> Json:
    flags = {_FLAGS[name]: text for name, text in case["flags"].items() if name in _FLAGS}
    options = WebhookOptions(**flags, binding_admission_dry_run=case["flags"]["dryRun"] == "true")
    pod = None if case["object"] is None else codec.convert(case["object"], Pod, "pod")
    on = case["gates"].get("BindingAdmissionWebhook", False)
    verdict = BindingRules.of(options).verdict(case["user"], "d", pod)
    return {"allowed": not on or verdict is not BindingVerdict.DENIED}


def _validated(case: Json) -> Json:
    gates = case["gates"]
    switches = ValidationSwitches(
        priority_may_change=gates.get("ColocationProfileSkipValidatingPriority", False),
        parents_take_pods=gates.get("SupportParentQuotaSubmitPod", False),
        quota_by_label_alone=gates.get("DisableDefaultQuota", False),
        checks_devices=gates.get("ValidatePodDeviceResource", False),
    )
    pod = codec.convert(case["object"], Pod, "pod")
    old = None if case["old"] is None else codec.convert(case["old"], Pod, "pod")
    refusal = PodRules(_quotas(case), switches, _rules(case)).refusal(pod, old)
    if refusal is None:
        return {"allowed": True}
    causes = sorted({cases.cause(refusal.rule, error) for error in refusal.errors})
    return {"allowed": False, "rule": refusal.rule, "causes": causes}


def _rules(case: Json) -> enhanced_rules.EnhancedRules:
    data: dict[str, Any] | None = case["configMap"]
    if data is None or not case["gates"].get("EnablePodEnhancedValidator"):
        return enhanced_rules.OFF
    try:
        return enhanced_rules.read(ConfigMap(data=data))
    except KoordError:
        return enhanced_rules.OFF


DIFFERENCES = {
    "admission-selector-unreadable": Difference(
        "a selector that cannot be evaluated selects nothing, not everything",
        covers=differences.has_unreadable_selector,
    ),
    "admission-namespace-unknown": Difference(
        "a namespace that is not known is not selected", covers=differences.has_unknown_namespace,
    ),
    "admission-profile-skipped": Difference(
        "a profile whose percentage or patch is wrong is skipped",
        covers=differences.has_bad_profile,
    ),
    "admission-extended-spec-complete": Difference(
        "mid resources and init containers are told too", adjusted=differences.completed_spec,
    ),
    "admission-affinity-once": Difference(
        "requirements that a term has are not added again", adjusted=differences.affinity_once,
    ),
    "admission-tree-of-all-nodes": Difference(
        "a tree of all nodes requires nothing", adjusted=differences.tree_of_all_nodes,
    ),
    "admission-devices-without-requests": Difference(
        "requests and limits are made where they are missing",
        covers=differences.assigns_to_missing_map,
    ),
}  # fmt: skip
