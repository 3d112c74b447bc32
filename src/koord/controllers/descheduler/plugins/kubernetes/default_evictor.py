# SPDX-License-Identifier: Apache-2.0
"""DefaultEvictor: which pods may go at all, and their eviction through the API.

Rule: docs/reference/descheduling.md#defaultevictor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import field

from koord.api import label_text, selectors
from koord.api.duration import Duration
from koord.api.kinds.meta import LabelSelector
from koord.base.errors import KoordError
from koord.controllers.descheduler.framework.plugin import DeschedulerPlugin
from koord.controllers.descheduler.plugins.kubernetes.strategy_args import (
    check_selector,
    check_selector_text,
    check_words,
)
from koord.controllers.descheduler.predicates import pod_traits
from koord.controllers.descheduler.snapshot import is_ready
from koord.controllers.scheduler.config.plugin_args import ConfigStruct, PluginArgs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from koord.api.kinds.node import Node
    from koord.api.kinds.pod import Pod
    from koord.controllers.descheduler.framework.handle import DeschedulerHandle
    from koord.controllers.descheduler.framework.points import PodEviction
    from koord.controllers.descheduler.snapshot import ClusterSnapshot
    from koord.controllers.scheduler.config.field_path import FieldPath

LOCAL_STORAGE, SYSTEM_CRITICAL = "PodsWithLocalStorage", "SystemCriticalPods"
FAILED_BARE, DAEMON_SET = "FailedBarePods", "DaemonSetPods"
WITH_CLAIM, WITHOUT_BUDGET = "PodsWithPVC", "PodsWithoutPDB"
RESOURCE_CLAIMS = "PodsWithResourceClaims"
BY_DEFAULT = (LOCAL_STORAGE, SYSTEM_CRITICAL, FAILED_BARE, DAEMON_SET)
"""Protections that hold unless they are switched off."""
EXTRA = (WITH_CLAIM, WITHOUT_BUDGET, RESOURCE_CLAIMS)
"""Protections that hold where they are switched on."""
PREFERRED, MANDATORY = "Preferred", "Mandatory"


class PriorityThreshold(ConfigStruct, frozen=True):
    """A priority, by value or by the name of a PriorityClass."""

    value: int | None = None
    name: str = ""

    def check(self, at: FieldPath) -> None:
        """One of both, and none of the system's."""
        both = self.value is not None and bool(self.name)
        at.need(not both, "value and name", "one of value and name")
        if self.value is not None:
            most = pod_traits.SYSTEM_CRITICAL
            at.inside("value").need(self.value <= most, self.value, f"at most {most}")


class ProtectedStorageClass(ConfigStruct, frozen=True):
    """A storage class whose claims protect."""

    name: str = ""


class ClaimProtection(ConfigStruct, frozen=True):
    """Which claims protect; all of them where no class is named."""

    protected_storage_classes: list[ProtectedStorageClass] = []


class ProtectionConfig(ConfigStruct, frozen=True):
    """What protections are told."""

    pods_with_pvc: ClaimProtection | None = field(default=None, name="PodsWithPVC")


class PodProtections(ConfigStruct, frozen=True):
    """Which protections are off and on beside the usual ones."""

    default_disabled: list[str] = []
    extra_enabled: list[str] = []
    config: ProtectionConfig | None = None

    def check(self, at: FieldPath) -> None:
        """Each is known and named once; a storage class has a name."""
        for key, names, known in (
            ("defaultDisabled", self.default_disabled, BY_DEFAULT),
            ("extraEnabled", self.extra_enabled, EXTRA),
        ):
            check_words(names, known, at.inside(key))
            at.inside(key).distinct(names, "protection")
        claims = self.config and self.config.pods_with_pvc
        spot = at.inside("config", WITH_CLAIM, "protectedStorageClasses")
        for index, storage_class in enumerate(claims.protected_storage_classes if claims else ()):
            name = storage_class.name
            spot.inside(index, "name").need(bool(name), name, "the name of a StorageClass")


