// SPDX-License-Identifier: Apache-2.0
// Small sysfs files. A file that is not there gives nothing; one that is there and cannot be read
// or understood throws Exception naming it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "koord/cpuset.hpp"

namespace koord::detail {

/// The text without surrounding white space, or nothing when there is no such file.
std::optional<std::string> read_text(const std::string& path);
/// A decimal number.
std::optional<int> read_int(const std::string& path);
/// A CPU list from `list_path` or, where that is not there, a mask from `map_path` ("" for none).
std::optional<CpuSet> read_set(const std::string& list_path, const std::string& map_path);
/// The N of every entry `prefix`N of a directory, ascending; none when there is no directory.
std::vector<int> numbered_entries(const std::string& directory, const std::string& prefix);

}  // namespace koord::detail
