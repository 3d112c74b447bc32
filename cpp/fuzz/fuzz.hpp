// SPDX-License-Identifier: Apache-2.0
// What the entries share: claims about what came out, and bytes read as a program.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "koord/error.hpp"

/// One input. The name and the shape are libFuzzer's, so that an entry links with its driver too.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace koord::fuzz {

/// Ends the program, as a sanitizer does: whoever drives the entry keeps the input.
[[noreturn]] inline void refute(const char* text, const char* file, int line) {
  std::fprintf(stderr, "%s:%d: %s is false\n", file, line, text);
  std::abort();
}

inline constexpr std::int64_t kInt64Max = std::numeric_limits<std::int64_t>::max();

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

/// Errors are one line of a readable length, whatever the input.
inline bool readable(const Error& error) {
  const std::string message = error.message();
  return !message.empty() && message.size() <= 1024 && message.find('\n') == std::string::npos;
}

/// Runs an operation that may refuse its arguments. False if it did.
template <class Operation>
bool accepted(Operation operation) {
  try {
    operation();
  } catch (const Exception& error) {
    if (!readable(error.error())) refute("readable(error)", __FILE__, __LINE__);
    return false;
  }
  return true;
}

/// The operations and arguments of a program, one after the other; 0 behind the end.
class Program {
 public:
  Program(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}

  [[nodiscard]] bool ended() const { return at_ == size_; }
  std::uint8_t byte() { return ended() ? std::uint8_t{0} : data_[at_++]; }
  std::size_t below(std::size_t bound) { return byte() % bound; }
  int number(int least, int most) {
    return least + static_cast<int>(below(static_cast<std::size_t>(most - least) + 1));
  }
  bool flag() { return (byte() & 1U) != 0; }
  std::uint64_t word() {
    std::uint64_t value = 0;
    for (int i = 0; i < 8; ++i) value = value << 8 | byte();
    return value;
  }

  /// An amount from 0 on: mostly a small one, at times one at the end of what `most` allows.
  std::int64_t amount(std::int64_t most) {
    const std::uint8_t what = byte();
    if (what < 128) return std::min<std::int64_t>(what, most);
    const std::int64_t step = what & 15U;
    switch (what >> 4 & 7U) {
      case 0:
        return std::max<std::int64_t>(0, most - step);
      case 1:
        return most / 2 + step < most ? most / 2 + step : most;
      case 2:
        return std::min(most, step * 100);
      case 3:
        return std::min(most, std::int64_t{1} << (step + 30));
      default:
        return std::min(most, std::int64_t{byte()} << step);
    }
  }
  /// The same on both sides of 0.
  std::int64_t signed_amount(std::int64_t most) { return flag() ? -amount(most) : amount(most); }

 private:
  const std::uint8_t* data_;
  std::size_t size_;
  std::size_t at_ = 0;
};

}  // namespace koord::fuzz

#define FUZZ_CHECK(condition) \
  ((condition) ? static_cast<void>(0) : koord::fuzz::refute(#condition, __FILE__, __LINE__))
