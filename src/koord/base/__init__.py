# SPDX-License-Identifier: Apache-2.0
"""What every component needs and nobody owns. Imports nothing else of koord."""
