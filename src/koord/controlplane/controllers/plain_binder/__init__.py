# SPDX-License-Identifier: Apache-2.0
"""A scheduler's stand-in: the first node by name with enough free resources.

``free_resources`` keeps the nodes as columns and finds one, ``controller`` binds. Begin with
``free_resources``.
"""
