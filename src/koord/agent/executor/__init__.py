# SPDX-License-Identifier: Apache-2.0
"""The one place that writes to the host. Owners state claims (`claim`, about a `target`);
`composition` makes one value of them, `host_executor` decides what is due, `journal` keeps the
originals, `writers` write and read back; `audit` records it. Begin with `claim`, then
`host_executor`.
"""
