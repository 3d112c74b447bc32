# SPDX-License-Identifier: Apache-2.0
"""What every object has: metadata, references to other objects, label selectors, conditions."""

from __future__ import annotations

from typing import Annotated

from msgspec import field

from koord.api.schema import ATOMIC, REQUIRED, Schema, Time
from koord.api.wirestruct import WireStruct, emitted
from koord.kernels.quantity import Quantity

# Resource name to amount: requests, limits, capacity, quota.
ResourceList = dict[str, Quantity]


class OwnerReference(WireStruct):
    """The object that another one belongs to."""

    api_version: Annotated[str, REQUIRED] = emitted(str)
    kind: Annotated[str, REQUIRED] = emitted(str)
    name: Annotated[str, REQUIRED] = emitted(str)
    uid: Annotated[str, REQUIRED] = emitted(str)
    controller: bool = False
    block_owner_deletion: bool = False


class ObjectReference(WireStruct):
    """A pointer to any object, or to a part of one."""

    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""
    field_path: str = ""


class LabelSelectorRequirement(WireStruct):
    """One condition on one label key: ``In``, ``NotIn``, ``Exists`` or ``DoesNotExist``."""

    key: Annotated[str, REQUIRED] = emitted(str)
    operator: Annotated[str, REQUIRED] = emitted(str)
    values: Annotated[list[str], ATOMIC] = []


class LabelSelector(WireStruct):
    """A conjunction of label conditions; empty selects everything, absent depends on the field."""

    match_labels: dict[str, str] = {}
    match_expressions: Annotated[list[LabelSelectorRequirement], ATOMIC] = []


class ObjectMeta(WireStruct):
    """The part of ``metadata`` that koord uses."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: list[OwnerReference] = []
    finalizers: list[str] = []


class Object(WireStruct):
    """A Kubernetes object of any kind."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = field(default_factory=ObjectMeta)

    @property
    def title(self) -> str:
        """How messages name the object: ``Pod default/web-0``."""
        where = f"{self.metadata.namespace}/" if self.metadata.namespace else ""
        kind = self.kind or type(self).__name__
        return f"{kind} {where}{self.metadata.name or self.metadata.generate_name}".strip()


class Condition(WireStruct):
    """The standard condition of Kubernetes; types and reasons are part of each kind's interface."""

    type: Annotated[
        str,
        Schema(
            max_length=316,
            pattern=(
                r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
                r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
            ),
            required=True,
        ),
    ] = emitted(str)
    status: Annotated[str, Schema(enum=("True", "False", "Unknown"), required=True)] = emitted(str)
    reason: Annotated[
        str,
        Schema(
            min_length=1,
            max_length=1024,
            pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
            required=True,
        ),
    ] = emitted(str)
    message: Annotated[str, Schema(max_length=32768, required=True)] = emitted(str)
    last_transition_time: Annotated[Time | None, REQUIRED] = None
    observed_generation: Annotated[int, Schema(minimum=0)] = 0
