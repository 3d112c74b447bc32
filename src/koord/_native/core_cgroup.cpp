// SPDX-License-Identifier: Apache-2.0
#include "bindings.hpp"

namespace koord::python {

void register_cgroup(pybind11::module_&) {}

}  // namespace koord::python
