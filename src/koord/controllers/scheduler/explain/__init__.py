# SPDX-License-Identifier: Apache-2.0
"""Why a pod is where it is or nowhere, and what would change that."""
