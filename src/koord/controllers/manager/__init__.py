# SPDX-License-Identifier: Apache-2.0
"""koord-manager: idle capacity as batch and mid resources, node SLOs, quota roots, profiles."""
