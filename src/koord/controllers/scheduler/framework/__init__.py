# SPDX-License-Identifier: Apache-2.0
"""What plugins implement and what they are given; see docs/scheduler.md."""
