# SPDX-License-Identifier: Apache-2.0
"""IngressClasses."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from koord.base.documents import Document
from koord.controlplane.kinds.documents import NONE, section
from koord.controlplane.kinds.networking.ingresses import check_reference
from koord.controlplane.kinds.table_cells import AGE, NAME, age_of
from koord.controlplane.kinds.validation import names
from koord.controlplane.kinds.validation.causes import Causes
from koord.controlplane.resource import Column, Strategy

if TYPE_CHECKING:
    from koord.kube.errors import StatusCause


_SCOPES = ("Cluster", "Namespace")
_LONGEST_CONTROLLER = 250
_PATH = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"
_is_path = re.compile(_PATH).fullmatch


class IngressClassStrategy(Strategy):
    """IngressClasses."""

    generation = True
    columns = (NAME, Column("Controller"), Column("Parameters"), AGE)

    def default(self, document: Document) -> None:
        """Parameters are of the cluster."""
        parameters = section(document, "spec").get("parameters")
        if parameters:
            parameters.setdefault("scope", "Cluster")

    def validate(self, document: Document) -> list[StatusCause]:
        """The controller, and where its parameters are."""
        causes, spec = Causes(), section(document, "spec")
        _check_controller(spec.get("controller", ""), "spec.controller", causes)
        if (parameters := spec.get("parameters")) is not None:
            _check_parameters(parameters, "spec.parameters", causes)
        return causes

    def validate_update(self, document: Document, old: Document) -> list[StatusCause]:
        """The controller is fixed."""
        causes = Causes()
        new, before = (section(each, "spec").get("controller", "") for each in (document, old))
        causes.fixed("spec.controller", new, before)
        return [*causes, *self.validate(document)]

    def row(self, document: Document, now_seconds: float) -> list[Any]:
        """The cells of one table row."""
        spec = section(document, "spec")
        parameters, text = spec.get("parameters"), NONE
        if parameters:
            group = parameters.get("apiGroup")
            kind = f"{parameters.get('kind', '')}.{group}" if group else parameters.get("kind", "")
            text = f"{kind}/{parameters.get('name', '')}"
        name, age = document["metadata"]["name"], age_of(document, now_seconds)
        return [name, spec.get("controller", ""), text, age]


def _check_controller(text: str, path: str, causes: Causes) -> None:
    if len(text.encode()) > _LONGEST_CONTROLLER:
        causes.too_long(path, _LONGEST_CONTROLLER)
    if not text:
        causes.required(path)
        return
    host, _, rest = text.partition("/")
    if not (host and rest):
        causes.invalid(path, text, 'must be a domain-prefixed path (such as "acme.io/foo")')
        return
    causes.invalid_all(path, host, names.dns_subdomain(host))
    if not _is_path(rest):
        causes.invalid(path, rest, f"Invalid path (regex used for validation is '{_PATH}')")


def _check_parameters(parameters: Document, path: str, causes: Causes) -> None:
    check_reference(parameters, path, causes)
    scope, namespace = parameters.get("scope", ""), parameters.get("namespace")
    where = f"{path}.namespace"
    if scope not in _SCOPES:
        causes.not_supported(f"{path}.scope", scope, _SCOPES)
    elif scope == "Cluster" and namespace is not None:
        causes.forbidden(where, "`parameters.scope` is set to 'Cluster'")
    elif scope == "Namespace" and namespace is None:
        causes.required(where, "`parameters.scope` is set to 'Namespace'")
    elif scope == "Namespace":
        causes.invalid_all(where, namespace, names.dns_label(namespace or ""))
