# SPDX-License-Identifier: Apache-2.0
"""PodMigrationJob: which pods may be moved, in which order, and the course of each job."""

from __future__ import annotations
