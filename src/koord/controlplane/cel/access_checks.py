# SPDX-License-Identifier: Apache-2.0
"""``authorizer`` in expressions: whether who asks, or a service account, may do something else.

An authorizer, a check and a decision are maps with one key that users do not see, as quantities
are. Rule: Kubernetes' documentation of CEL, "Kubernetes authorizer library".
Reference: docs/controlplane.md#expressions.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from koord.controlplane.authorization.access import AccessRequest
from koord.controlplane.authorization.identity import Identity, account
from koord.controlplane.kinds.validation import names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from koord.controlplane.authorization.rbac import AccessVerdict, Authorizer
    from koord.controlplane.resource import Context

    Judge = Callable[[str, AccessRequest], AccessVerdict]

_AUTHORIZER, _PATH, _GROUP, _RESOURCE, _DECISION = (
    f"kubernetes.authorization.{name}"
    for name in ("Authorizer", "PathCheck", "GroupCheck", "ResourceCheck", "Decision")
)
CelMap = dict[str, Any]
_JUDGE: ContextVar[Judge] = ContextVar("judge")


def judge_of(authorizer: Authorizer, context: Context) -> Judge:
    """Answers checks by roles.

    Args:
        authorizer: has them.
        context: of the request, with who sent it.
    """
    sender = Identity(context.user, context.groups)

    def judge(account_name: str, access: AccessRequest) -> AccessVerdict:
        namespace, _, name = account_name.partition(":")
        who = account(namespace, name) if account_name else sender
        return authorizer.verdict(who, access)

    return judge


@contextmanager
def checks_by(judge: Judge) -> Iterator[None]:
    """Checks of expressions that are evaluated meanwhile are answered by somebody.

    Args:
        judge: of a service account as ``namespace:name``, empty for who sent the request, and what
            it asks.
    """
    token = _JUDGE.set(judge)
    try:
        yield
    finally:
        _JUDGE.reset(token)


def authorizer(group: str, resource: str, subresource: str, namespace: str, name: str) -> CelMap:
    """The variable, of a request about a resource."""
    asked = {
        "group": group, "resource": resource, "subresource": subresource, "namespace": namespace,
        "name": name,
    }  # fmt: skip
    return {**_packed(_AUTHORIZER), "requestResource": _packed(_RESOURCE, **asked)}


def _packed(kind: str, **state: Any) -> CelMap:
    return {kind: json.dumps(state)}


def _state(value: CelMap, kind: str) -> CelMap:
    if kind not in value:
        raise ValueError("no such overload")
    found: CelMap = json.loads(value[kind])
    return found


def _path(value: CelMap, path: str) -> CelMap:
    if not path.strip():
        raise ValueError("path must not be empty")
    return _packed(_PATH, **_state(value, _AUTHORIZER), path=path)


def _group(value: CelMap, group: str) -> CelMap:
    return _packed(_GROUP, **_state(value, _AUTHORIZER), group=group)


def _service_account(value: CelMap, namespace: str, name: str) -> CelMap:
    _state(value, _AUTHORIZER)
    if names.dns_subdomain(name):
        raise ValueError("Invalid service account name")
    if names.dns_label(namespace):
        raise ValueError("Invalid service account namespace")
    return _packed(_AUTHORIZER, account=f"{namespace}:{name}")


def _resource(value: CelMap, resource: str) -> CelMap:
    if not resource.strip():
        raise ValueError("resource must not be empty")
    return _packed(_RESOURCE, **_state(value, _GROUP), resource=resource)


def _narrowed(field: str) -> Callable[[CelMap, str], CelMap]:
    return lambda value, text: _packed(_RESOURCE, **{**_state(value, _RESOURCE), field: text})


def _by_selector(value: CelMap, _: str) -> CelMap:
    """Roles know no selectors."""
    return _packed(_RESOURCE, **_state(value, _RESOURCE))


def _check(value: CelMap, verb: str) -> CelMap:
    asked = _state(value, _PATH if _PATH in value else _RESOURCE)
    verdict = _JUDGE.get()(asked.pop("account", ""), AccessRequest(verb, **asked))
    # No role makes a check fail.
    decided = {"allowed": verdict.allowed, "reason": verdict.reason, "errored": False, "error": ""}
    return _packed(_DECISION, **decided)


def _decided(field: str) -> Callable[[CelMap], Any]:
    return lambda value: _state(value, _DECISION)[field]


# As koord.controlplane.cel.functions has them.
ACCESS_FUNCTIONS: list[tuple[str, str, str, bool, Callable[..., Any]]] = [
    ("path", "ms", "m", True, _path),
    ("group", "ms", "m", True, _group),
    ("serviceAccount", "mss", "m", True, _service_account),
    ("resource", "ms", "m", True, _resource),
    ("subresource", "ms", "m", True, _narrowed("subresource")),
    ("namespace", "ms", "m", True, _narrowed("namespace")),
    ("name", "ms", "m", True, _narrowed("name")),
    ("fieldSelector", "ms", "m", True, _by_selector),
    ("labelSelector", "ms", "m", True, _by_selector),
    ("check", "ms", "m", True, _check),
    ("allowed", "m", "b", True, _decided("allowed")),
    ("reason", "m", "s", True, _decided("reason")),
    ("errored", "m", "b", True, _decided("errored")),
    ("error", "m", "s", True, _decided("error")),
]
