# SPDX-License-Identifier: Apache-2.0
"""Core types from ``core.json``, which is dumped from a kube-apiserver and never edited.

``types`` makes shapes of the table, ``core_schema`` the schema of one kind. Begin with
``types``.
"""
