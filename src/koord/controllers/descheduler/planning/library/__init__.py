# SPDX-License-Identifier: Apache-2.0
"""What the scheduler as a library of plans needs of its own: held views, and pods that moved."""
