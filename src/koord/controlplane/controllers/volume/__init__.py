# SPDX-License-Identifier: Apache-2.0
"""PersistentVolumes and claims: bound to each other, made, and let go.

``claim_binding`` decides, ``controller`` is its shell. Begin with ``claim_binding``.
"""
