# SPDX-License-Identifier: Apache-2.0
"""`koord check`: of manifests, and of what changes when Koordinator's programs become koord's."""
