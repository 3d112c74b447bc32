// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "koord/cgroup.hpp"

namespace koord::cgroup {

/// Puts the values of one file into a row of a table that was sized before.
std::optional<Error> decode(std::string_view text, Version version, std::size_t row, Table& table);

}  // namespace koord::cgroup
