# SPDX-License-Identifier: Apache-2.0
"""The refusals of an API server, worded as Kubernetes words them (apimachinery's ``errors``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koord.kube.errors import ApiError, Status, StatusCause, StatusDetails

NO_PAGE = "404 page not found\n"
# Resources that etcd keeps under another name than theirs, and groups that it does not name.
_FOLDERS = {
    "nodes": "minions",
    "services": "services/specs",
    "endpoints": "services/endpoints",
    "replicationcontrollers": "controllers",
    "customresourcedefinitions.apiextensions.k8s.io":
        "apiextensions.k8s.io/customresourcedefinitions",
}  # fmt: skip
_GROUPS = tuple(
    f"{name}.k8s.io"
    for name in ("admissionregistration", "apiextensions", "coordination", "discovery", "events",
                 "networking", "rbac.authorization", "scheduling", "storage")
)  # fmt: skip

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from koord.controlplane.resource import Resource


def failure(code: int, reason: str, message: str, details: StatusDetails | None = None) -> ApiError:
    """Any refusal."""
    status = Status(status="Failure", message=message, reason=reason, details=details, code=code)
    return ApiError(status)


def bad_request(message: str) -> ApiError:
    """400: the request cannot be read."""
    return failure(400, "BadRequest", message)


def unauthorized() -> ApiError:
    """401: no or a wrong token."""
    return failure(401, "Unauthorized", "Unauthorized")


def forbidden(resource: Resource, name: str, why: str) -> ApiError:
    """403: an admission rule or policy is against it."""
    qualified = _qualified(resource)
    message = f'{qualified} "{name}" is forbidden: {why}'
    return failure(403, "Forbidden", message, _details(resource, name))


def not_found(resource: Resource, name: str) -> ApiError:
    """404: no such object."""
    message = f'{_qualified(resource)} "{name}" not found'
    return failure(404, "NotFound", message, _details(resource, name))


def no_such_path() -> ApiError:
    """404: nothing is served at the path."""
    message = "the server could not find the requested resource"
    return failure(404, "NotFound", message, StatusDetails())


def method_not_allowed() -> ApiError:
    """405: the verb is not served here."""
    message = "the server does not allow this method on the requested resource"
    return failure(405, "MethodNotAllowed", message, StatusDetails())


def already_exists(resource: Resource, name: str) -> ApiError:
    """409: the name is taken."""
    message = f'{_qualified(resource)} "{name}" already exists'
    return failure(409, "AlreadyExists", message, _details(resource, name))


def conflict(resource: Resource, name: str, why: str) -> ApiError:
    """409: the object is not as the request expects."""
    message = f'Operation cannot be fulfilled on {_qualified(resource)} "{name}": {why}'
    return failure(409, "Conflict", message, _details(resource, name))


def precondition_failed(
    resource: Resource, metadata: Mapping[str, Any], field: str, wanted: str
) -> ApiError:
    """409: an object that is to be written has another uid or version; worded as by etcd's store.

    Args:
        metadata: the object's metadata.
        field: ``UID`` or ``ResourceVersion``.
    """
    where = _FOLDERS.get(resource.storage, resource.plural)
    if not _is_built_in(resource):
        where = f"{resource.group}/{resource.plural}"
    key = "/".join(
        ("/registry", where, *filter(None, [metadata.get("namespace")]), metadata["name"])
    )
    present = metadata["uid" if field == "UID" else "resourceVersion"]
    why = (
        f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, "
        f"AdditionalErrorMsg: Precondition failed: {field} in precondition: {wanted}, "
        f"{field} in object meta: {present}"
    )
    return conflict(resource, metadata["name"], why)


def conflict_of(resource: Resource, name: str, why: str) -> ApiError:
    """The same of a deletion, which names the kind."""
    message = f'Operation cannot be fulfilled on {resource.kind} "{name}": {why}'
    return failure(409, "Conflict", message, _details(resource, name))


def no_such_page() -> ApiError:
    """404: nothing at all is served there; answered in plain text."""
    return failure(404, "", NO_PAGE)


def expired(message: str) -> ApiError:
    """410: the wanted version is no longer kept."""
    return failure(410, "Expired", message)


def too_large(limit_bytes: int) -> ApiError:
    """413: the body is larger than allowed."""
    message = f"Request entity too large: limit is {limit_bytes}"
    return failure(413, "RequestEntityTooLarge", message)


def stored_too_large(kind: str, name: str, size_bytes: int, limit_bytes: int) -> ApiError:
    """413: the object is larger than what is stored of one."""
    message = (
        f'Request entity too large: {kind} "{name}" would take {size_bytes} bytes as stored, '
        f"managed fields included: limit is {limit_bytes}"
    )
    return failure(413, "RequestEntityTooLarge", message)


def unsupported_media_type(given: str, accepted: Iterable[str]) -> ApiError:
    """415: the body is in a format that is not read here."""
    message = (
        "the body of the request was in an unknown format - accepted media types include: "
        f"{', '.join(accepted)}"
    )
    del given
    return failure(415, "UnsupportedMediaType", message)


def invalid(resource: Resource, name: str, causes: list[StatusCause]) -> ApiError:
    """422: fields have wrong values. Each cause's message is worded as for ``field.Error``."""
    kind = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
    message = f'{kind} "{name}" is invalid: {listed(causes)}'
    details = StatusDetails(name=name, group=resource.group, kind=resource.kind, causes=causes)
    return failure(422, "Invalid", message, details)


