# SPDX-License-Identifier: Apache-2.0
"""`koord node`: what the agent of this machine sees and does, and putting the machine back.

Begin with `command`.
"""
