# SPDX-License-Identifier: Apache-2.0
"""HorizontalPodAutoscalers, a module a version.

``v2`` is what is stored and validated; ``v1`` converts from and to it. Begin with ``v2``.
"""
