# Stubs of the compiled module; the folder holds nothing that runs.
from koord._native.core import (
    cgroup as cgroup,
)
from koord._native.core import (
    histogram as histogram,
)
from koord._native.core import (
    resctrl as resctrl,
)
from koord._native.core import (
    series as series,
)
from koord._native.core import (
    topology as topology,
)
