# SPDX-License-Identifier: Apache-2.0
"""All other core kinds: nodes, namespaces, configuration, quotas, storage, RBAC, policies,
admission configuration, events.

A module a group of kinds, each a strategy with its rules. Begin with ``nodes``.
"""
