// SPDX-License-Identifier: Apache-2.0
// Time series in rings of fixed size, and what a window of one amounts to. A node agent keeps one a
// metric and pod; all aggregates of a window come from one pass over it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "koord/error.hpp"

namespace koord {

/// A share of the samples, a multiple of 0.001 in (0, 1]. Kept in single precision, because the
/// index it leads to is defined by single-precision arithmetic.
class KOORD_API Percentile {
 public:
  /// An error unless share is a multiple of 0.001 in (0, 1].
  static Result<Percentile> make(double share);
  /// Which of `count` (>= 1) ascending values it is: trunc(float(count) * share) - 1, at least 0.
  [[nodiscard]] std::size_t index(std::size_t count) const noexcept;

 private:
  explicit Percentile(float share) : share_(share) {}
  float share_;
};

/// Milliseconds since the Unix epoch; both ends belong to the window.
struct Window {
  std::int64_t start_ms = 0;
  std::int64_t end_ms = 0;
};

/// A window's samples in numbers. All but count and the times are NaN when it holds none.
struct KOORD_API Summary {
  std::int64_t count = 0;
  double avg = 0;
  double last = 0;  ///< the newest sample; 0 when that is not after the epoch
  std::int64_t oldest_ms = 0;
  std::int64_t newest_ms = 0;
};

/// What became of a sample.
enum class Appended : int {
  kTaken,
  kTooOld,     ///< more than a minute behind the newest, or older than all of a full ring
  kDuplicate,  ///< there is a sample of that time; the first one stays
};

/// When the newest rounds were, in order of time, and where in a ring the values of each lie: one
/// such list serves many rings. Not synchronised: many readers or one writer.
class KOORD_API Rounds {
 public:
  /// How late a round may come and still be put in its place.
  static constexpr std::int64_t kMaxLateMs = 60'000;

  struct Opened {
    Appended what;          ///< kDuplicate: there was such a round, which is it
    std::size_t index = 0;  ///< which it is, unless it came too late
  };

  /// Throws Exception unless capacity is in 1..2^24.
  explicit Rounds(std::size_t capacity);

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] std::size_t capacity() const noexcept { return times_.size(); }
  [[nodiscard]] std::int64_t time_ms(std::size_t index) const noexcept {
    return times_[slot(index)];
  }
  /// The place in a ring of capacity() values.
  [[nodiscard]] std::size_t slot(std::size_t index) const noexcept {
    const std::size_t place = first_ + index;
    return place < times_.size() ? place : place - times_.size();
  }
  /// The index of the first round at time_ms or later.
  [[nodiscard]] std::size_t lower_bound(std::int64_t time_ms) const noexcept;

  /// The round of that time, made if need be, for which the oldest of a full list goes. After one
  /// was made, make_room() is due for every ring.
  Opened open(std::int64_t time_ms) noexcept;
  /// Moves the values after `index`, a round that was just made, and leaves NaN there.
  void make_room(std::span<double> ring, std::size_t index) const noexcept;

 private:
  template <class T>
  void shift(std::span<T> ring, std::size_t index) const noexcept;

  std::vector<std::int64_t> times_;
  std::size_t first_ = 0;  // where the oldest round lies
  std::size_t size_ = 0;
};

/// The newest samples of one quantity, in order of time. Fixed memory: 16 bytes a sample of
/// capacity. Not synchronised: many readers or one writer.
class KOORD_API Series {
 public:
  /// Throws Exception unless capacity is in 1..2^24.
  explicit Series(std::size_t capacity) : rounds_(capacity), values_(capacity) {}

  /// A full ring drops its oldest sample. Throws Exception when value is not finite.
  Appended append(std::int64_t time_ms, double value);
  /// Writes percentiles[i] to out[i]; `scratch` keeps its memory from call to call.
  Summary summarize(Window window, std::span<const Percentile> percentiles, std::span<double> out,
                    std::vector<double>& scratch) const;

  [[nodiscard]] std::size_t size() const noexcept { return rounds_.size(); }
  [[nodiscard]] std::size_t capacity() const noexcept { return rounds_.capacity(); }

 private:
  Rounds rounds_;
  std::vector<double> values_;
};

/// Many series that are sampled together, by id, so that a round of all of them is one call and its
/// time is kept once: 8 bytes a series and round. The newest `capacity` rounds are kept, whichever
/// series had a sample in them, and what is late is so by the newest of them. An id is free to be
/// given out again once removed. Not synchronised: many readers or one writer.
class KOORD_API SeriesStore {
 public:
  /// Throws Exception unless capacity is in 1..2^24.
  explicit SeriesStore(std::size_t capacity) : rounds_(capacity) {}

  /// A new, empty series.
  std::int64_t add();
  /// Throws Exception (kNotFound) when there is no such series; so do the functions below.
  void remove(std::int64_t id);
  [[nodiscard]] std::size_t size() const noexcept { return rings_.size() - free_.size(); }
  /// Another capacity, with the newest of the rounds that there are. Throws Exception as above.
  void resize(std::size_t capacity);

  /// values[i] goes to ids[i]; one that is not finite is left out. Calls of one time add to one
  /// round. Returns how many were taken. The spans have equal lengths. Changes nothing when an id
  /// is unknown.
  std::size_t append(std::int64_t time_ms, std::span<const std::int64_t> ids,
                     std::span<const double> values);
  /// Summary i is of ids[i], and its percentiles are out[i * percentiles.size() ...].
  void summarize(std::span<const std::int64_t> ids, Window window,
                 std::span<const Percentile> percentiles, std::span<Summary> summaries,
                 std::span<double> out) const;

 private:
  void require_ids(std::span<const std::int64_t> ids) const;

  Rounds rounds_;
  std::vector<std::vector<double>> rings_;  // of each id; empty when it was removed
  std::vector<std::int64_t> free_;
};

/// Counters of many rows as they were read last, and when that was, in seconds; minus infinity for
/// a row that was never read.
struct KOORD_API CounterReadings {
  std::span<std::int64_t> values;
  std::span<double> at_seconds;
};

/// One more reading of counters, in the order of their rows.
struct KOORD_API CounterReading {
  std::span<const std::int64_t> values;
  std::span<const bool> good;  ///< rows that could be read; the others keep what they had
  double at_seconds = 0;
};

/// Takes a reading in: `amount` and `seconds` say of each row what happened since the one before. 0
/// and NaN where there is no telling: the row was not read now or before, its counter went back, or
/// the reading before is not older, or older than kept_seconds. All spans have equal lengths.
KOORD_API void advance_counters(CounterReadings before, const CounterReading& now,
                                double kept_seconds, std::span<std::int64_t> amount,
                                std::span<double> seconds) noexcept;

}  // namespace koord
