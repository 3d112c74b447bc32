# SPDX-License-Identifier: Apache-2.0
"""koordlet: measures one node, protects its services and lets batch use what is idle."""
