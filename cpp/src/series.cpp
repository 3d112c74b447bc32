// SPDX-License-Identifier: Apache-2.0
#include "koord/series.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

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

// The samples of `ring` from the round `begin` until before `end`.
Summary summarize_rounds(const Rounds& rounds, std::size_t begin, std::size_t end,
                         const std::vector<double>& ring, std::span<const Percentile> percentiles,
                         std::span<double> out, std::vector<double>& scratch) {
  scratch.clear();
  double sum = 0;
  std::size_t oldest = end;
  std::size_t newest = end;
  for (std::size_t i = begin; i < end; ++i) {
    const double value = ring[rounds.slot(i)];
    if (std::isnan(value)) continue;
    if (scratch.empty()) oldest = i;
    newest = i;
    scratch.push_back(value);
    sum += value;
  }
  if (scratch.empty()) {
    std::fill(out.begin(), out.end(), kMissing);
    return {0, kMissing, kMissing, 0, 0};
  }
  const double last = scratch.back();
  pick(scratch, percentiles, out);
  const std::int64_t newest_ms = rounds.time_ms(newest);
  return {static_cast<std::int64_t>(scratch.size()), sum / static_cast<double>(scratch.size()),
          newest_ms > 0 ? last : 0.0, rounds.time_ms(oldest), newest_ms};
}

