// SPDX-License-Identifier: Apache-2.0
#include "koord/histogram.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

namespace koord {
namespace {

constexpr std::size_t kMaxBuckets = 10'000;
constexpr std::int64_t kLastTimeMs = 253'402'300'799'999;
constexpr std::int64_t kMaxHalfLifeMs = 10'000'000'000'000;
// Beyond this many half-lives the reference moves, long before a weight could overflow.
constexpr std::int64_t kMaxDecayExponent = 100;
constexpr double kCheckpointWeight = 10'000;
// No more than this, so that sums and shifted references stay finite.
constexpr double kMaxWeight = 1e100;

[[noreturn]] void reject(std::string_view field, const std::string& value,
                         std::string_view expected) {
  throw Exception(invalid(field, value, expected));
}

void require_time(std::int64_t time_ms) {
  if (time_ms >= DecayingHistogram::kZeroTimeMs && time_ms <= kLastTimeMs) return;
  reject("time_ms", std::to_string(time_ms), "milliseconds of a time in the years 1 to 9999");
}

void require_weight(std::string_view field, double weight) {
  if (weight >= 0 && weight <= kMaxWeight) return;
  reject(field, std::to_string(weight), "a number from 0 to 10^100");
}

void require_sample(double value, double weight, std::int64_t time_ms) {
  if (std::isnan(value)) reject("value", "nan", "a number");
  require_weight("weight", weight);
  require_time(time_ms);
}

constexpr std::int64_t floor_divide(std::int64_t a, std::int64_t b) {
  return a / b - (a % b < 0 ? 1 : 0);
}

// a / b to the nearest integer, halves up.
constexpr std::int64_t round_divide(std::int64_t a, std::int64_t b) {
  return floor_divide(2 * a + b, 2 * b);
}

// 1/n! for the series of e^x; for |x| <= ln(2)/2 the term after the last is below 10^-20.
constexpr std::array<double, 17> kInverseFactorials = [] {
  std::array<double, 17> inverses{1.0};
  double factorial = 1;
  for (std::size_t n = 1; n < inverses.size(); ++n) {
    factorial *= static_cast<double>(n);
    inverses[n] = 1 / factorial;
  }
  return inverses;
}();

// 2^(ticks / period). Libraries differ in the last bit of exp2, which decides where a percentile's
// walk stops when sums tie, so the fraction is a fixed series; whole powers are exact.
double power_of_two(std::int64_t ticks, std::int64_t period) {
  constexpr double kLn2 = 0.6931471805599453;
  constexpr std::int64_t kLimit = 10'000;  // beyond it the result is 0 whatever the number
  const std::int64_t whole = round_divide(ticks, period);
  const double x = kLn2 * static_cast<double>(ticks - whole * period) / static_cast<double>(period);
  double series = 0;
  for (std::size_t n = kInverseFactorials.size(); n-- > 0;) {
    series = series * x + kInverseFactorials[n];
  }
  return std::ldexp(series, static_cast<int>(std::clamp(whole, -kLimit, kLimit)));
}

double floor_at_epsilon(double weight) {
  return weight < DecayingHistogram::kEpsilon ? 0.0 : weight;
}

}  // namespace

Result<ExponentialBuckets> ExponentialBuckets::make(double first, double maximum, double ratio) {
  const auto text = [](double value) { return std::to_string(value); };
  if (!(first > 0) || !std::isfinite(first)) return invalid("first", text(first), "a number > 0");
  if (!(maximum >= first) || !std::isfinite(maximum)) {
    return invalid("maximum", text(maximum), "a number >= first");
  }
  if (!(ratio > 1) || !std::isfinite(ratio)) return invalid("ratio", text(ratio), "a number > 1");
  // start(n+1) = start(n) * ratio + first needs neither powers nor logarithms.
  std::vector<double> starts{0.0};
  while (starts.back() < maximum && starts.size() < kMaxBuckets) {
    starts.push_back(starts.back() * ratio + first);
  }
  if (starts.back() < maximum) return invalid("ratio", text(ratio), "at most 10000 buckets");
  return ExponentialBuckets(std::move(starts));
}

std::size_t ExponentialBuckets::find(double value) const noexcept {
  const auto above = std::upper_bound(starts_.begin(), starts_.end(), value);
  return above == starts_.begin() ? 0 : static_cast<std::size_t>(above - starts_.begin()) - 1;
}

DecayingHistogram::DecayingHistogram(std::shared_ptr<const ExponentialBuckets> buckets,
                                     std::int64_t half_life_ms)
    : buckets_(std::move(buckets)),
      half_life_ms_(half_life_ms),
      weights_(buckets_->count()),
      min_bucket_(buckets_->count() - 1) {
  if (half_life_ms < 1 || half_life_ms > kMaxHalfLifeMs) {
    reject("half_life_ms", std::to_string(half_life_ms), "milliseconds from 1 to 10^13");
  }
}

void DecayingHistogram::add(double value, double weight, std::int64_t time_ms) {
  require_sample(value, weight, time_ms);
  const double decayed = weight * decay_factor(time_ms);
  const std::size_t bucket = buckets_->find(value);
  weights_[bucket] += decayed;
  total_weight_ += decayed;
  if (weights_[bucket] < kEpsilon) return;
  min_bucket_ = std::min(min_bucket_, bucket);
  max_bucket_ = std::max(max_bucket_, bucket);
}

void DecayingHistogram::subtract(double value, double weight, std::int64_t time_ms) {
  require_sample(value, weight, time_ms);
  const double decayed = weight * decay_factor(time_ms);
  const std::size_t bucket = buckets_->find(value);
  weights_[bucket] = floor_at_epsilon(weights_[bucket] - decayed);
  total_weight_ = floor_at_epsilon(total_weight_ - decayed);
  find_range();
}

void DecayingHistogram::merge(const DecayingHistogram& other) {
  if (half_life_ms_ != other.half_life_ms_) {
    reject("half_life_ms", std::to_string(other.half_life_ms_),
           "the half-life " + std::to_string(half_life_ms_));
  }
  if (*buckets_ != *other.buckets_) {
    reject("buckets", std::to_string(other.buckets_->count()),
           "the same buckets in both histograms");
  }
  align_with(other.reference_ms_);
  // Kept before the loop: merging a histogram into itself doubles it.
  const double scale = std::ldexp(1.0, half_lives_since_reference(other.reference_ms_));
  const double total = other.total_weight_ * scale;
  for (std::size_t i = 0; i < weights_.size(); ++i) weights_[i] += other.weights_[i] * scale;
  total_weight_ += total;
  find_range();
}

double DecayingHistogram::percentile(double p) const {
  if (!(p >= 0 && p <= 1)) reject("percentile", std::to_string(p), "a number from 0 to 1");
  if (empty()) return 0.0;
  const double threshold = p * total_weight_;
  double sum = 0;
  std::size_t bucket = min_bucket_;
  for (; bucket < max_bucket_; ++bucket) {
    sum += weights_[bucket];
    if (sum >= threshold) break;
  }
  return buckets_->starts()[std::min(bucket + 1, weights_.size() - 1)];
}

HistogramCheckpoint DecayingHistogram::save() const {
  HistogramCheckpoint checkpoint{reference_ms_, {}, total_weight_};
  if (empty()) return checkpoint;
  const double ratio = kCheckpointWeight / *std::max_element(weights_.begin(), weights_.end());
  for (std::size_t bucket = min_bucket_; bucket <= max_bucket_; ++bucket) {
    const auto weight = static_cast<std::uint32_t>(std::floor(weights_[bucket] * ratio + 0.5));
    if (weight > 0) checkpoint.weights.emplace_back(bucket, weight);
  }
  return checkpoint;
}

void DecayingHistogram::load(const HistogramCheckpoint& checkpoint) {
  require_weight("totalWeight", checkpoint.total_weight);
  require_time(checkpoint.reference_ms);
  double sum = 0;
  for (const auto& [bucket, weight] : checkpoint.weights) {
    if (bucket < 0 || bucket >= static_cast<std::int64_t>(weights_.size())) {
      reject("bucketWeights", std::to_string(bucket),
             "a bucket below " + std::to_string(weights_.size()));
    }
    sum += weight;
  }
  if (total_weight_ <= 0) {
    reference_ms_ = checkpoint.reference_ms;
  } else {
    align_with(checkpoint.reference_ms);
  }
  if (sum <= 0) return;
  const double scale = std::ldexp(1.0, half_lives_since_reference(checkpoint.reference_ms));
  const double ratio = checkpoint.total_weight / sum * scale;
  for (const auto& [bucket, weight] : checkpoint.weights) {
    weights_[static_cast<std::size_t>(bucket)] += weight * ratio;
  }
  total_weight_ += checkpoint.total_weight * scale;
  find_range();
}

double DecayingHistogram::decay_factor(std::int64_t time_ms) {
  if (time_ms > reference_ms_ + kMaxDecayExponent * half_life_ms_) shift_reference(time_ms);
  return power_of_two(time_ms - reference_ms_, half_life_ms_);
}

void DecayingHistogram::shift_reference(std::int64_t time_ms) {
  const std::int64_t since_zero = round_divide(time_ms - kZeroTimeMs, half_life_ms_);
  const std::int64_t moved = kZeroTimeMs + since_zero * half_life_ms_;
  const double scale = std::ldexp(1.0, -half_lives_since_reference(moved));
  for (double& weight : weights_) weight *= scale;
  total_weight_ *= scale;
  reference_ms_ = moved;
  find_range();
}

void DecayingHistogram::align_with(std::int64_t reference_ms) {
  if (reference_ms_ < reference_ms) shift_reference(reference_ms);
}

int DecayingHistogram::half_lives_since_reference(std::int64_t time_ms) const noexcept {
  // Beyond a few thousand the power of two is 0 whatever the number.
  constexpr std::int64_t kLimit = 10'000;
  const std::int64_t count = round_divide(time_ms - reference_ms_, half_life_ms_);
  return static_cast<int>(std::clamp(count, -kLimit, kLimit));
}

void DecayingHistogram::find_range() noexcept {
  const auto holds = [](double weight) { return weight >= kEpsilon; };
  const auto first = std::find_if(weights_.begin(), weights_.end(), holds);
  const auto last = std::find_if(weights_.rbegin(), weights_.rend(), holds);
  const bool none = first == weights_.end();
  min_bucket_ = none ? weights_.size() - 1 : static_cast<std::size_t>(first - weights_.begin());
  max_bucket_ = none ? 0 : static_cast<std::size_t>(weights_.rend() - last) - 1;
}

}  // namespace koord
