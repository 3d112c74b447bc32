// SPDX-License-Identifier: Apache-2.0
#include "koord/series.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

namespace koord {
namespace {

constexpr std::size_t kMaxCapacity = std::size_t{1} << 24U;
constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();

// Moves what `below` holds for to the front, without a branch on the values: on samples in no order
// a mispredicted branch costs more than the two stores.
template <class Below>
double* partition(double* begin, double* end, Below below) {
  double* edge = begin;
  for (double* place = begin; place != end; ++place) {
    const double value = *place;
    *place = *edge;
    *edge = value;
    edge += below(value) ? 1 : 0;
  }
  return edge;
}

double median(double a, double b, double c) {
  return std::max(std::min(a, b), std::min(std::max(a, b), c));
}

// As std::nth_element, which also ends what bad pivots would draw out.
void select(double* begin, double* nth, double* end) {
  constexpr std::ptrdiff_t kSmall = 16;
  constexpr int kRounds = 40;
  for (int round = 0; round < kRounds && end - begin > kSmall; ++round) {
    const double pivot = median(*begin, begin[(end - begin) / 2], end[-1]);
    double* equal = partition(begin, end, [pivot](double value) { return value < pivot; });
    if (nth < equal) {
      end = equal;
      continue;
    }
    double* above = partition(equal, end, [pivot](double value) { return value <= pivot; });
    if (nth < above) return;
    begin = above;
  }
  std::nth_element(begin, nth, end);
}

// Picks the percentiles out of `values`, which it reorders. Each one narrows the part in which the
// next larger one is searched, which beats sorting everything.
void pick(std::vector<double>& values, std::span<const Percentile> percentiles,
          std::span<double> out) {
  std::size_t settled = 0;  // everything before this index is in its place
  std::size_t previous = 0;
  for (std::size_t i = 0; i < percentiles.size(); ++i) {
    const std::size_t index = percentiles[i].index(values.size());
    if (index < previous) settled = 0;
    if (index >= settled) {
      double* data = values.data();
      select(data + settled, data + index, data + values.size());
      settled = index + 1;
    }
    previous = index;
    out[i] = values[index];
  }
}

}  // namespace

Result<Percentile> Percentile::make(double share) {
  constexpr double kTolerance = 1e-9;
  const double thousandths = std::round(share * 1000);
  if (!(thousandths >= 1 && thousandths <= 1000) ||
      std::abs(share * 1000 - thousandths) > kTolerance) {
    return invalid("percentile", std::to_string(share), "a multiple of 0.001 above 0, at most 1");
  }
  return Percentile(static_cast<float>(thousandths) / 1000.0F);
}

std::size_t Percentile::index(std::size_t count) const noexcept {
  const auto rank = static_cast<std::size_t>(static_cast<float>(count) * share_);
  // Single precision rounds counts above 2^24 up, so the rank could exceed the count.
  return std::min(std::max<std::size_t>(rank, 1), count) - 1;
}

Series::Series(std::size_t capacity) {
  if (capacity < 1 || capacity > kMaxCapacity) {
    throw Exception(invalid("capacity", std::to_string(capacity), "1 to 16777216 samples"));
  }
  samples_.resize(capacity);
}

std::size_t Series::lower_bound(std::int64_t time_ms) const noexcept {
  std::size_t low = 0;
  std::size_t high = size_;
  while (low < high) {
    const std::size_t middle = (low + high) / 2;
    if (at(middle).time_ms < time_ms) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

Appended Series::append(std::int64_t time_ms, double value) {
  if (!std::isfinite(value)) {
    throw Exception(invalid("value", std::to_string(value), "a finite number"));
  }
  std::size_t place = size_;
  if (size_ > 0 && time_ms <= at(size_ - 1).time_ms) {
    const std::int64_t newest = at(size_ - 1).time_ms;
    std::int64_t late = 0;
    if (__builtin_sub_overflow(newest, time_ms, &late) || late > kMaxLateMs) {
      return Appended::kTooOld;
    }
    place = lower_bound(time_ms);
    if (at(place).time_ms == time_ms) return Appended::kDuplicate;
  }
  if (size_ == samples_.size()) {
    if (place == 0) return Appended::kTooOld;
    first_ = wrap(1);
    --size_;
    --place;
  }
  ++size_;
  for (std::size_t i = size_ - 1; i > place; --i) at(i) = at(i - 1);
  at(place) = {time_ms, value};
  return Appended::kTaken;
}

Summary Series::summarize(Window window, std::span<const Percentile> percentiles,
                          std::span<double> out, std::vector<double>& scratch) const {
  const std::size_t begin = lower_bound(window.start_ms);
  std::size_t end = begin;
  scratch.clear();
  double sum = 0;
  for (; end < size_ && at(end).time_ms <= window.end_ms; ++end) {
    scratch.push_back(at(end).value);
    sum += at(end).value;
  }
  if (begin == end) {
    std::fill(out.begin(), out.end(), kMissing);
    return {0, kMissing, kMissing, 0, 0};
  }
  pick(scratch, percentiles, out);
  const Sample& newest = at(end - 1);
  return {static_cast<std::int64_t>(end - begin), sum / static_cast<double>(end - begin),
          newest.time_ms > 0 ? newest.value : 0.0, at(begin).time_ms, newest.time_ms};
}

SeriesStore::SeriesStore(std::size_t capacity) : capacity_(Series(capacity).capacity()) {}

std::int64_t SeriesStore::add() {
  if (free_.empty()) {
    series_.emplace_back(capacity_);
    used_.push_back(true);
    return static_cast<std::int64_t>(series_.size()) - 1;
  }
  const std::int64_t id = free_.back();
  free_.pop_back();
  used_[static_cast<std::size_t>(id)] = true;
  return id;
}

void SeriesStore::remove(std::int64_t id) {
  require_ids({&id, 1});
  const auto slot = static_cast<std::size_t>(id);
  series_[slot].clear();
  used_[slot] = false;
  free_.push_back(id);
}

void SeriesStore::require_ids(std::span<const std::int64_t> ids) const {
  for (const std::int64_t id : ids) {
    const auto slot = static_cast<std::size_t>(id);
    if (id < 0 || slot >= series_.size() || !used_[slot]) {
      throw Exception(not_found("series id", std::to_string(id), "an id that add() returned"));
    }
  }
}

std::size_t SeriesStore::append(std::int64_t time_ms, std::span<const std::int64_t> ids,
                                std::span<const double> values) {
  require_ids(ids);
  std::size_t taken = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (!std::isfinite(values[i])) continue;
    const auto slot = static_cast<std::size_t>(ids[i]);
    taken += series_[slot].append(time_ms, values[i]) == Appended::kTaken ? 1 : 0;
  }
  return taken;
}

void SeriesStore::summarize(std::span<const std::int64_t> ids, Window window,
                            std::span<const Percentile> percentiles, std::span<Summary> summaries,
                            std::span<double> out) const {
  require_ids(ids);
  std::vector<double> scratch;
  scratch.reserve(capacity_);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto row = out.subspan(i * percentiles.size(), percentiles.size());
    summaries[i] =
        series_[static_cast<std::size_t>(ids[i])].summarize(window, percentiles, row, scratch);
  }
}

}  // namespace koord
