// SPDX-License-Identifier: Apache-2.0
#include "placement_score.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "vector_clones.hpp"

namespace koord::placement {
namespace {

// Amounts below 2^46: 100 times one, and any difference of two, is an integer that a double holds.
// Of integers below 2^53 the truncated quotient of doubles is that of the integers: for a = q b + r
// the exact quotient lacks at least 1 / b of q + 1, more than half of the distance of doubles
// there.
constexpr unsigned kExactBits = 46;

std::uint64_t bits_of(std::int64_t amount) { return static_cast<std::uint64_t>(amount); }

// Below 2^46 where the amount is within 2^45 either way.
std::uint64_t shifted(std::int64_t amount) {
  return bits_of(amount) + (std::uint64_t{1} << (kExactBits - 1));
}

// A conversion that is an addition, as SSE and AVX2 have none of 64-bit integers. Exact within
// 2^51.
double as_double(std::int64_t amount) {
  return std::bit_cast<double>(bits_of(amount) + 0x4338000000000000U) - 0x1.8p52;
}

// 0 to 100, truncated.
double truncated(double score) { return static_cast<double>(static_cast<std::int32_t>(score)); }

// The same as below where each row has something of each resource, so that weights add up to one
// number: the sum and a half is no multiple of it, so that its reciprocal serves.
[[gnu::always_inline]] inline void weighted_all(std::span<const Reading> resources, bool left,
                                                std::size_t first, std::span<std::int64_t> scores) {
  const std::size_t count = scores.size();
  std::array<double, kPart> sums = {};
  const double sign = left ? -1.0 : 1.0;
  double weights = 0;
  for (const Reading& each : resources) {
    const auto weight = static_cast<double>(each.weight);
    weights += weight;
    for (std::size_t i = 0; i < count; ++i) {
      const double has = as_double(each.has[first + i]);
      const double with = as_double(each.used[first + i] + each.request);
      const double amount = std::max(0.0, std::min((left ? has : 0.0) + sign * with, has));
      sums[i] += weight * truncated(amount * 100.0 / has);
    }
  }
  const double factor = 1.0 / std::max(weights, 1.0);
  for (std::size_t i = 0; i < count; ++i) {
    scores[i] = static_cast<std::int32_t>((sums[i] + 0.5) * factor);
  }
}

}  // namespace

KOORD_VECTOR_CLONES void join_left(const Reading& each, std::size_t first,
                                   std::span<std::int64_t> left) {
  for (std::size_t i = 0; i < left.size(); ++i) left[i] |= each.left(first + i);
}

KOORD_VECTOR_CLONES bool weighted_part(std::span<const Reading> resources, bool left,
                                       std::size_t first, std::span<std::int64_t> scores) {
  const std::size_t count = scores.size();
  std::uint64_t wide = 0;
  std::int64_t lacking = 0;  // below 0 where a row has nothing of a resource
  for (const Reading& each : resources) {
    for (std::size_t row = first; row < first + count; ++row) {
      wide |= shifted(each.has[row]) | shifted(each.with_pod(row));
      lacking |= each.has[row] - 1;
    }
  }
  if (wide >> kExactBits != 0) return false;
  if (lacking >= 0) {
    weighted_all(resources, left, first, scores);
    return true;
  }
  std::array<double, kPart> sums = {};
  std::array<double, kPart> weights = {};
  // What is left is has - with, what is used 0 + with.
  const double sign = left ? -1.0 : 1.0;
  for (const Reading& each : resources) {
    const auto weight = static_cast<double>(each.weight);
    for (std::size_t i = 0; i < count; ++i) {
      const double has = as_double(each.has[first + i]);
      const double with = as_double(each.used[first + i] + each.request);
      const double amount = std::max(0.0, std::min((left ? has : 0.0) + sign * with, has));
      sums[i] += weight * truncated(amount * 100.0 / std::max(has, 1.0));
      weights[i] += has > 0.0 ? weight : 0.0;
    }
  }
  for (std::size_t i = 0; i < count; ++i) {
    scores[i] = static_cast<std::int32_t>(sums[i] / std::max(weights[i], 1.0));
  }
  return true;
}

KOORD_VECTOR_CLONES bool left_part(std::span<const Reading> resources, const LeastShare& least,
                                   std::size_t first, std::span<std::int64_t> scores) {
  const std::size_t count = scores.size();
  std::uint64_t wide = 0;
  for (const Reading& each : resources) {
    for (std::size_t row = first; row < first + count; ++row) {
      wide |= shifted(each.has[row]) | shifted(each.with_pod(row));
    }
  }
  if (wide >> kExactBits != 0) return false;
  std::array<double, kPart> sums = {};
  std::array<double, kPart> lowest;
  lowest.fill(100.0);
  for (const Reading& each : resources) {
    const auto weight = static_cast<double>(each.weight);
    for (std::size_t i = 0; i < count; ++i) {
      const double has = as_double(each.has[first + i]);
      const double left = std::max(0.0, has - as_double(each.used[first + i] + each.request));
      const double share = truncated(left * 100.0 / std::max(has, 1.0));
      sums[i] += weight * share;
      lowest[i] = std::min(lowest[i], share);
    }
  }
  const auto weight = static_cast<double>(least.weight);
  const auto weights = static_cast<double>(least.weights);
  for (std::size_t i = 0; i < count; ++i) {
    scores[i] = static_cast<std::int32_t>((sums[i] + weight * lowest[i]) / weights);
  }
  return true;
}

KOORD_VECTOR_CLONES bool balanced_part(const Reading& one, const Reading& other, std::size_t first,
                                       std::span<std::int64_t> scores) {
  const std::size_t count = scores.size();
  // Nothing below 0 either: fractions are within 0 and 1.
  std::uint64_t wide = 0;
  for (std::size_t row = first; row < first + count; ++row) {
    wide |= bits_of(one.has[row]) | bits_of(one.with_pod(row)) | bits_of(other.has[row]) |
            bits_of(other.with_pod(row));
  }
  if (wide >> kExactBits != 0) return false;
  for (std::size_t i = 0; i < count; ++i) {
    const double has = as_double(one.has[first + i]);
    const double others = as_double(other.has[first + i]);
    const double used = as_double(one.used[first + i] + one.request);
    const double others_used = as_double(other.used[first + i] + other.request);
    const double fraction = std::min(1.0, used / std::max(has, 1.0));
    const double others_fraction = std::min(1.0, others_used / std::max(others, 1.0));
    const double deviation =
        std::min(has, others) > 0.0 ? std::abs(fraction - others_fraction) / 2 : 0.0;
    scores[i] = static_cast<std::int32_t>((1 - deviation) * 100);
  }
  return true;
}

// Doubles round what is not less to what is not less, so that a quotient of ends bounds quotients.
KOORD_VECTOR_CLONES void bound_balanced_part(const Range& one, const Range& other,
                                             std::size_t first, std::span<std::int64_t> scores) {
  const auto low = [](const Range& range, std::size_t row) {
    return std::min(1.0, static_cast<double>(range.most.with_pod(row)) /
                             std::max(1.0, static_cast<double>(range.most.has[row])));
  };
  const auto high = [](const Range& range, std::size_t row) {
    return std::min(1.0, static_cast<double>(range.least.with_pod(row)) /
                             std::max(1.0, static_cast<double>(range.least.has[row])));
  };
  for (std::size_t i = 0; i < scores.size(); ++i) {
    const std::size_t row = first + i;
    const double apart =
        std::max(low(one, row) - high(other, row), low(other, row) - high(one, row));
    const bool known = std::min(one.least.has[row], other.least.has[row]) > 0 &&
                       std::min(one.most.with_pod(row), other.most.with_pod(row)) >= 0;
    const double deviation = known ? std::max(0.0, apart) / 2 : 0.0;
    scores[i] = static_cast<std::int32_t>((1 - deviation) * 100);
  }
}

KOORD_VECTOR_CLONES Ends ends_of(std::span<const std::int64_t> values, const std::uint8_t* allowed,
                                 bool negative_too) {
  Ends ends;
  const std::int64_t from = negative_too ? std::numeric_limits<std::int64_t>::min() : 0;
  // By masks: compilers make no vectors of a branch that saves a read.
  for (std::size_t i = 0; i < values.size(); ++i) {
    const bool counts = (allowed[i] != 0) & (values[i] >= from);
    const std::int64_t low = counts ? values[i] : std::numeric_limits<std::int64_t>::max();
    const std::int64_t high = counts ? values[i] : std::numeric_limits<std::int64_t>::min();
    ends.least = low < ends.least ? low : ends.least;
    ends.most = high > ends.most ? high : ends.most;
  }
  return ends;
}

KOORD_VECTOR_CLONES void allow_where(std::span<const std::uint8_t> mask, std::uint8_t* allowed) {
  for (std::size_t i = 0; i < mask.size(); ++i) {
    allowed[i] = static_cast<std::uint8_t>(allowed[i] & static_cast<std::uint8_t>(mask[i] != 0));
  }
}

KOORD_VECTOR_CLONES void allow_where(std::span<const std::int64_t> left, std::uint8_t* allowed) {
  for (std::size_t i = 0; i < left.size(); ++i) {
    allowed[i] = static_cast<std::uint8_t>(allowed[i] & static_cast<std::uint8_t>(left[i] >= 0));
  }
}

KOORD_VECTOR_CLONES bool all_within(std::span<const std::int64_t> values, std::int64_t most) {
  // Whatever is not surely within has some higher bit.
  std::uint64_t bits = 0;
  for (const std::int64_t each : values) bits |= bits_of(each) + bits_of(most);
  return bits < 2 * bits_of(most);
}

}  // namespace koord::placement
