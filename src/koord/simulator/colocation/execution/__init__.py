# SPDX-License-Identifier: Apache-2.0
"""One run step by step (`day`), a run to its end (`run`), both runs of a seed minute by minute
(`paired_runs`). Begin with `day`.
"""
