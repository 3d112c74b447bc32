# SPDX-License-Identifier: Apache-2.0
"""All rules in the order in which kube-apiserver applies them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.controlplane.admission.default_storage_class import DefaultStorageClass
from koord.controlplane.admission.limit_ranger import LimitRanger
from koord.controlplane.admission.namespace_lifecycle import NamespaceLifecycle
from koord.controlplane.admission.not_ready_nodes import DefaultTolerationSeconds, TaintNewNodes
from koord.controlplane.admission.policy_params import ParamAccess, PolicyParams
from koord.controlplane.admission.priority import Priority
from koord.controlplane.admission.resource_quota import ResourceQuotas
from koord.controlplane.admission.validating_policies import ValidatingPolicies
from koord.controlplane.admission.webhook_client import WebhookClient
from koord.controlplane.admission.webhook_rules import WriteKind
from koord.controlplane.admission.webhooks import Webhooks
from koord.controlplane.authorization.escalation import RoleEscalation
from koord.controlplane.authorization.rbac import Authorizer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from koord.base.clock import Clock
    from koord.controlplane.admission.plugin import AdmissionPlugin
    from koord.controlplane.admission.resource_quota import Put
    from koord.controlplane.admission.webhook_client import LocalWebhook
    from koord.controlplane.extension import Attributes, Reader
    from koord.controlplane.resource import Resource

_ASKS_KEPT = 4096


class RulesByResource:
    """Which of some rules look at writes to a resource, in their order."""

    def __init__(self, rules: Sequence[AdmissionPlugin]) -> None:
        named = {storage for rule in rules for storage in rule.resources}
        self._about = {
            storage: [rule for rule in rules if not rule.resources or storage in rule.resources]
            for storage in named
        }
        self._others = [rule for rule in rules if not rule.resources]

    def about(self, resource: Resource) -> Sequence[AdmissionPlugin]:
        """Those that look at one resource."""
        return self._about.get(resource.storage, self._others)


class Chain:
    """Rules one after the other; the first that refuses ends it.

    Policies come after the built-in ones, then webhooks, then quotas.

    Args:
        reader: what the rules look at.
        rules: built-in ones, in order.
        policies: those that are bound.
        webhooks: those that are configured.
        caller: how webhooks are reached.
        quotas: asked last, for what they count is stored then.
    """

    def __init__(
        self,
        reader: Reader,
        rules: Sequence[AdmissionPlugin],
        policies: ValidatingPolicies,
        webhooks: Webhooks,
        caller: WebhookClient,
        quotas: ResourceQuotas,
    ) -> None:
        self._reader = reader
        self._quotas = quotas
        self._depends_on = (
            *dict.fromkeys(name for rule in rules for name in rule.depends_on),
            *webhooks.depends_on,
            *policies.depends_on,
        )
        self._generation = -1
        # Whether anybody is asked, by resource, subresource and namespace, at that generation.
        self._asks: dict[tuple[str, str, str], bool] = {}
        self._rules = tuple(rules)
        self._mutating = RulesByResource([rule for rule in rules if rule.mutates])
        self._validating = RulesByResource([rule for rule in rules if rule.validates])
        self._policies, self._webhooks, self._caller = policies, webhooks, caller

    def generation(self, namespace: str, plural: str, subresource: str = "") -> int | None:
        """The generation of all that the rules look at.

        None where a webhook may be asked, while there are policies, or where quotas count what is
        created.
        """
        if not subresource and self._quotas.count_in(namespace):
            return None
        generation = self._reader.generation(*self._depends_on)
        if generation != self._generation or len(self._asks) > _ASKS_KEPT:
            self._generation = generation
            self._asks.clear()
        key = (namespace, plural, subresource)
        asks = self._asks.get(key)
        if asks is None:
            kind = WriteKind("CREATE", plural, subresource)
            asks = self._policies.configured or self._webhooks.may_ask(kind, namespace)
            self._asks[key] = asks
        return None if asks else generation

    def looks_inside(self, namespace: str) -> bool:
        """Whether a built-in rule goes by parts of specs.

        Webhooks, policies and quotas look at whole objects, and have no :meth:`generation`.
        """
        return any(rule.looks_inside(namespace) for rule in self._rules)

    async def mutate(self, attributes: Attributes) -> None:
        """Changes the document; see :class:`koord.controlplane.extension.Admission`."""
        rules = self._mutating.about(attributes.resource)
        for rule in rules:
            rule.mutate(attributes)
        if await self._webhooks.mutate(attributes):
            # What webhooks changed is looked at again, as in kube-apiserver's second round.
            assert attributes.document is not None
            attributes.resource.strategy.default(attributes.document)
            attributes.resource.schema.default(attributes.document)
            for rule in rules:
                rule.mutate(attributes)

    async def validate(self, attributes: Attributes) -> None:
        """Refuses, or does nothing."""
        for rule in self._validating.about(attributes.resource):
            rule.validate(attributes)
        self._policies.validate(attributes)
        await self._webhooks.validate(attributes)
        # Nothing is awaited from here until the object is stored.
        self._quotas.admit(attributes)

    def register_local(self, name: str, webhook: LocalWebhook) -> None:
        """Serves a webhook in this process; see :meth:`.caller.WebhookClient.register_local`."""
        self._caller.register_local(name, webhook)

    async def close(self) -> None:
        """Ends the connections to webhooks."""
        await self._caller.close()


def chain(
    reader: Reader,
    clock: Clock,
    *,
    store: Put | None = None,
    caller: WebhookClient | None = None,
    equivalents: Callable[[Resource], Sequence[Resource]] | None = None,
    of_kind: Callable[[str, str], Resource | None] | None = None,
    rbac: bool = True,
) -> Chain:
    """The rules of the embedded server.

    Args:
        clock: says which pods are past their deletion; timeouts of webhooks run on the event
            loop's time.
        store: stores a document of a resource, past all rules: what quotas have counted. None
            for nowhere.
        caller: how webhooks are reached.
        equivalents: the same resource at all its versions; without, each has one version.
        of_kind: the resource of an apiVersion and a kind; without, policies find no parameters.
        rbac: whether roles say who may what.
    """
    caller = caller or WebhookClient()
    same = equivalents or (lambda resource: (resource,))
    known = of_kind or (lambda api_version, kind: None)
    authorizer = Authorizer(reader, enforced=rbac)
    webhooks = Webhooks(reader, caller, same, authorizer)
    policies = ValidatingPolicies(reader, same, PolicyParams(reader, known), authorizer)
    rules = (
        NamespaceLifecycle(reader),
        TaintNewNodes(),
        Priority(reader),
        DefaultTolerationSeconds(),
        LimitRanger(reader),
        DefaultStorageClass(reader),
        RoleEscalation(authorizer),
        ParamAccess(authorizer, reader, known),
    )
    quotas = ResourceQuotas(reader, clock, store or (lambda storage, document: None))
    return Chain(reader, rules, policies, webhooks, caller, quotas)
