# SPDX-License-Identifier: Apache-2.0
"""Traffic classes of the node's link and which packets belong to them: TCNetworkQoS.

`plan` is what is wanted, `changes` what is to be done for it, `tc_link` and `nftables` do it.
Rule: docs/reference/hooks.md#tcnetworkqos.
"""
