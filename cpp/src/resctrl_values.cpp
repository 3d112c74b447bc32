// SPDX-License-Identifier: Apache-2.0
// Percentages as masks and bandwidth values.
#include <algorithm>
#include <bit>

#include "koord/cpuset.hpp"
#include "koord/resctrl.hpp"
#include "text.hpp"

namespace koord::resctrl {
namespace {

constexpr std::int64_t kWhole = 100;

int ceil_ways(int ways, std::int64_t percent) {
  return static_cast<int>((ways * percent + kWhole - 1) / kWhole);
}

// Bits lo..hi-1; 64-bit so that 32 ways shift safely.
std::uint32_t bits_between(int lo, int hi) {
  return static_cast<std::uint32_t>((std::uint64_t{1} << hi) - (std::uint64_t{1} << lo));
}

std::string hex(std::uint32_t value) {
  std::string text(8, '\0');
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value, 16).ptr;
  text.resize(static_cast<std::size_t>(end - text.data()));
  return text;
}

bool all_low_bits(std::uint32_t mask) { return mask != 0 && (mask & (mask + 1)) == 0; }

}  // namespace

Result<std::vector<std::int32_t>> parse_l3_ids(std::string_view text) {
  auto ids = CpuSet::parse(text);
  if (!ids || ids.value().empty())
    return invalid("l3 ids", text, "ids and ranges such as 0-1 or 0,8");
  return std::vector<std::int32_t>(ids.value().begin(), ids.value().end());
}

Result<std::uint32_t> parse_cbm_mask(std::string_view text) {
  std::string_view digits = text::trim(text);
  if (digits.starts_with("0x") || digits.starts_with("0X")) digits.remove_prefix(2);
  const auto mask = text::integer<std::uint32_t>(digits, 16);
  if (!mask || !all_low_bits(*mask)) {
    return invalid("cbm mask", text, "a hex number of 1 to 32 low bits, such as fff");
  }
  return *mask;
}

Result<CacheMask> cache_mask(const Limits& limits, std::int64_t start_percent,
                             std::int64_t end_percent) {
  if (!all_low_bits(limits.cbm_mask)) {
    return invalid("cbm mask", hex(limits.cbm_mask), "low bits only, such as fff");
  }
  if (start_percent < 0 || start_percent >= end_percent || end_percent > kWhole) {
    return invalid("cache range percent",
                   std::to_string(start_percent) + "-" + std::to_string(end_percent),
                   "0 <= start < end <= 100");
  }
  const int ways = std::popcount(limits.cbm_mask);
  const int least = std::max(limits.min_cbm_bits, 1);
  if (least > ways) {
    return invalid("min_cbm_bits", std::to_string(least), "at most " + std::to_string(ways));
  }
  int lo = ceil_ways(ways, start_percent);
  int hi = ceil_ways(ways, end_percent);
  const bool widened = hi - lo < least;
  if (widened) {
    hi = std::min(ways, lo + least);
    lo = hi - least;
  }
  const std::uint32_t bits = bits_between(lo, hi);
  return CacheMask{bits, widened, bits & limits.shareable_bits};
}

Result<Bandwidth> bandwidth(Vendor vendor, const Limits& limits, std::int64_t percent) {
  if (percent < 1 || percent > kWhole) {
    return invalid("mba percent", std::to_string(percent), "1 to 100");
  }
  const bool amd = vendor == Vendor::kAmd;
  if (amd && percent == kWhole) return Bandwidth{kAmdUnlimited, false};
  const std::int64_t usual = amd ? 1 : 10;
  const std::int64_t step = limits.bandwidth_gran > 0 ? limits.bandwidth_gran : usual;
  const std::int64_t least = limits.min_bandwidth > 0 ? limits.min_bandwidth : usual;
  if (amd) {
    if (limits.amd_full_scale < 1 || limits.amd_full_scale > kAmdUnlimited) {
      return invalid("amd full scale", std::to_string(limits.amd_full_scale), "1 to 2048");
    }
    const std::int64_t value = limits.amd_full_scale * percent / kWhole / step * step;
    return Bandwidth{std::max(value, least), value < least};
  }
  // A step of more than everything is everything.
  const std::int64_t stride = std::min(step, kWhole);
  const std::int64_t value = std::min((percent + stride - 1) / stride * stride, kWhole);
  return Bandwidth{std::max(value, least), value < least};
}

Result<std::optional<std::int64_t>> parse_counter(std::string_view text) {
  const auto trimmed = text::trim(text);
  if (trimmed == "Unavailable" || trimmed == "Error") return std::optional<std::int64_t>{};
  const auto value = text::integer<std::int64_t>(trimmed);
  if (!value) return invalid("monitoring counter", text, "a number, Unavailable or Error");
  return value;
}

}  // namespace koord::resctrl
