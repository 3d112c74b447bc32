// SPDX-License-Identifier: Apache-2.0
// From text to a quantity. Everything is done on the decimal digits, so that one path is exact for
// every suffix and length: a binary suffix multiplies the digits, a point only moves the exponent.
#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <optional>

#include "decimal128.hpp"
#include "koord/quantity.hpp"

namespace koord {
namespace {

using Format = Quantity::Format;

constexpr std::string_view kField = "quantity";
constexpr std::string_view kForm = "a number such as 2, 500m, 1.5Gi or 1e3";
constexpr std::string_view kSuffixes =
    "a suffix of n u m k M G T P E Ki Mi Gi Ti Pi Ei or an exponent such as e3";

struct Parts {
  bool negative = false;
  std::string_view whole;
  std::string_view fraction;
  std::string_view suffix;
};

std::string_view take_digits(std::string_view& text) {
  const auto end =
      std::find_if(text.begin(), text.end(), [](char c) { return c < '0' || c > '9'; });
  const auto length = static_cast<std::size_t>(end - text.begin());
  const auto digits = text.substr(0, length);
  text.remove_prefix(length);
  return digits;
}

// Nothing when there is no digit at all.
std::optional<Parts> split(std::string_view text) {
  Parts parts;
  if (text.starts_with('-') || text.starts_with('+')) {
    parts.negative = text.front() == '-';
    text.remove_prefix(1);
  }
  parts.whole = take_digits(text);
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    parts.fraction = take_digits(text);
  }
  if (parts.whole.empty() && parts.fraction.empty()) return std::nullopt;
  parts.suffix = text;
  return parts;
}

// The value is digits * 10^ten * 2^bits.
struct Suffix {
  Format format;
  int ten = 0;
  int bits = 0;
};

std::optional<Suffix> exponent_suffix(std::string_view text) {
  if (text.size() < 2 || (text.front() != 'e' && text.front() != 'E')) return std::nullopt;
  text.remove_prefix(1);
  if (text.starts_with('+')) {
    text.remove_prefix(1);
    // A second sign would be taken for part of the number.
    if (text.starts_with('-')) return std::nullopt;
  }
  int exponent = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, exponent);
  if (error != std::errc() || stop != end) return std::nullopt;
  return Suffix{Format::kDecimalExponent, exponent};
}

std::optional<Suffix> read_suffix(std::string_view text) {
  static constexpr std::string_view kDecimal = "num kMGTPE";
  static constexpr std::string_view kBinary = "KMGTPE";
  if (text.empty()) return Suffix{Format::kDecimalSi};
  if (text.size() == 1 && text != " ") {
    const auto index = kDecimal.find(text.front());
    if (index == std::string_view::npos) return std::nullopt;
    return Suffix{Format::kDecimalSi, static_cast<int>(index) * 3 + Quantity::kMinExponent};
  }
  if (text.size() == 2 && text.back() == 'i') {
    const auto index = kBinary.find(text.front());
    if (index == std::string_view::npos) return std::nullopt;
    return Suffix{Format::kBinarySi, 0, 10 * (static_cast<int>(index) + 1)};
  }
  return exponent_suffix(text);
}

// The largest factor, 2^60, times a digit and its carry still fit in 64 bits.
void multiply(std::string& digits, std::uint64_t factor) {
  constexpr std::size_t kFactorDigits = 19;
  digits.insert(0, kFactorDigits, '0');
  std::uint64_t carry = 0;
  for (auto digit = digits.rbegin(); digit != digits.rend(); ++digit) {
    carry += static_cast<std::uint64_t>(*digit - '0') * factor;
    *digit = static_cast<char>('0' + static_cast<int>(carry % 10));
    carry /= 10;
  }
}

struct Decimal {
  Quantity::Mantissa mantissa = 0;
  std::int64_t exponent = 0;
};

// digits * 10^exponent, rounded up to nano; nothing when 38 digits do not hold it.
std::optional<Decimal> to_decimal(std::string_view digits, std::int64_t exponent) {
  digits.remove_prefix(std::min(digits.find_first_not_of('0'), digits.size()));
  if (digits.empty()) return Decimal{};
  const auto significant = digits.find_last_not_of('0') + 1;
  exponent += static_cast<std::int64_t>(digits.size() - significant);
  digits = digits.substr(0, significant);
  // The last digit is not 0, so whatever is cut off is above zero and counts as one more nano.
  Quantity::Mantissa round_up = 0;
  if (exponent < Quantity::kMinExponent) {
    const auto cut = static_cast<std::size_t>(Quantity::kMinExponent - exponent);
    digits.remove_suffix(std::min(cut, digits.size()));
    exponent = Quantity::kMinExponent;
    round_up = 1;
  }
  if (digits.size() > Quantity::kMaxDigits) return std::nullopt;
  Quantity::Mantissa mantissa = 0;
  for (const char digit : digits) mantissa = mantissa * 10 + (digit - '0');
  return Decimal{mantissa + round_up, exponent};
}

// Binary quantities saturate, and are not binary at all below 1.
Quantity settle_binary(const Quantity& magnitude) {
  const auto limit = Quantity::from_integer(std::numeric_limits<std::int64_t>::max(), Unit::kWhole,
                                            Format::kBinarySi);
  if (magnitude > limit) return limit;
  const bool below_one =
      !magnitude.is_zero() && magnitude < Quantity::from_integer(1, Unit::kWhole);
  return below_one ? magnitude.with_format(Format::kDecimalSi) : magnitude;
}

}  // namespace

Result<Quantity> Quantity::parse(std::string_view text) {
  const auto parts = split(text);
  if (!parts) return invalid(kField, text, kForm);
  const auto suffix = read_suffix(parts->suffix);
  if (!suffix) return invalid(kField, text, kSuffixes);
  std::string digits(parts->whole);
  digits += parts->fraction;
  if (suffix->bits > 0) multiply(digits, std::uint64_t{1} << suffix->bits);
  const bool binary = suffix->format == Format::kBinarySi;
  auto decimal =
      to_decimal(digits, suffix->ten - static_cast<std::int64_t>(parts->fraction.size()));
  // Only nine digits follow the point, so a binary quantity of more than 38 is beyond its limit.
  if (!decimal && binary) decimal = Decimal{decimal::kMaxMantissa, 0};
  if (!decimal) return invalid(kField, text, "at most 38 significant digits");
  if (decimal->exponent > kMaxExponent && !binary) {
    return invalid(kField, text, "an exponent of at most 1000");
  }
  const Quantity read(decimal->mantissa, static_cast<int>(decimal->exponent), suffix->format);
  const Quantity magnitude = binary ? settle_binary(read) : read;
  return parts->negative ? -magnitude : magnitude;
}

Result<std::int64_t> parse_count(std::string_view text, Unit unit, Rounding rounding) {
  auto parsed = Quantity::parse(text);
  if (!parsed.ok()) return parsed.error();
  return parsed.value().count(unit, rounding);
}

}  // namespace koord