class DefaultEvictorArgs(PluginArgs, frozen=True):
    """Which pods are protected, and what else they must be."""

    node_selector: str = ""
    label_selector: LabelSelector | None = None
    namespace_label_selector: LabelSelector | None = None
    priority_threshold: PriorityThreshold | None = None
    node_fit: bool = False
    min_replicas: int = 0
    min_pod_age: Duration | None = None
    no_eviction_policy: str = ""
    pod_protections: PodProtections = field(default_factory=PodProtections)
    evict_local_storage_pods: bool = False
    evict_daemon_set_pods: bool = False
    evict_system_critical_pods: bool = False
    ignore_pvc_pods: bool = False
    ignore_pods_without_pdb: bool = field(default=False, name="ignorePodsWithoutPDB")
    evict_failed_bare_pods: bool = False

    def check(self, at: FieldPath) -> None:
        """Well formed; older switches not beside ``podProtections``."""
        check_selector_text(self.node_selector, at.inside("nodeSelector"))
        check_selector(self.label_selector, at.inside("labelSelector"))
        check_selector(self.namespace_label_selector, at.inside("namespaceLabelSelector"))
        if self.priority_threshold is not None:
            self.priority_threshold.check(at.inside("priorityThreshold"))
        at.inside("minReplicas").at_least(self.min_replicas, 0)
        policies = (PREFERRED, MANDATORY)
        at.inside("noEvictionPolicy").one_of(self.no_eviction_policy or PREFERRED, policies)
        self.pod_protections.check(at.inside("podProtections"))
        lists = self.pod_protections.default_disabled or self.pod_protections.extra_enabled
        for key, is_on in self._switches().items():
            at.inside(key).need(not (is_on and lists), True, "false beside podProtections")

    def protections(self) -> frozenset[str]:
        """The protections that hold."""
        given = self.pod_protections
        if given.default_disabled or given.extra_enabled:
            return frozenset({*BY_DEFAULT, *given.extra_enabled} - {*given.default_disabled})
        off = {
            LOCAL_STORAGE: self.evict_local_storage_pods,
            SYSTEM_CRITICAL: self.evict_system_critical_pods,
            FAILED_BARE: self.evict_failed_bare_pods,
            DAEMON_SET: self.evict_daemon_set_pods,
            WITH_CLAIM: not self.ignore_pvc_pods,
            WITHOUT_BUDGET: not self.ignore_pods_without_pdb,
        }
        return frozenset(name for name, is_off in off.items() if not is_off)

    def protected_storage_classes(self) -> frozenset[str]:
        """Names of the storage classes whose claims alone protect; empty for all claims."""
        config = self.pod_protections.config
        claims = config.pods_with_pvc if config is not None else None
        named = claims.protected_storage_classes if claims is not None else ()
        return frozenset(storage_class.name for storage_class in named)

    def _switches(self) -> dict[str, bool]:
        return {
            "evictLocalStoragePods": self.evict_local_storage_pods,
            "evictDaemonSetPods": self.evict_daemon_set_pods,
            "evictSystemCriticalPods": self.evict_system_critical_pods,
            "ignorePvcPods": self.ignore_pvc_pods,
            "ignorePodsWithoutPDB": self.ignore_pods_without_pdb,
            "evictFailedBarePods": self.evict_failed_bare_pods,
        }


