# SPDX-License-Identifier: Apache-2.0
"""What a pod's and a container's files must say, however it is delivered."""
