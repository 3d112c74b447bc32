# SPDX-License-Identifier: Apache-2.0
"""Subresources with rules of their own: binding, eviction, tokens of service accounts.

``table`` lists them by resource; ``plain_binding`` is the short cut of a binding that names a node
and nothing else. ``status``, ``scale`` and those without rules are verbs like the others
(:mod:`koord.controlplane.handlers`). Begin with ``table``.
"""
