# SPDX-License-Identifier: Apache-2.0
"""What the controllers share: views of the cluster, plans, and the runtime that carries plans out.

``objects`` and ``pods`` are functions over objects, ``conditions`` and ``constraints`` over
their parts, ``views`` caches with our own writes in them at once, ``intervals`` a bound on how
often. Begin with ``plans``.
"""
