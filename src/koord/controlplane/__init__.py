# SPDX-License-Identifier: Apache-2.0
"""An API server in this process, with built-in controllers: for laptop, simulation and tests."""
