# SPDX-License-Identifier: Apache-2.0
"""`koord migrate`: `migration_request` makes the PodMigrationJob of a pod, `migration_progress`
follows one to its end. Begin with `command`.
"""
