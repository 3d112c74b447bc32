# SPDX-License-Identifier: Apache-2.0
"""What is shipped, built and looked at: images and wheels."""
