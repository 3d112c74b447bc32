# SPDX-License-Identifier: Apache-2.0
"""What changes when the programs of an installed Koordinator become koord's.

Rule: docs/guide-moving.md.
"""
