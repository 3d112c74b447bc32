// SPDX-License-Identifier: Apache-2.0
// Picks integers out of a key/value file; the first failure is kept for the end.
#pragma once

#include <optional>
#include <ranges>
#include <string>

#include "koord/cgroup_parse.hpp"
#include "text.hpp"

namespace koord::cgroup {

class FieldReader {
 public:
  FieldReader(std::string_view file, std::string_view text)
      : file_(file), values_(parse_key_values(text)) {}

  /// The value of a key times `factor`; 0 once something has failed.
  std::int64_t get(std::string_view key, std::int64_t factor = 1) {
    for (const auto& [name, text] : values_ | std::views::reverse) {
      if (name != key) continue;
      const auto value = text::integer<std::int64_t>(text);
      std::int64_t scaled = 0;
      if (value && !__builtin_mul_overflow(*value, factor, &scaled)) return scaled;
      return fail(key, text, "an int64");
    }
    return fail(key, "", "this key in the file");
  }

  template <class T>
  Result<T> result(T value) {
    if (error_) return *std::move(error_);
    return value;
  }

 private:
  std::int64_t fail(std::string_view key, std::string_view value, std::string_view expected) {
    if (!error_) error_ = invalid(std::string(file_) + " " + std::string(key), value, expected);
    return 0;
  }

  std::string_view file_;
  KeyValues values_;
  std::optional<Error> error_;
};

}  // namespace koord::cgroup
