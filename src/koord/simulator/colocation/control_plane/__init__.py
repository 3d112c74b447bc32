# SPDX-License-Identifier: Apache-2.0
"""What agents report, what the manager makes of it (`node_reports`), and koord's whole scheduler
over typed objects (`scheduler`).
"""
