# SPDX-License-Identifier: Apache-2.0
"""The controller that tells which pods stand behind a Service."""
