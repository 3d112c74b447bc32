// SPDX-License-Identifier: Apache-2.0
#include "koord/quantity.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>

#include "decimal128.hpp"

namespace koord {
namespace {

using decimal::Int;
using decimal::kMaxMantissa;
using decimal::magnitude;
using decimal::power_of_ten;

constexpr Int kMinInt64 = std::numeric_limits<std::int64_t>::min();
constexpr Int kMaxInt64 = std::numeric_limits<std::int64_t>::max();
__extension__ typedef unsigned __int128 Bits;

constexpr Int kKibi = 1024;
constexpr int kLargestBinarySuffix = 6;
constexpr int kLargestDecimalSuffix = 18;

// value * 10^power, or nothing when that exceeds 38 digits.
std::optional<Int> times_power_of_ten(Int value, int power) {
  if (value == 0 || power == 0) return value;
  if (power > Quantity::kMaxDigits) return std::nullopt;
  if (magnitude(value) > kMaxMantissa / power_of_ten(power)) return std::nullopt;
  return value * power_of_ten(power);
}

// |value| * 10^power, or nothing beyond 2 * 10^38: what lies further out no other quantity brings
// back to 38 digits.
std::optional<Bits> aligned(Int value, int power) {
  const auto size = static_cast<Bits>(magnitude(value));
  if (power > Quantity::kMaxDigits) return std::nullopt;
  const auto factor = static_cast<Bits>(power_of_ten(power));
  if (size > 2 * static_cast<Bits>(kMaxMantissa) / factor) return std::nullopt;
  return size * factor;
}

struct Quotient {
  Int value;  // toward zero
  bool exact;
};

Quotient divide_by_power_of_ten(Int value, int power) {
  if (power > Quantity::kMaxDigits) return {0, value == 0};
  return {value / power_of_ten(power), value % power_of_ten(power) == 0};
}

// Suffixes of 10^-9, 10^-6 ... 10^18.
std::string_view decimal_suffix(int exponent) {
  static constexpr std::array<std::string_view, 10> kSuffixes = {"n", "u", "m", "",  "k",
                                                                 "M", "G", "T", "P", "E"};
  return kSuffixes[static_cast<std::size_t>((exponent - Quantity::kMinExponent) / 3)];
}

constexpr int floor_to_multiple_of_three(int exponent) {
  return exponent - ((exponent % 3) + 3) % 3;
}

}  // namespace

Quantity::Quantity(Mantissa mantissa, int exponent, Format format) noexcept
    : mantissa_(mantissa), exponent_(exponent), format_(format) {
  if (mantissa_ == 0) exponent_ = 0;
  while (mantissa_ != 0 && mantissa_ % 10 == 0) {
    mantissa_ /= 10;
    ++exponent_;
  }
}

Quantity Quantity::from_integer(std::int64_t count, Unit unit, Format format) {
  return {count, static_cast<int>(unit), format};
}

Quantity Quantity::with_format(Format format) const noexcept {
  Quantity copy = *this;
  copy.format_ = format;
  return copy;
}

Quantity Quantity::operator-() const noexcept {
  Quantity negated = *this;
  negated.mantissa_ = -mantissa_;
  return negated;
}

Result<std::int64_t> Quantity::count(Unit unit, Rounding rounding) const {
  const int power = exponent_ - static_cast<int>(unit);
  std::optional<Int> count = mantissa_;
  if (power >= 0) {
    count = times_power_of_ten(mantissa_, power);
  } else {
    const auto [quotient, exact] = divide_by_power_of_ten(mantissa_, -power);
    if (!exact && rounding == Rounding::kExact) {
      return invalid("quantity", to_string(),
                     unit == Unit::kMilli ? "a whole number of thousandths" : "a whole number");
    }
    const Int away = mantissa_ < 0 ? -1 : 1;
    count = quotient + (!exact && rounding == Rounding::kUp ? away : 0);
  }
  if (!count || *count < kMinInt64 || *count > kMaxInt64) {
    return invalid(
        "quantity", to_string(),
        unit == Unit::kMilli ? "thousandths that fit in 64 bits" : "a number that fits in 64 bits");
  }
  return static_cast<std::int64_t>(*count);
}

Result<Quantity> Quantity::add(const Quantity& other) const {
  const Format format = is_zero() ? other.format_ : format_;
  if (is_zero() || other.is_zero()) return (is_zero() ? other : *this).with_format(format);
  int exponent = std::min(exponent_, other.exponent_);
  const auto a = aligned(mantissa_, exponent_ - exponent);
  const auto b = aligned(other.mantissa_, other.exponent_ - exponent);
  if (a && b) {
    const bool same_sign = (mantissa_ < 0) == (other.mantissa_ < 0);
    const bool left_sign = same_sign || *a > *b;
    Bits total = same_sign ? *a + *b : (left_sign ? *a - *b : *b - *a);
    for (; total > static_cast<Bits>(kMaxMantissa) && total % 10 == 0; total /= 10) ++exponent;
    if (total <= static_cast<Bits>(kMaxMantissa)) {
      const bool negative = left_sign ? mantissa_ < 0 : other.mantissa_ < 0;
      const Quantity sum(negative ? -static_cast<Int>(total) : static_cast<Int>(total), exponent,
                         format);
      if (sum.exponent_ <= kMaxExponent) return sum;
    }
  }
  return invalid("quantity", to_string() + " + " + other.to_string(),
                 "a sum of at most 38 significant digits");
}

std::strong_ordering operator<=>(const Quantity& a, const Quantity& b) noexcept {
  const int a_sign = (a.mantissa_ > 0) - (a.mantissa_ < 0);
  const int b_sign = (b.mantissa_ > 0) - (b.mantissa_ < 0);
  if (a_sign != b_sign || a_sign == 0) return a_sign <=> b_sign;
  const int exponent = std::min(a.exponent_, b.exponent_);
  const auto a_aligned = times_power_of_ten(a.mantissa_, a.exponent_ - exponent);
  const auto b_aligned = times_power_of_ten(b.mantissa_, b.exponent_ - exponent);
  if (a_aligned && b_aligned) return *a_aligned <=> *b_aligned;
  // At most one side was shifted; if that overflowed, its magnitude exceeds every mantissa.
  return a_aligned ? 0 <=> a_sign : a_sign <=> 0;
}

std::size_t Quantity::hash() const noexcept {
  const auto low = static_cast<std::uint64_t>(mantissa_);
  const auto high = static_cast<std::uint64_t>(static_cast<Bits>(mantissa_) >> 64U);
  std::size_t mixed = std::hash<std::uint64_t>{}(low);
  for (const std::uint64_t part : {high, static_cast<std::uint64_t>(exponent_)}) {
    mixed = mixed * 0x9e3779b97f4a7c15U + part;
  }
  return mixed;
}

std::string Quantity::to_string() const {
  if (is_zero()) return "0";
  const bool whole = exponent_ >= 0;
  const bool below_kibi =
      *this > from_integer(-1024, Unit::kWhole) && *this < from_integer(1024, Unit::kWhole);
  const bool binary = format_ == Format::kBinarySi && whole && !below_kibi;
  return binary ? binary_text() : decimal_text();
}

std::string Quantity::decimal_text() const {
  int exponent = floor_to_multiple_of_three(exponent_);
  if (format_ != Format::kDecimalExponent) exponent = std::min(exponent, kLargestDecimalSuffix);
  std::string text = decimal::to_string(mantissa_);
  text.append(static_cast<std::size_t>(exponent_ - exponent), '0');
  if (format_ != Format::kDecimalExponent) return text.append(decimal_suffix(exponent));
  return exponent == 0 ? text : text + "e" + std::to_string(exponent);
}

std::string Quantity::binary_text() const {
  static constexpr std::array<std::string_view, kLargestBinarySuffix + 1> kSuffixes = {
      "", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"};
  const auto whole = times_power_of_ten(mantissa_, exponent_);
  // Beyond 38 digits only an explicit change of format leads; a decimal text is as exact.
  if (!whole) return with_format(Format::kDecimalSi).to_string();
  Int rest = *whole;
  std::size_t suffix = 0;
  while (suffix < kLargestBinarySuffix && rest % kKibi == 0) {
    rest /= kKibi;
    ++suffix;
  }
  return decimal::to_string(rest).append(kSuffixes[suffix]);
}

}  // namespace koord
