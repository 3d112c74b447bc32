# SPDX-License-Identifier: Apache-2.0
"""What areas of the node agent share."""
