# SPDX-License-Identifier: Apache-2.0
"""What a program that stands on the API server has besides its work.

``lifecycle`` starts and stops its parts in order, ``endpoints`` serves health, readiness and
metrics, ``missing_kinds`` names the kinds that the server lacks. Begin with ``lifecycle``.
"""
