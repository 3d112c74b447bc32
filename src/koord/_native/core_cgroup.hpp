// SPDX-License-Identifier: Apache-2.0
// What the binding files of the cgroup and resctrl kernels share.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <memory>
#include <string_view>
#include <vector>

#include "koord/cgroup.hpp"

namespace koord::python {

namespace py = pybind11;

void register_cgroup_parsers(py::module_& m);
void register_cgroup_paths(py::module_& m);

/// Text from a kernel file, whatever bytes it holds.
inline py::str decoded(std::string_view text) {
  return py::reinterpret_steal<py::str>(
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "backslashreplace"));
}

/// An array over a vector's own memory, which it then owns: nothing is copied.
template <class T>
py::array_t<T> to_array(std::vector<T>&& values, std::vector<py::ssize_t> shape) {
  auto owned = std::make_unique<std::vector<T>>(std::move(values));
  T* data = owned->data();
  const py::capsule owner(owned.release(),
                          [](void* held) { delete static_cast<std::vector<T>*>(held); });
  return py::array_t<T>(std::move(shape), data, owner);
}

/// 1 or 2; the face passes nothing else.
inline cgroup::Version to_version(int version) {
  return version == 2 ? cgroup::Version::kV2 : cgroup::Version::kV1;
}

}  // namespace koord::python
