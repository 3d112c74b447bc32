# SPDX-License-Identifier: Apache-2.0
"""Deployments, ReplicaSets, StatefulSets, DaemonSets, Jobs and disruption budgets.

``controllers`` is the shell; every other module decides for one kind (``deployments`` with
``rollout`` and ``deployment_status``, ``statefulsets`` with ``claim_retention``, ``jobs`` with
``completion_indexes``). Begin with ``replicasets``.
"""
