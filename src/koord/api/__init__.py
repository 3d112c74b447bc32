# SPDX-License-Identifier: Apache-2.0
"""What crosses the wire: typed objects, the label and annotation protocol, QoS and priority."""
