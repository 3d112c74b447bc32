// SPDX-License-Identifier: Apache-2.0
// Kubernetes resource quantities ("500m", "1.5Gi", "1e3"): the exact value and the format it was
// written in, as apimachinery's resource.Quantity.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "koord/error.hpp"

namespace koord {

/// What becomes of a fraction when a quantity is read as an integer.
enum class Rounding : int {
  kUp,     ///< away from zero, as Kubernetes' Value() and MilliValue()
  kDown,   ///< toward zero
  kExact,  ///< a fraction is an error
};

/// The unit an integer counts, as a power of ten.
enum class Unit : int { kMilli = -3, kWhole = 0 };

/// An immutable decimal number of up to 38 significant digits, never finer than 10^-9, with the
/// format it prints in. 38 digits hold any 64-bit integer in nano units, so sums over a cluster
/// stay exact; what would need more is an error, never a rounded value.
class KOORD_API Quantity {
 public:
  enum class Format : int { kDecimalSi, kBinarySi, kDecimalExponent };
  __extension__ typedef __int128 Mantissa;

  static constexpr int kMaxDigits = 38;
  static constexpr int kMinExponent = -9;
  static constexpr int kMaxExponent = 1000;

  /// Zero.
  Quantity() = default;
  /// Reads digits with an optional sign, point and suffix (n u m k M G T P E, Ki Mi Gi Ti Pi Ei, or
  /// an exponent e3, E3). Digits finer than nano round away from zero; a binary quantity saturates
  /// at 2^63-1; a binary quantity below 1 becomes decimal.
  static Result<Quantity> parse(std::string_view text);
  static Quantity from_integer(std::int64_t count, Unit unit, Format format = Format::kDecimalSi);

  /// The canonical text: no fraction, the largest suffix that allows it. A binary quantity that has
  /// a fraction or lies between -1024 and 1024 prints as decimal.
  [[nodiscard]] std::string to_string() const;
  [[nodiscard]] Format format() const noexcept { return format_; }
  [[nodiscard]] Quantity with_format(Format format) const noexcept;

  /// How many `unit`s; an error when that has a fraction and rounding is kExact, or exceeds 64
  /// bits.
  [[nodiscard]] Result<std::int64_t> count(Unit unit, Rounding rounding) const;
  [[nodiscard]] Result<std::int64_t> value(Rounding rounding) const {
    return count(Unit::kWhole, rounding);
  }
  [[nodiscard]] Result<std::int64_t> milli(Rounding rounding) const {
    return count(Unit::kMilli, rounding);
  }
  [[nodiscard]] bool is_zero() const noexcept { return mantissa_ == 0; }

  /// Exact; the format is the left one's unless that is zero. An error when 38 digits do not hold
  /// the result.
  [[nodiscard]] Result<Quantity> add(const Quantity& other) const;
  [[nodiscard]] Result<Quantity> sub(const Quantity& other) const { return add(-other); }
  Quantity operator-() const noexcept;

  /// By value: 1Ki equals 1024 whatever their formats, as Kubernetes' Cmp and Equal.
  friend std::strong_ordering operator<=>(const Quantity& a, const Quantity& b) noexcept;
  friend bool operator==(const Quantity& a, const Quantity& b) noexcept {
    return a.mantissa_ == b.mantissa_ && a.exponent_ == b.exponent_;
  }
  /// Equal quantities have equal hashes.
  [[nodiscard]] std::size_t hash() const noexcept;

 private:
  Quantity(Mantissa mantissa, int exponent, Format format) noexcept;
  [[nodiscard]] std::string decimal_text() const;
  [[nodiscard]] std::string binary_text() const;

  // The value is mantissa * 10^exponent. The mantissa does not end in the digit 0, so that equal
  // values have equal parts; zero is 0 * 10^0.
  Mantissa mantissa_ = 0;
  std::int32_t exponent_ = 0;
  Format format_ = Format::kDecimalSi;
};

/// parse() then count(), for columns of integers.
KOORD_API Result<std::int64_t> parse_count(std::string_view text, Unit unit, Rounding rounding);

}  // namespace koord
