# SPDX-License-Identifier: Apache-2.0
"""``/openapi/v2`` and ``/openapi/v3`` of what is served, for kubectl.

``documents`` has the paths, ``components`` the types, ``gnostic`` the protobuf form of version
2. Begin with ``documents``.
"""
