# SPDX-License-Identifier: Apache-2.0
"""`koord simulate`: replays traces (`command`) and runs days of a cluster (`colocation`).

The work is in `koord.simulator`.
"""
