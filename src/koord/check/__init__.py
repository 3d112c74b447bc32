# SPDX-License-Identifier: Apache-2.0
"""What is wrong with manifests and configuration before they are applied (``koord check``)."""
