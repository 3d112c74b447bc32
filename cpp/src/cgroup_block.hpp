// SPDX-License-Identifier: Apache-2.0
// Lines of block devices, as files of the io controller hold them.
#pragma once

#include <string>
#include <string_view>

#include "koord/cgroup.hpp"

namespace koord::cgroup {

/// What to write for a valid `MAJ:MIN VALUE`: in io.max of v2 a limit has a name, and none is max.
std::string device_text(const ResourceSpec& resource, Version version, std::string_view value);

/// Whether a file says of the device of `text` what `text` does. The kernel prints only devices
/// that differ from the default, and numbers in its own form.
bool says_same_of_device(const ResourceSpec& resource, Version version, std::string_view text,
                         std::string_view current);

}  // namespace koord::cgroup