def listed(causes: list[StatusCause]) -> str:
    """Causes in one line, in brackets if there are several."""
    told = [f"{cause.field}: {cause.message}" for cause in causes]
    return told[0] if len(told) == 1 else f"[{', '.join(told)}]"


def unpatchable(why: str) -> ApiError:
    """422: what a patch makes of the object cannot be read."""
    cause = StatusCause("FieldValueInvalid", f"Invalid value: {why}", "patch")
    details = StatusDetails(causes=[cause])
    return failure(422, "Invalid", f' "" is invalid: patch: {cause.message}', details)


def too_many_requests(message: str, retry_after_seconds: int, cause: str = "") -> ApiError:
    """429: not now; ``DisruptionBudget`` as a cause tells of a budget that is spent."""
    causes = [StatusCause(reason=cause, message=message)] if cause else []
    details = StatusDetails(retry_after_seconds=retry_after_seconds, causes=causes)
    return failure(429, "TooManyRequests", message, details)


def internal(message: str) -> ApiError:
    """500: the server's own fault, or a webhook's."""
    return failure(500, "InternalError", f"Internal error occurred: {message}")


# Field errors, each as one cause. Wording: apimachinery's field package.


def required(field: str, detail: str = "") -> StatusCause:
    """A field that must be there is missing."""
    return StatusCause("FieldValueRequired", _worded("Required value", detail), field)


def invalid_value(field: str, value: object, detail: str) -> StatusCause:
    """A field's value breaks a rule."""
    message = _worded(f"Invalid value: {literal(value)}", detail)
    return StatusCause("FieldValueInvalid", message, field)


def not_supported(field: str, value: object, supported: Iterable[str]) -> StatusCause:
    """A field's value is none of those allowed."""
    names = ", ".join(f'"{name}"' for name in supported)
    message = f"Unsupported value: {literal(value)}: supported values: {names}"
    return StatusCause("FieldValueNotSupported", message, field)


def duplicate(field: str, value: object) -> StatusCause:
    """A value that must be unique is there twice."""
    return StatusCause("FieldValueDuplicate", f"Duplicate value: {literal(value)}", field)


def forbidden_field(field: str, detail: str) -> StatusCause:
    """A field that may not be set, or not be changed."""
    return StatusCause("FieldValueForbidden", _worded("Forbidden", detail), field)


def too_long(field: str, limit_bytes: int) -> StatusCause:
    """A text longer than allowed."""
    message = f"Too long: may not be more than {limit_bytes} bytes"
    return StatusCause("FieldValueTooLong", message, field)


def _worded(what: str, detail: str) -> str:
    return f"{what}: {detail}" if detail else what


def literal(value: object) -> str:
    """A value as messages show it: texts in quotes, the rest as JSON."""
    import json

    if isinstance(value, str | dict | list):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if isinstance(value, bool):
        return str(value).lower()
    return "null" if value is None else str(value)


def _is_built_in(resource: Resource) -> bool:
    return "." not in resource.group or resource.group in _GROUPS


def _qualified(resource: Resource) -> str:
    return f"{resource.plural}.{resource.group}" if resource.group else resource.plural


def _details(resource: Resource, name: str) -> StatusDetails:
    return StatusDetails(name=name, group=resource.group, kind=resource.plural)
