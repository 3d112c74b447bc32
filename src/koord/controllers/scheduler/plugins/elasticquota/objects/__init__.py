# SPDX-License-Identifier: Apache-2.0
"""What the plugin reads from pods and quotas: requests, charges, labels that count as absent."""
