# SPDX-License-Identifier: Apache-2.0
"""The shapes of kinds: core types from a table, custom resources from their definitions."""

from koord.controlplane.schema.core import CoreSchema, core_schema
from koord.controlplane.schema.crd import CrdSchema, crd_schema
from koord.controlplane.schema.crdcheck import check_crd

__all__ = ["CoreSchema", "CrdSchema", "check_crd", "core_schema", "crd_schema"]