class FilterVerdicts:
    """What the filter said of pods, which are held, so that their identities are their own.

    Args:
        most: pods of which it is remembered.
    """

    def __init__(self, most: int = 0) -> None:
        self._most = most
        self._may_go: dict[int, Pod] = {}
        self._stay: dict[int, Pod] = {}

    def __len__(self) -> int:
        return len(self._may_go) + len(self._stay)

    def keep(self, pods: Sequence[Pod]) -> None:
        """Forgets all pods but these; twice as many may be remembered from now on."""
        here = set(map(id, pods))
        for held in (self._may_go, self._stay):
            for key in [key for key in held if key not in here]:
                del held[key]
        self._most = 2 * len(pods)

    def of(self, pod: Pod) -> bool | None:
        """Whether the pod may go; None where nothing is remembered."""
        key = id(pod)
        if key in self._may_go:
            return True
        return False if key in self._stay else None

    def put(self, pod: Pod, may_go: bool) -> None:
        """Remembers it, unless there are too many."""
        if len(self) < self._most:
            (self._may_go if may_go else self._stay)[id(pod)] = pod


class DefaultEvictor(DeschedulerPlugin):
    """Filters, and evicts where the profile has it at ``evict`` too."""

    name = "DefaultEvictor"
    args_type = DefaultEvictorArgs
    args: DefaultEvictorArgs

    def __init__(self, args: DefaultEvictorArgs, handle: DeschedulerHandle) -> None:
        super().__init__(args, handle)
        self._protections = args.protections()
        self._node_selector = label_text.parse(args.node_selector)
        self._threshold: int | None = None
        self._targets: Sequence[Node] = ()
        # Those of earlier rounds too, where nothing but the pods themselves decides them.
        self._verdicts = FilterVerdicts()
        looks_around = bool(self._protections & {WITH_CLAIM, WITHOUT_BUDGET})
        self._lasts = not looks_around and args.min_replicas <= 1
        handle.on_round(self._begin_round)
        self._constraints = tuple(self._held_constraints())

    def filter(self, pod: Pod) -> bool:
        """Whether the pod may be a candidate at all; one answer a round, however often asked, and
        the same in the next ones unless the pod changes or something else decides it.
        """
        may_go = self._verdicts.of(pod)
        if may_go is None:
            may_go = not self.refusal(pod)
            # Those of the round, and of whoever asks with pods of his own: never more and more.
            if self.args.min_pod_age is None:
                self._verdicts.put(pod, may_go)
        return may_go

    def refusal(self, pod: Pod) -> str:
        """By which rule the pod is no candidate; empty where it is one."""
        if pod_traits.asks_to_be_evicted(pod):
            return ""
        if self.args.no_eviction_policy == MANDATORY and pod_traits.prefers_no_eviction(pod):
            return "noEvictionPolicy"
        if pod_traits.is_mirror(pod):
            return "it is a mirror pod"
        if pod_traits.is_static(pod):
            return "it is a static pod"
        if pod.metadata.deletion_timestamp is not None:
            return "it is being deleted"
        return next((rule for rule, protects in self._constraints if protects(pod)), "")

    def pre_eviction_filter(self, pod: Pod) -> bool:
        """Whether the pod may go now; the annotation that opens :meth:`filter` does not count."""
        node_fit = self.handle.node_fit
        if self.args.node_fit and not node_fit.fits_another(pod, self._targets):
            return False
        selector = self.args.namespace_label_selector
        if selector is None or selectors.is_empty(selector):
            return True
        namespace = self.handle.snapshot.namespaces.get(pod.metadata.namespace)
        return namespace is not None and selectors.matches(selector, namespace.metadata.labels)

    @property
    def why(self) -> str:
        """Why the last eviction did not take place."""
        return str(getattr(self.handle.evictions, "why", ""))

    async def evict(self, pod: Pod, request: PodEviction) -> bool:
        """Evicts the pod through the API; whether that was taken."""
        return await self.handle.evictions.evict(pod, request)

    def _begin_round(self, snapshot: ClusterSnapshot) -> None:
        threshold = self._priority_threshold(snapshot)
        lasts = self._lasts and threshold == self._threshold
        if not lasts:
            self._verdicts = FilterVerdicts()
        # A pod that has changed is another object.
        self._verdicts.keep(snapshot.pods)
        self._threshold = threshold
        self._targets = [
            node
            for node in snapshot.nodes
            if is_ready(node) and label_text.matches(self._node_selector, node.metadata.labels)
        ]

    def _priority_threshold(self, snapshot: ClusterSnapshot) -> int | None:
        threshold = self.args.priority_threshold
        if threshold is None or SYSTEM_CRITICAL not in self._protections:
            return None
        if not threshold.name:
            return threshold.value
        found = snapshot.priority_classes.get(threshold.name)
        expected = "the name of a PriorityClass of the cluster"
        if found is None:
            raise KoordError(self.name, "priorityThreshold.name", threshold.name, expected)
        if found.value > pod_traits.SYSTEM_CRITICAL:
            expected = f"a PriorityClass of at most {pod_traits.SYSTEM_CRITICAL}"
            raise KoordError(self.name, "priorityThreshold.name", threshold.name, expected)
        return found.value

    def _held_constraints(self) -> list[tuple[str, Callable[[Pod], bool]]]:
        """What keeps a pod: the name of each rule, and a function that says whether it does."""
        by_protection: dict[str, Callable[[Pod], bool]] = {
            SYSTEM_CRITICAL: pod_traits.is_system_critical,
            LOCAL_STORAGE: pod_traits.has_local_storage,
            DAEMON_SET: pod_traits.is_of_daemon_set,
            WITH_CLAIM: self._has_protected_claim,
            WITHOUT_BUDGET: self._has_no_budget,
            RESOURCE_CLAIMS: lambda pod: bool(pod.spec.resource_claims),
        }
        names = sorted(self._protections & by_protection.keys())
        held = [(f"podProtections {name}", by_protection[name]) for name in names]
        held += [
            ("it has no owner that would make it again", self._is_bare),
            ("priorityThreshold", self._has_priority),
        ]
        selector = self.args.label_selector
        if selector is not None and not selectors.is_empty(selector):
            held.append(
                ("labelSelector", lambda pod: not selectors.matches(selector, pod.metadata.labels))
            )
        if self.args.min_replicas > 1:
            held.append(("minReplicas", self._has_few_replicas))
        if self.args.min_pod_age is not None:
            held.append(("minPodAge", self._is_young))
        return held

    def _is_bare(self, pod: Pod) -> bool:
        """Whether nobody would make the pod again; failed ones may go where that is allowed."""
        if pod.metadata.owner_references:
            return False
        return FAILED_BARE in self._protections or pod.status.phase != "Failed"

    def _has_priority(self, pod: Pod) -> bool:
        threshold, priority = self._threshold, pod.spec.priority
        return threshold is not None and priority is not None and priority >= threshold

    def _has_protected_claim(self, pod: Pod) -> bool:
        """Whether a claim protects; one that cannot be looked up does."""
        classes = self.args.protected_storage_classes()
        for name in pod_traits.claim_names(pod):
            claim = self.handle.snapshot.claims.get((pod.metadata.namespace, name))
            if not classes or claim is None or not claim.spec.storage_class_name:
                return True
            if claim.spec.storage_class_name in classes:
                return True
        return False

    def _has_no_budget(self, pod: Pod) -> bool:
        budgets = self.handle.snapshot.budgets_by_namespace.get(pod.metadata.namespace, ())
        labels = pod.metadata.labels
        return not any(selectors.matches(budget.spec.selector, labels) for budget in budgets)

    def _has_few_replicas(self, pod: Pod) -> bool:
        owners = pod.metadata.owner_references
        if len(owners) != 1:
            return False
        pods = self.handle.snapshot.pods_by_owner.get(owners[0].uid, ())
        return len(pods) < self.args.min_replicas

    def _is_young(self, pod: Pod) -> bool:
        least, start = self.args.min_pod_age, pod.status.start_time
        if least is None or start is None:
            return least is not None
        return (self.handle.now() - start.timestamp()) * 1e9 < least.nanoseconds
