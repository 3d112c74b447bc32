# SPDX-License-Identifier: Apache-2.0
"""Cases of the area ``pod_admission``, and where koord's answers are meant to differ."""
