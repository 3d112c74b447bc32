// SPDX-License-Identifier: Apache-2.0
// Finds the end of a JSON value without reading it: 64 bytes at a time, as bit masks.
#pragma once

#include <cstdint>

namespace koord {

/// The byte after the value that begins at `at`; nullptr where it does not end before `end`.
/// Brackets and quotes must be balanced; nothing else is checked.
[[nodiscard]] const char* skip_value(const char* at, const char* end);

/// The quote that ends the string whose first byte, after its quote, is `at`; nullptr if none does.
/// `escaped` is set where a backslash was met.
[[nodiscard]] const char* string_end(const char* at, const char* end, bool& escaped);

}  // namespace koord
