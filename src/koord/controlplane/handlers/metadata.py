# SPDX-License-Identifier: Apache-2.0
"""What the server itself writes into ``metadata``: names, uid, times, generation, deletion."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from koord.api.timestamps import seconds_text
from koord.controlplane.api_errors import (
    bad_request,
    conflict,
    failure,
    invalid_value,
    precondition_failed,
)
from koord.kube.errors import StatusDetails

if TYPE_CHECKING:
    import random

    from koord.base.documents import Document
    from koord.controlplane.resource import Resource

# apimachinery's alphabet of generated names: no vowels, nothing that looks like another.
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_PAIRS = [first + second for first in _ALPHABET for second in _ALPHABET]
_LONGEST_BASE = 58
# Of a UUID's 128 bits (RFC 9562, 5.4), those of version and variant are fixed.
_RANDOM_BITS = (1 << 128) - 1 - (0xF << 76) - (0x3 << 62)
_VERSION_4 = (0x4 << 76) + (0x2 << 62)

FOREGROUND, ORPHAN = "foregroundDeletion", "orphan"
_OF_THE_SERVER = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")
# A version as Go's clients write "none": the zero of their numbers.
NO_VERSION = (None, "", "0")
_OMITTED_EMPTY = ("labels", "annotations", "finalizers", "ownerReferences")


def timestamp(seconds: float) -> str:
    """RFC 3339 in whole seconds."""
    return _timestamp(int(seconds))


@lru_cache(maxsize=16)
def _timestamp(seconds: int) -> str:
    return seconds_text(seconds)


def metadata_of(document: Document) -> dict[str, Any]:
    """The metadata of a document as sent; made where it is missing.

    Raises:
        ApiError: 400, it is no object.
    """
    metadata = document.get("metadata")
    if metadata is None:
        metadata = document["metadata"] = {}
    if not isinstance(metadata, dict):
        raise bad_request("metadata: expected an object")
    return metadata


def begin(
    resource: Resource, document: Document, namespace: str, now: str, random: random.Random
) -> str:
    """Fills in the metadata of a new object.

    Returns:
        What its name was generated from; empty if it brought its name along.

    Raises:
        ApiError: it names another namespace, or a version.
    """
    metadata = metadata_of(document)
    _check_namespace(resource, metadata, namespace)
    if metadata.get("resourceVersion") not in NO_VERSION:
        raise failure(500, "", "resourceVersion should not be set on objects to be created")
    base = "" if metadata.get("name") else metadata.get("generateName") or ""
    if base:
        metadata["name"] = generated(base, random)
    for key in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "resourceVersion"):
        metadata.pop(key, None)
    _omit_empty(metadata)
    metadata["uid"] = new_uid(random)
    metadata["creationTimestamp"] = now
    if resource.strategy.generation:
        metadata["generation"] = 1
    else:
        metadata.pop("generation", None)
    return base


def carry_over(resource: Resource, document: Document, old: Document, namespace: str) -> None:
    """Brings over from the old object what no update changes.

    Raises:
        ApiError: 409, the update expects another uid or version.
    """
    metadata, before = metadata_of(document), old["metadata"]
    _check_namespace(resource, metadata, namespace)
    name = before["name"]
    if metadata.get("name", name) != name:
        raise bad_request(f"the name of the object ({metadata['name']}) does not match the name on "
                          f"the URL ({name})")  # fmt: skip
    if (uid := metadata.get("uid")) and uid != before["uid"]:
        raise precondition_failed(resource, before, "UID", uid)
    version = metadata.get("resourceVersion")
    if version in NO_VERSION:
        version = None
    if not version and not resource.strategy.unconditional_update:
        raise _needs_version(resource, name)
    if version and version != before["resourceVersion"]:
        raise modified(resource, name)
    metadata["name"] = metadata.get("name") or name
    for key in _OF_THE_SERVER:
        if key in before and metadata.get(key) is None:
            metadata[key] = before[key]
    metadata.pop("selfLink", None)
    _omit_empty(metadata)
    if "generateName" in before:
        metadata.setdefault("generateName", before["generateName"])


def count_generation(resource: Resource, document: Document, old: Document) -> None:
    """One more generation if anything but metadata and status changed."""
    if not resource.strategy.generation:
        return
    generation = old["metadata"].get("generation", 0)
    if any(
        document.get(key) != old.get(key)
        for key in document.keys() | old.keys()
        if key not in ("metadata", "status", "apiVersion", "kind")
    ):
        generation += 1
    document["metadata"]["generation"] = generation


def modified(resource: Resource, name: str) -> Exception:
    """409: someone else was faster."""
    why = (
        "the object has been modified; please apply your changes to the latest version and try "
        "again"
    )
    return conflict(resource, name, why)


def _needs_version(resource: Resource, name: str) -> Exception:
    cause = invalid_value("metadata.resourceVersion", 0, "must be specified for an update")
    message = f'{resource.plural}.{resource.group} "{name}" is invalid: {cause.field}: '
    details = StatusDetails(name=name, group=resource.group, kind=resource.plural, causes=[cause])
    return failure(422, "Invalid", message + cause.message, details)


def generated(base: str, random: random.Random) -> str:
    """A name from ``generateName``."""
    number = int(random.random() * len(_PAIRS) ** 2 * len(_ALPHABET))
    number, first = divmod(number, len(_PAIRS))
    last, second = divmod(number, len(_PAIRS))
    return f"{base[:_LONGEST_BASE]}{_PAIRS[first]}{_PAIRS[second]}{_ALPHABET[last]}"


def new_uid(random: random.Random) -> str:
    """A version 4 UUID."""
    digits = f"{random.getrandbits(128) & _RANDOM_BITS | _VERSION_4:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def _omit_empty(metadata: dict[str, Any]) -> None:
    for key in _OMITTED_EMPTY:
        if key in metadata and not metadata[key]:
            del metadata[key]


def _check_namespace(resource: Resource, metadata: dict[str, Any], namespace: str) -> None:
    if not resource.namespaced:
        return
    given = metadata.get("namespace")
    if not given:
        metadata["namespace"] = namespace
    elif given != namespace:
        raise bad_request("the namespace of the provided object does not match "
                          "the namespace sent on the request")  # fmt: skip
