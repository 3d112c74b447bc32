# SPDX-License-Identifier: Apache-2.0
"""What a CRD schema says beyond the Python type, as annotations on the fields of the types.

Decoding ignores all of it: an object that was stored under an older or laxer schema still decodes.
:mod:`koord.api.crdgen` turns types and annotations into the CRD documents.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import msgspec


class Schema(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """OpenAPI keywords of one field; names and meaning as in ``apiextensions.k8s.io/v1``.

    Args:
        required: the field is listed as required by the object that has it.
        atomic: a list is replaced as a whole by server-side apply.
        untyped: any JSON value is legal, not only an object.
    """

    format: str | None = None
    minimum: int | None = None
    maximum: int | None = None
    min_length: int | None = None
    max_length: int | None = None
    min_items: int | None = None
    min_properties: int | None = None
    pattern: str | None = None
    enum: tuple[str, ...] = ()
    default: bool | int | str | None = None
    nullable: bool = False
    required: bool = False
    atomic: bool = False
    untyped: bool = False


REQUIRED = Schema(required=True)
ATOMIC = Schema(atomic=True)

Int32 = Annotated[int, Schema(format="int32")]
Time = Annotated[datetime, Schema(format="date-time")]
# A time that servers take only with six digits after the second, so it is kept as the text it is.
MicroTime = str
Percent = Annotated[int, Schema(minimum=0, maximum=100)]
NonNegative = Annotated[int, Schema(minimum=0)]
Positive = Annotated[int, Schema(minimum=1)]

# Any JSON value, kept as it is: ``x-kubernetes-preserve-unknown-fields``.
FreeForm = dict[str, Any]

# A number, or text such as "30%": ``x-kubernetes-int-or-string``.
IntOrString = int | str