// One after the last round of a window.
std::size_t end_of(const Rounds& rounds, Window window) {
  constexpr std::int64_t kForever = std::numeric_limits<std::int64_t>::max();
  return window.end_ms == kForever ? rounds.size() : rounds.lower_bound(window.end_ms + 1);
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

Rounds::Rounds(std::size_t capacity) {
  if (capacity < 1 || capacity > kMaxCapacity) {
    throw Exception(invalid("capacity", std::to_string(capacity), "1 to 16777216 samples"));
  }
  times_.resize(capacity);
}

std::size_t Rounds::lower_bound(std::int64_t time) const noexcept {
  std::size_t low = 0;
  std::size_t high = size_;
  while (low < high) {
    const std::size_t middle = (low + high) / 2;
    if (time_ms(middle) < time) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

Rounds::Opened Rounds::open(std::int64_t time) noexcept {
  std::size_t index = size_;
  if (size_ > 0 && time <= time_ms(size_ - 1)) {
    std::int64_t late = 0;
    if (__builtin_sub_overflow(time_ms(size_ - 1), time, &late) || late > kMaxLateMs) {
      return {Appended::kTooOld};
    }
    index = lower_bound(time);
    if (time_ms(index) == time) return {Appended::kDuplicate, index};
  }
  if (size_ < times_.size()) {
    ++size_;
  } else {
    if (index == 0) return {Appended::kTooOld};
    first_ = slot(1);
    --index;
  }
  shift(std::span(times_), index);
  times_[slot(index)] = time;
  return {Appended::kTaken, index};
}

void Rounds::make_room(std::span<double> ring, std::size_t index) const noexcept {
  shift(ring, index);
  ring[slot(index)] = kMissing;
}

template <class T>
void Rounds::shift(std::span<T> ring, std::size_t index) const noexcept {
  for (std::size_t i = size_ - 1; i > index; --i) ring[slot(i)] = ring[slot(i - 1)];
}

Appended Series::append(std::int64_t time_ms, double value) {
  if (!std::isfinite(value)) {
    throw Exception(invalid("value", std::to_string(value), "a finite number"));
  }
  const auto [what, index] = rounds_.open(time_ms);
  if (what != Appended::kTaken) return what;
  rounds_.make_room(values_, index);
  values_[rounds_.slot(index)] = value;
  return what;
}

Summary Series::summarize(Window window, std::span<const Percentile> percentiles,
                          std::span<double> out, std::vector<double>& scratch) const {
  return summarize_rounds(rounds_, rounds_.lower_bound(window.start_ms), end_of(rounds_, window),
                          values_, percentiles, out, scratch);
}

std::int64_t SeriesStore::add() {
  if (free_.empty()) {
    rings_.emplace_back(rounds_.capacity(), kMissing);
    return static_cast<std::int64_t>(rings_.size()) - 1;
  }
  const std::int64_t id = free_.back();
  rings_[static_cast<std::size_t>(id)].assign(rounds_.capacity(), kMissing);
  free_.pop_back();
  return id;
}

void SeriesStore::remove(std::int64_t id) {
  require_ids({&id, 1});
  free_.push_back(id);
  rings_[static_cast<std::size_t>(id)] = std::vector<double>();
}

void SeriesStore::require_ids(std::span<const std::int64_t> ids) const {
  for (const std::int64_t id : ids) {
    const auto slot = static_cast<std::size_t>(id);
    if (id < 0 || slot >= rings_.size() || rings_[slot].empty()) {
      throw Exception(not_found("series id", std::to_string(id), "an id that add() returned"));
    }
  }
}

void SeriesStore::resize(std::size_t capacity) {
  Rounds rounds(capacity);
  const std::size_t first = rounds_.size() - std::min(rounds_.size(), capacity);
  for (std::size_t i = first; i < rounds_.size(); ++i) rounds.open(rounds_.time_ms(i));
  for (std::vector<double>& ring : rings_) {
    if (ring.empty()) continue;
    std::vector<double> resized(capacity, kMissing);
    for (std::size_t i = 0; i < rounds.size(); ++i) {
      resized[rounds.slot(i)] = ring[rounds_.slot(first + i)];
    }
    ring = std::move(resized);
  }
  rounds_ = std::move(rounds);
}

std::size_t SeriesStore::append(std::int64_t time_ms, std::span<const std::int64_t> ids,
                                std::span<const double> values) {
  require_ids(ids);
  // A round without a sample would push out one that has some.
  if (std::ranges::none_of(values, [](double value) { return std::isfinite(value); })) return 0;
  const auto [what, index] = rounds_.open(time_ms);
  if (what == Appended::kTooOld) return 0;
  if (what == Appended::kTaken) {
    for (std::vector<double>& ring : rings_) {
      if (!ring.empty()) rounds_.make_room(ring, index);
    }
  }
  const std::size_t slot = rounds_.slot(index);
  std::size_t taken = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    double& place = rings_[static_cast<std::size_t>(ids[i])][slot];
    if (!std::isfinite(values[i]) || !std::isnan(place)) continue;
    place = values[i];
    ++taken;
  }
  return taken;
}

void SeriesStore::summarize(std::span<const std::int64_t> ids, Window window,
                            std::span<const Percentile> percentiles, std::span<Summary> summaries,
                            std::span<double> out) const {
  require_ids(ids);
  const std::size_t begin = rounds_.lower_bound(window.start_ms);
  const std::size_t end = end_of(rounds_, window);
  std::vector<double> scratch;
  scratch.reserve(rounds_.size());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto row = out.subspan(i * percentiles.size(), percentiles.size());
    summaries[i] = summarize_rounds(rounds_, begin, end, rings_[static_cast<std::size_t>(ids[i])],
                                    percentiles, row, scratch);
  }
}

void advance_counters(CounterReadings before, const CounterReading& now, double kept_seconds,
                      std::span<std::int64_t> amount, std::span<double> seconds) noexcept {
  for (std::size_t row = 0; row < now.values.size(); ++row) {
    amount[row] = 0;
    seconds[row] = std::numeric_limits<double>::quiet_NaN();
    if (!now.good[row]) continue;
    const double passed = now.at_seconds - before.at_seconds[row];
    std::int64_t more = 0;
    const bool fits = !__builtin_sub_overflow(now.values[row], before.values[row], &more);
    if (fits && more >= 0 && passed > 0 && passed <= kept_seconds) {
      amount[row] = more;
      seconds[row] = passed;
    }
    before.values[row] = now.values[row];
    before.at_seconds[row] = now.at_seconds;
  }
}

}  // namespace koord
