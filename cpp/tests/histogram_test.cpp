// SPDX-License-Identifier: Apache-2.0
#include "koord/histogram.hpp"

#include <cmath>
#include <limits>

#include "check.hpp"

using koord::DecayingHistogram;
using koord::ExponentialBuckets;

namespace {

constexpr std::int64_t kHourMs = 3'600'000;
constexpr std::int64_t kHalfLifeMs = 12 * kHourMs;
constexpr std::int64_t kNowMs = 1'760'000'000'000;

std::shared_ptr<const ExponentialBuckets> cpu_buckets() {
  static const auto buckets = std::make_shared<const ExponentialBuckets>(
      ExponentialBuckets::make(0.025, 1024, 1.05).value());
  return buckets;
}

DecayingHistogram cpu() { return {cpu_buckets(), kHalfLifeMs}; }

bool near(double a, double b) { return std::abs(a - b) <= 1e-12 * std::abs(b); }

}  // namespace

TEST("histogram/the buckets of CPU and memory") {
  CHECK_EQ(cpu_buckets()->count(), 158U);
  CHECK_EQ(ExponentialBuckets::make(5 * 1048576.0, 2199023255552.0, 1.05).value().count(), 205U);
  CHECK(near(cpu_buckets()->starts()[4], 0.025 * (std::pow(1.05, 4) - 1) / 0.05));
}

TEST("histogram/a start belongs to the bucket it opens") {
  const auto& buckets = *cpu_buckets();
  for (std::size_t i = 0; i < buckets.count(); ++i) {
    const double start = buckets.starts()[i];
    CHECK_EQ(buckets.find(start), i);
    CHECK_EQ(buckets.find(std::nextafter(start, -1.0)), i == 0 ? 0 : i - 1);
  }
  CHECK_EQ(buckets.find(-5), 0U);
  CHECK_EQ(buckets.find(1e300), 157U);
}

TEST("histogram/one sample of 0.1 cores reads as the end of its bucket") {
  auto histogram = cpu();
  CHECK(histogram.empty());
  CHECK_EQ(histogram.percentile(0.5), 0.0);
  histogram.add(0.1, 1, kNowMs);
  CHECK(near(histogram.percentile(0.95), 0.107753125));
}

TEST("histogram/the reference is a multiple of the half-life and weights decay by halves") {
  auto histogram = cpu();
  histogram.add(1, 1, kNowMs);
  CHECK_EQ((histogram.reference_ms() - DecayingHistogram::kZeroTimeMs) % kHalfLifeMs, 0);
  CHECK(std::abs(histogram.reference_ms() - kNowMs) * 2 <= kHalfLifeMs);
  const double before = histogram.total_weight();
  histogram.add(1, 1, kNowMs + kHalfLifeMs);
  CHECK(near(histogram.total_weight(), 3 * before));
  histogram.add(1, 1, kNowMs + 200 * kHalfLifeMs);
  CHECK(near(histogram.total_weight(), before));
}

TEST("histogram/subtracting what was added leaves nothing") {
  auto histogram = cpu();
  histogram.add(3, 2, kNowMs);
  histogram.subtract(3, 2, kNowMs);
  CHECK(histogram.empty());
  CHECK_EQ(histogram.total_weight(), 0.0);
}

TEST("histogram/merge aligns references and can double itself") {
  auto older = cpu();
  older.add(1, 1, kNowMs);
  auto newer = cpu();
  newer.add(8, 1, kNowMs + 300 * kHalfLifeMs);
  auto both = older;
  both.merge(newer);
  CHECK_EQ(both.reference_ms(), newer.reference_ms());
  CHECK(near(both.percentile(1), newer.percentile(1)));
  older.merge(older);
  CHECK_EQ(older.weights()[cpu_buckets()->find(1)], older.total_weight());
  DecayingHistogram other(cpu_buckets(), kHourMs);
  CHECK_THROWS(both.merge(other), koord::Exception);
}

TEST("histogram/a checkpoint brings the percentiles back") {
  auto histogram = cpu();
  for (int i = 1; i <= 100; ++i) histogram.add(0.1 * i, 1, kNowMs + i * kHourMs);
  auto loaded = cpu();
  loaded.load(histogram.save());
  for (const double p : {0.5, 0.9, 0.99, 1.0})
    CHECK_EQ(loaded.percentile(p), histogram.percentile(p));
  CHECK_EQ(loaded.reference_ms(), histogram.reference_ms());
  CHECK(cpu().save().weights.empty());
}

TEST("histogram/a bad checkpoint changes nothing") {
  auto histogram = cpu();
  CHECK_THROWS(histogram.load({kNowMs, {{158, 1}}, 1}), koord::Exception);
  CHECK_THROWS(histogram.load({kNowMs, {{-1, 1}}, 1}), koord::Exception);
  CHECK_THROWS(histogram.load({kNowMs, {{0, 1}}, -1}), koord::Exception);
  CHECK_THROWS(histogram.load({kNowMs, {{0, 1}}, std::nan("")}), koord::Exception);
  CHECK(histogram.empty());
  CHECK_EQ(histogram.reference_ms(), DecayingHistogram::kZeroTimeMs);
}

TEST("histogram/bad samples and options throw") {
  auto histogram = cpu();
  CHECK_THROWS(histogram.add(std::nan(""), 1, kNowMs), koord::Exception);
  CHECK_THROWS(histogram.add(1, -1, kNowMs), koord::Exception);
  CHECK_THROWS(histogram.add(1, 1, std::numeric_limits<std::int64_t>::max()), koord::Exception);
  CHECK_THROWS(histogram.percentile(1.5), koord::Exception);
  CHECK_THROWS(DecayingHistogram(cpu_buckets(), 0), koord::Exception);
  CHECK(!ExponentialBuckets::make(0, 1, 1.05).ok());
  CHECK(!ExponentialBuckets::make(1, 0.5, 1.05).ok());
  CHECK(!ExponentialBuckets::make(1, 10, 1).ok());
  CHECK(!ExponentialBuckets::make(1e-300, 1e300, 1.0001).ok());
}

TEST("histogram/a weight that would make sums infinite is refused") {
  DecayingHistogram histogram = cpu();
  histogram.add(0.1, 1, kNowMs);
  // 2^20 heavier at a time 20 half-lives on.
  CHECK_THROWS(histogram.add(1, 1e305, kNowMs + 20 * kHalfLifeMs), koord::Exception);
  CHECK_THROWS(histogram.load({.reference_ms = kNowMs, .weights = {{3, 1}}, .total_weight = 1e305}),
               koord::Exception);
  histogram.add(1, 1e100, kNowMs + 20 * kHalfLifeMs);
  CHECK(std::isfinite(histogram.total_weight()));
}
