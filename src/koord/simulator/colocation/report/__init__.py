# SPDX-License-Identifier: Apache-2.0
"""What an operator asks before switching co-location on, answered from two runs: one HTML page, or
figures. Begin with `page`.
"""
