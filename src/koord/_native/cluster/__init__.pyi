# Stubs of the compiled module; the folder holds nothing that runs.
from koord._native.cluster import (
    devices as devices,
)
from koord._native.cluster import (
    numa as numa,
)
from koord._native.cluster import (
    placement as placement,
)
from koord._native.cluster import (
    quota as quota,
)
