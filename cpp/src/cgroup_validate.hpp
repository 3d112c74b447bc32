// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "koord/cgroup.hpp"

namespace koord::cgroup {

/// Whether a text may be written to a resource; nothing when it may.
std::optional<Error> validate(const ResourceSpec& resource, Version version,
                              std::string_view value);

}  // namespace koord::cgroup
