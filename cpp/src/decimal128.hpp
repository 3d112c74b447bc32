// SPDX-License-Identifier: Apache-2.0
// Powers of ten and decimal text for 128-bit integers, which the standard library leaves out.
#pragma once

#include <array>
#include <cstddef>
#include <string>

#include "koord/quantity.hpp"

namespace koord::decimal {

using Int = Quantity::Mantissa;

inline constexpr std::array<Int, Quantity::kMaxDigits + 1> kPowersOfTen = [] {
  std::array<Int, Quantity::kMaxDigits + 1> powers{};
  Int power = 1;
  for (std::size_t i = 0; i < powers.size(); ++i) {
    powers[i] = power;
    if (i + 1 < powers.size()) power *= 10;
  }
  return powers;
}();

/// The largest magnitude a quantity's mantissa has: 38 nines.
inline constexpr Int kMaxMantissa = kPowersOfTen[Quantity::kMaxDigits] - 1;

/// 10^exponent for an exponent of 0 to 38.
constexpr Int power_of_ten(int exponent) {
  return kPowersOfTen[static_cast<std::size_t>(exponent)];
}

constexpr Int magnitude(Int value) { return value < 0 ? -value : value; }

inline std::string to_string(Int value) {
  std::string reversed;
  Int rest = magnitude(value);
  do {
    reversed += static_cast<char>('0' + static_cast<int>(rest % 10));
    rest /= 10;
  } while (rest != 0);
  if (value < 0) reversed += '-';
  return {reversed.rbegin(), reversed.rend()};
}

}  // namespace koord::decimal
