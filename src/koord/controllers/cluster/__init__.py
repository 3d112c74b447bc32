# SPDX-License-Identifier: Apache-2.0
"""What the cluster's controllers share: nodes as columns, pods and their shapes."""
