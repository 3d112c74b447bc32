# SPDX-License-Identifier: Apache-2.0
"""The shapes of kinds: core types from a table, custom resources from their definitions.

``shapes`` is what all else walks; ``builtin`` and ``custom`` make shapes, ``codec`` and
``proto`` read bodies by them, ``openapi_documents`` writes them down for clients. Begin with
``shapes``, then ``builtin.core_schema``.
"""

from koord.controlplane.schema.builtin.core_schema import CoreSchema, core_schema
from koord.controlplane.schema.custom.crd_schema import CrdSchema, crd_schema
from koord.controlplane.schema.custom.definition_rules import check_crd

__all__ = ["CoreSchema", "CrdSchema", "check_crd", "core_schema", "crd_schema"]
