# SPDX-License-Identifier: Apache-2.0
"""JSON request bodies as checked, canonical documents.

``bodies`` reads bytes; ``prechecks`` lets most documents pass at the speed of msgspec; ``walk``
is the exact, slow way that words refusals; ``canonical`` and ``scalars`` write values as
Kubernetes does. Begin with ``bodies``.
"""
