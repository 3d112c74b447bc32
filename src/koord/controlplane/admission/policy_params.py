# SPDX-License-Identifier: Apache-2.0
"""Parameters of ValidatingAdmissionPolicies: the objects that a binding names or selects.

Rule: Kubernetes' documentation of validating admission policies, "Parameter resources". Reference:
docs/controlplane.md#expressions.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from koord.controlplane.admission.plugin import AdmissionPlugin, LookupCache
from koord.controlplane.api_errors import forbidden_field, invalid
from koord.controlplane.authorization.access import AccessRequest
from koord.controlplane.authorization.identity import Identity
from koord.controlplane.authorization.rbac import STORAGES
from koord.controlplane.kinds.validation.workload_spec import matches as selects

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from koord.base.documents import Document
    from koord.controlplane.authorization.rbac import Authorizer
    from koord.controlplane.extension import Attributes, Reader
    from koord.controlplane.resource import Resource

    OfKind = Callable[[str, str], Resource | None]

POLICIES = "validatingadmissionpolicies.admissionregistration.k8s.io"
BINDINGS = "validatingadmissionpolicybindings.admissionregistration.k8s.io"
MAX_PARAMS = 256
"""A binding may select no more: a policy is asked once for each."""


class PolicyConfigurationError(ValueError):
    """A policy or binding that cannot be carried out: why, one line."""


class PolicyParams:
    """Looks parameters up.

    Args:
        reader: objects of all kinds.
        of_kind: the resource of an apiVersion and a kind; None where it is not served.
    """

    def __init__(self, reader: Reader, of_kind: OfKind) -> None:
        self._reader, self._of_kind = reader, of_kind
        self._caches: dict[str, LookupCache[list[Document]]] = {}

    def resource(self, kind: Document) -> Resource:
        """The resource of a ``paramKind``.

        Raises:
            PolicyConfigurationError: there is none.
        """
        api_version, name = kind.get("apiVersion") or "", kind.get("kind") or ""
        found = self._of_kind(api_version, name)
        if found is None:
            group, _, version = api_version.rpartition("/")
            shown = f"{group}/{version}, Kind={name}"
            told = f"failed to find resource referenced by paramKind: '{shown}'"
            raise PolicyConfigurationError(f"failed to configure policy: {told}")
        return found

    def of(
        self, resource: Resource | None, reference: Document | None, namespace: str
    ) -> Sequence[Document | None]:
        """The parameters of one binding; the policy is asked once for each.

        Args:
            resource: of the policy's ``paramKind``; None without one.
            reference: the binding's ``paramRef``; None without one.
            namespace: of the request; empty for none.

        Raises:
            PolicyConfigurationError: there are none where there have to be, or too many.
        """
        if resource is None or reference is None:
            return [None]
        scope = _scope(resource, reference, namespace)
        cache = self._caches.get(resource.storage)
        if cache is None:
            cache = LookupCache(self._reader, resource.storage, self._look_up(resource.storage))
            self._caches[resource.storage] = cache
        wanted = [scope, reference.get("name") or "", reference.get("selector")]
        found = cache.get(json.dumps(wanted, sort_keys=True))
        if not found and reference.get("parameterNotFoundAction") == "Deny":
            told = "no params found for policy binding with `Deny` parameterNotFoundAction"
            raise _binding_error(told)
        if len(found) > MAX_PARAMS:
            raise _binding_error(f"its selector has more than {MAX_PARAMS} params")
        versions = {"apiVersion": resource.api_version, "kind": resource.kind}
        return [{**each, **versions} for each in found]

    def _look_up(self, storage: str) -> Callable[[str], list[Document]]:
        def look_up(key: str) -> list[Document]:
            scope, name, selector = json.loads(key)
            if name:
                found = self._reader.document(storage, scope, name)
                return [] if found is None else [found]
            listed = []
            for each in self._reader.documents(storage, scope):
                if selects(selector, each["metadata"].get("labels") or {}):
                    listed.append(each)
                if len(listed) > MAX_PARAMS:
                    break
            return listed

        return look_up


def _scope(resource: Resource, reference: Document, namespace: str) -> str:
    """The namespace in which parameters are looked for; empty for those in none."""
    own = reference.get("namespace") or ""
    if not resource.namespaced:
        if own:
            told = "paramRef.namespace must not be provided for a cluster-scoped `paramKind`"
            raise _binding_error(told)
        return ""
    if not (own or namespace):
        told = "cannot use namespaced paramRef in policy binding that matches cluster-scoped "
        raise _binding_error(f"{told}resources")
    return own or namespace


def _binding_error(message: str) -> PolicyConfigurationError:
    return PolicyConfigurationError(f"failed to configure binding: {message}")


class ParamAccess(AdmissionPlugin):
    """Who writes a policy or binding with parameters has to have the right to read these.

    Otherwise its messages would show them what they may not see.

    Args:
        authorizer: says what they have.
        reader: policies, of bindings.
        of_kind: the resource of an apiVersion and a kind; None where it is not served.
    """

    validates = True
    resources = (POLICIES, BINDINGS)
    depends_on = (*STORAGES, POLICIES)

    def __init__(self, authorizer: Authorizer, reader: Reader, of_kind: OfKind) -> None:
        self._authorizer, self._reader, self._of_kind = authorizer, reader, of_kind

    def validate(self, attributes: Attributes) -> None:
        """Raises ApiError, 422, to refuse."""
        storage, document = attributes.resource.storage, attributes.document
        if storage not in (POLICIES, BINDINGS) or document is None:
            return
        context, field = attributes.context, "paramKind" if storage == POLICIES else "paramRef"
        identity = Identity(context.user, context.groups)
        old = (attributes.old or {}).get("spec") or {}
        spec = document["spec"]
        if not spec.get(field) or all(
            spec.get(key) == old.get(key) for key in ("paramKind", "paramRef", "policyName")
        ):
            return
        access = self._of_policy(spec) if storage == POLICIES else self._of_binding(spec)
        if not self._authorizer.verdict(identity, access).allowed:
            told = f'user "{identity.name}" must have "{access.verb}" permission on the objects '
            told += f"of {field} (resource {access.resource!r} of group {access.group!r})"
            cause = forbidden_field(f"spec.{field}", told)
            raise invalid(attributes.resource, attributes.name, [cause])

    def _of_policy(self, spec: Document) -> AccessRequest:
        return AccessRequest("get", *self._kind(spec), "", "*", "*")

    def _of_binding(self, spec: Document) -> AccessRequest:
        policy = self._reader.document(POLICIES, "", spec.get("policyName") or "") or {}
        reference = spec["paramRef"]
        name = reference.get("name") or ""
        return AccessRequest(
            "get" if name else "list", *self._kind(policy.get("spec") or {}), "",
            reference.get("namespace") or "", name,
        )  # fmt: skip

    def _kind(self, spec: Document) -> tuple[str, str]:
        """Group and resource of a ``paramKind``; stars where that cannot be told."""
        kind = spec.get("paramKind")
        if not kind:
            return "*", "*"
        api_version = kind.get("apiVersion") or ""
        found = self._of_kind(api_version, kind.get("kind") or "")
        group = api_version.rpartition("/")[0]
        return (group, "*") if found is None else (found.group, found.plural)
