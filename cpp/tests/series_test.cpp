// SPDX-License-Identifier: Apache-2.0
#include "koord/series.hpp"

#include <array>
#include <cmath>
#include <limits>

#include "check.hpp"

using koord::Appended;
using koord::Percentile;
using koord::Series;
using koord::SeriesStore;
using koord::Summary;
using koord::Window;

namespace {

constexpr Window kAlways{std::numeric_limits<std::int64_t>::min(),
                         std::numeric_limits<std::int64_t>::max()};

Summary summary(const Series& series, Window window = kAlways) {
  std::vector<double> scratch;
  return series.summarize(window, {}, {}, scratch);
}

double percentile(const Series& series, double share) {
  std::vector<double> scratch;
  std::array<double, 1> out{};
  const std::array<Percentile, 1> shares{Percentile::make(share).value()};
  (void)series.summarize(kAlways, shares, out, scratch);
  return out[0];
}

}  // namespace

TEST("series/worked examples") {
  Series usage(16);
  usage.append(1000, 0.5);
  usage.append(2000, 1.5);
  CHECK_EQ(summary(usage).avg, 1.0);
  Series ten(10);
  for (int i = 10; i >= 1; --i) ten.append(1000 + i, i);
  CHECK_EQ(percentile(ten, 0.9), 9.0);
  CHECK_EQ(percentile(ten, 0.001), 1.0);
  CHECK_EQ(percentile(ten, 1.0), 10.0);
}

TEST("series/late samples find their place, later ones are refused") {
  Series series(8);
  CHECK(series.append(100'000, 1) == Appended::kTaken);
  CHECK(series.append(40'000, 2) == Appended::kTaken);
  CHECK(series.append(39'999, 3) == Appended::kTooOld);
  CHECK(series.append(70'000, 4) == Appended::kTaken);
  CHECK(series.append(70'000, 5) == Appended::kDuplicate);
  CHECK_EQ(summary(series).last, 1.0);
  CHECK_EQ(summary(series, {0, 70'000}).last, 4.0);
  CHECK_EQ(summary(series, {40'000, 70'000}).count, 2);
  CHECK(series.append(std::numeric_limits<std::int64_t>::min(), 1) == Appended::kTooOld);
}

TEST("series/a full ring drops the oldest") {
  Series series(3);
  for (int i = 1; i <= 5; ++i) series.append(i, i);
  CHECK_EQ(series.size(), 3U);
  CHECK_EQ(summary(series).oldest_ms, 3);
  CHECK(series.append(2, 9) == Appended::kTooOld);
  series.append(10, 10);
  CHECK(series.append(7, 7) == Appended::kTaken);
  CHECK_EQ(summary(series).oldest_ms, 5);
  CHECK_EQ(summary(series).avg, 22.0 / 3);
}

TEST("series/an empty window") {
  const Summary none = summary(Series(4));
  CHECK_EQ(none.count, 0);
  CHECK(std::isnan(none.avg) && std::isnan(none.last));
  CHECK(std::isnan(percentile(Series(4), 0.5)));
}

TEST("series/bad input throws") {
  Series series(2);
  CHECK_THROWS(series.append(1, std::nan("")), koord::Exception);
  CHECK_THROWS(Series(0), koord::Exception);
  for (const double share : {0.0, -0.5, 1.001, 0.0005, 0.12345, std::nan("")}) {
    CHECK(!Percentile::make(share).ok());
  }
  for (int i = 1; i <= 1000; ++i) CHECK(Percentile::make(i / 1000.0).ok());
}

TEST("series/percentiles in any order") {
  Series series(100);
  for (int i = 0; i < 100; ++i) series.append(i, (i * 37) % 100 + 1);
  std::vector<double> scratch;
  std::array<double, 5> out{};
  std::vector<Percentile> shares;
  for (const double share : {0.99, 0.5, 0.95, 0.95, 0.01}) {
    shares.push_back(Percentile::make(share).value());
  }
  (void)series.summarize(kAlways, shares, out, scratch);
  CHECK(out == (std::array<double, 5>{99, 50, 95, 95, 1}));
}

TEST("series/a store reuses removed ids and knows its own") {
  SeriesStore store(4);
  const std::array<std::int64_t, 2> ids{store.add(), store.add()};
  CHECK_EQ(store.append(1000, ids, std::array<double, 2>{1.0, std::nan("")}), 1U);
  std::array<Summary, 2> summaries;
  store.summarize(ids, kAlways, {}, summaries, {});
  CHECK_EQ(summaries[0].last, 1.0);
  CHECK_EQ(summaries[1].count, 0);
  store.remove(ids[0]);
  CHECK_EQ(store.size(), 1U);
  CHECK_THROWS(store.remove(ids[0]), koord::Exception);
  CHECK_THROWS(store.append(2000, ids, std::array<double, 2>{1, 1}), koord::Exception);
  CHECK_EQ(store.add(), ids[0]);
  store.summarize(ids, kAlways, {}, summaries, {});
  CHECK_EQ(summaries[0].count, 0);
}

TEST("series/a store keeps rounds, in which a series may have no sample") {
  SeriesStore store(3);
  const std::array<std::int64_t, 2> ids{store.add(), store.add()};
  const double none = std::nan("");
  std::array<Summary, 2> found;
  const auto append = [&](std::int64_t time_ms, double first, double second) {
    return store.append(time_ms, ids, std::array<double, 2>{first, second});
  };
  CHECK_EQ(append(1000, 1, none), 1U);
  CHECK_EQ(append(1000, 9, 2), 1U);
  CHECK_EQ(append(3000, 3, none), 1U);
  CHECK_EQ(append(2000, none, 4), 1U);
  CHECK_EQ(append(9000, none, none), 0U);
  store.summarize(ids, kAlways, {}, found, {});
  CHECK_EQ(found[0].avg, 2.0);
  CHECK_EQ(found[1].avg, 3.0);
  CHECK_EQ(found[1].newest_ms, 2000);
  append(4000, none, 5);
  store.summarize(ids, kAlways, {}, found, {});
  CHECK_EQ(found[0].oldest_ms, 3000);
  CHECK_EQ(found[1].oldest_ms, 2000);
  store.summarize(ids, {2000, 3000}, {}, found, {});
  CHECK_EQ(found[1].count, 1);
}

TEST("series/a resized store keeps the newest rounds") {
  SeriesStore store(3);
  const std::array<std::int64_t, 1> ids{store.add()};
  std::array<Summary, 1> found;
  const auto append = [&](std::int64_t time_ms) {
    store.append(time_ms, ids, std::array<double, 1>{static_cast<double>(time_ms)});
  };
  for (int i = 1; i <= 4; ++i) append(i);
  store.resize(4);
  append(5);
  store.summarize(ids, kAlways, {}, found, {});
  CHECK_EQ(found[0].oldest_ms, 2);
  CHECK_EQ(found[0].avg, 3.5);
  store.resize(2);
  store.summarize(ids, kAlways, {}, found, {});
  CHECK_EQ(found[0].oldest_ms, 4);
  CHECK_EQ(found[0].count, 2);
  CHECK_THROWS(store.resize(0), koord::Exception);
}
