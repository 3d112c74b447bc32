# SPDX-License-Identifier: Apache-2.0
"""`koord admission`: what admission would do, before it does it. Begin with `command`."""
