// SPDX-License-Identifier: Apache-2.0
// Decaying histograms with exponential buckets: what a workload used over weeks, in a fixed and
// small piece of memory, newer samples counting more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "koord/error.hpp"

namespace koord {

/// Buckets that grow by a ratio: bucket n holds the values from start(n) up to start(n+1), where
/// start(0) = 0 and start(n) = first * (ratio^n - 1) / (ratio - 1). The last one has no upper end.
class KOORD_API ExponentialBuckets {
 public:
  /// As many buckets as it takes for the last to start at `maximum` or above. An error unless
  /// first > 0, maximum >= first, ratio > 1 and that takes at most 10,000 buckets.
  static Result<ExponentialBuckets> make(double first, double maximum, double ratio);

  [[nodiscard]] std::size_t count() const noexcept { return starts_.size(); }
  [[nodiscard]] std::span<const double> starts() const& noexcept { return starts_; }
  std::span<const double> starts() && = delete;
  /// The bucket of a value; what lies below 0 is in bucket 0. A value equal to a start belongs to
  /// the bucket that starts there. Compares with the starts instead of taking a logarithm, so that
  /// the answer does not hang on the last bit of a mathematical library.
  [[nodiscard]] std::size_t find(double value) const noexcept;

  friend bool operator==(const ExponentialBuckets&, const ExponentialBuckets&) = default;

 private:
  explicit ExponentialBuckets(std::vector<double> starts) : starts_(std::move(starts)) {}
  std::vector<double> starts_;
};

/// What a histogram is saved as. Weights are relative to the heaviest bucket's, which is 10,000.
struct HistogramCheckpoint {
  std::int64_t reference_ms = 0;
  std::vector<std::pair<std::int64_t, std::uint32_t>> weights;  ///< bucket and weight, ascending
  double total_weight = 0;
};

/// Times are milliseconds since the Unix epoch, in the years 1 to 9999. A sample at time t weighs
/// 2^((t - reference) / half_life) times its own weight; the reference moves along, always by whole
/// half-lives. Not synchronised: many readers or one writer.
class KOORD_API DecayingHistogram {
 public:
  /// The zero time of the wire format, midnight of 1 January of the year 1.
  static constexpr std::int64_t kZeroTimeMs = -62'135'596'800'000;
  /// A bucket that weighs less counts as empty.
  static constexpr double kEpsilon = 0.0001;

  /// Empty. The buckets are shared, since thousands of histograms have the same. Throws Exception
  /// unless half_life_ms is in 1..10^13.
  DecayingHistogram(std::shared_ptr<const ExponentialBuckets> buckets, std::int64_t half_life_ms);

  /// Throws Exception when value is not a number, weight is not in 0..10^100, or the time
  /// lies outside the years 1 to 9999; so does subtract().
  void add(double value, double weight, std::int64_t time_ms);
  /// Takes a sample back; what falls below kEpsilon becomes 0.
  void subtract(double value, double weight, std::int64_t time_ms);
  /// Adds the other's samples. Throws Exception when buckets or half-lives differ.
  void merge(const DecayingHistogram& other);

  /// The end of the bucket in which the share p of the total weight is reached (the start of the
  /// last bucket, which has no end); 0 when empty. Throws Exception when p is outside 0..1.
  [[nodiscard]] double percentile(double p) const;
  [[nodiscard]] bool empty() const noexcept { return weights_[min_bucket_] < kEpsilon; }
  [[nodiscard]] double total_weight() const noexcept { return total_weight_; }
  [[nodiscard]] std::int64_t reference_ms() const noexcept { return reference_ms_; }
  [[nodiscard]] std::span<const double> weights() const& noexcept { return weights_; }
  std::span<const double> weights() && = delete;

  [[nodiscard]] HistogramCheckpoint save() const;
  /// Adds a checkpoint's content. Throws Exception, and changes nothing, when the total is not in
  /// 0..10^100, a bucket does not exist, or the time is out of range.
  void load(const HistogramCheckpoint& checkpoint);

 private:
  [[nodiscard]] double decay_factor(std::int64_t time_ms);
  void shift_reference(std::int64_t time_ms);
  void align_with(std::int64_t reference_ms);
  [[nodiscard]] int half_lives_since_reference(std::int64_t time_ms) const noexcept;
  void find_range() noexcept;

  std::shared_ptr<const ExponentialBuckets> buckets_;
  std::int64_t half_life_ms_;
  std::int64_t reference_ms_ = kZeroTimeMs;
  std::vector<double> weights_;
  double total_weight_ = 0;
  // The first and last bucket that is not empty; the last and the first of all when there is none.
  std::size_t min_bucket_;
  std::size_t max_bucket_ = 0;
};

}  // namespace koord
