# SPDX-License-Identifier: Apache-2.0
"""The verbs: create, update, patch, delete, get, list, watch, scale.

``write`` holds the one step in which an object is read, checked and stored; ``patch``,
``delete`` and ``scale`` lead to it, ``create_cache`` is its short cut for many alike, ``read``
lists and watches. Begin with ``write``.
"""
