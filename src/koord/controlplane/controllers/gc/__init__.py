# SPDX-License-Identifier: Apache-2.0
"""The garbage collector: what goes because its owners did.

``owner_graph`` decides, ``collector`` feeds it with all that is served and carries out. Begin
with ``owner_graph``.
"""
