// SPDX-License-Identifier: Apache-2.0
// What the binding files of the devices kernel share.
#pragma once

#include <pybind11/pybind11.h>

#include <string>

#include "koord/devices.hpp"

namespace koord::python {

/// The library trusts its rows; Python's are checked here.
inline std::uint32_t checked_row(const devices::DeviceTable& table, std::uint32_t row) {
  if (row < table.rows()) return row;
  throw Exception(not_found("row", std::to_string(row), "a row of the table"));
}

void register_assignment(pybind11::module_& m);

}  // namespace koord::python
