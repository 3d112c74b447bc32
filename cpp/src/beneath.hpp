// SPDX-License-Identifier: Apache-2.0
// The two ways of opening a path beneath a directory. Both give a descriptor or -errno, both refuse
// symbolic links with ELOOP; paths are already known to be relative and free of "..".
#pragma once

#include <string>

namespace koord {

/// One system call; -ENOSYS before Linux 5.6.
int open_with_openat2(int directory, const char* relative, int flags);
/// Component by component, each opened with O_NOFOLLOW relative to the one before.
int open_by_walking(int directory, const std::string& relative, int flags);

}  // namespace koord
