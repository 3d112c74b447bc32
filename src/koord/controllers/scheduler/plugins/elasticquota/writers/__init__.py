# SPDX-License-Identifier: Apache-2.0
"""What is written to quota objects (`status`), by whom and when (`status_controller`), and pods
evicted for overuse (`revoke_controller`). Begin with `status_controller`.
"""
