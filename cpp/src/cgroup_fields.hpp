// SPDX-License-Identifier: Apache-2.0
// Picks integers out of a key/value file in one pass; the first failure is kept for the end.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "koord/cgroup_parse.hpp"
#include "text.hpp"

namespace koord::cgroup {

/// Takes the key and the value off a line of a key/value file; the value is empty where there is
/// none.
inline std::pair<std::string_view, std::string_view> key_and_value(std::string_view line) {
  const auto key = text::take_field(line);
  return {key, text::take_field(line)};
}

/// The values of N keys. Such files are read of every cgroup every second: nothing is allocated.
template <std::size_t N>
class FieldReader {
 public:
  /// Of a key that comes twice the last value counts.
  FieldReader(std::string_view file, std::string_view text,
              const std::array<std::string_view, N>& keys)
      : file_(file), keys_(keys) {
    while (!text.empty()) {
      const auto [key, value] = key_and_value(text::take_until(text, '\n'));
      if (value.empty()) continue;
      for (std::size_t at = 0; at < N; ++at) {
        if (keys_[at] == key) values_[at] = value;
      }
    }
  }

  /// The value of the key at a place times `factor`; 0 once something has failed.
  std::int64_t get(std::size_t at, std::int64_t factor = 1) {
    const std::string_view text = values_[at];
    if (text.empty()) return fail(keys_[at], "", "this key in the file");
    const auto value = text::integer<std::int64_t>(text);
    std::int64_t scaled = 0;
    if (value && !__builtin_mul_overflow(*value, factor, &scaled)) return scaled;
    return fail(keys_[at], text, "an int64");
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
  const std::array<std::string_view, N>& keys_;
  std::array<std::string_view, N> values_{};
  std::optional<Error> error_;
};

}  // namespace koord::cgroup
