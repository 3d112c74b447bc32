# SPDX-License-Identifier: Apache-2.0
"""The course of one PodMigrationJob, from its first pass to its end."""

from __future__ import annotations
