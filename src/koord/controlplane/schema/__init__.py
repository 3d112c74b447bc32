# SPDX-License-Identifier: Apache-2.0
"""The shapes of kinds: core types from a table, custom resources from their definitions."""

from koord.controlplane.schema.core import CoreSchema, core_schema

__all__ = ["CoreSchema", "core_schema"]
