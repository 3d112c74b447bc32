// SPDX-License-Identifier: Apache-2.0
// RowBounds limits blocks by load, which it keeps by place.
#include <algorithm>

#include "koord/placement_bounds.hpp"
#include "placement_normal.hpp"
#include "placement_score.hpp"

namespace koord::placement {
namespace {

// A table has few profiles, each with a key for Prod pods and one for others.
constexpr std::size_t kMostKeys = 16;

}  // namespace

// The same answers with masks in the place of checks of load.
RowAnswers RowBounds::with_load_masks(const RowAnswers& answers) {
  RowAnswers other = answers;
  other.load_checks.clear();
  load_masks_.resize(answers.load_checks.size());
  for (std::size_t i = 0; i < load_masks_.size(); ++i) {
    load_masks_[i].resize(rows_);
    load_within(answers.load_checks[i], in_a_row(0, rows_), load_masks_[i]);
    other.masks.emplace_back(load_masks_[i]);
  }
  return other;
}

// Adds to the limits of blocks what their best rows get by load. All rows are rated: by columns of
// places that takes less time than to ask about single ones where many blocks have a good row.
void RowBounds::limit_loads(const RowAnswers& answers) {
  load_scores_.resize(std::max(load_scores_.size(), answers.loads.size()));
  for (std::size_t i = 0; i < answers.loads.size(); ++i) {
    const RowLoad& load = answers.loads[i];
    LoadPlaces& places = places_of(load);
    read_load(load, places);
    LoadRating rating = load.rating;
    rating.columns = {places.used.data(), places.capacity.data(), rows_, places.resources};
    rating.freshness.until = places.until;
    load_scores_[i].resize(rows_);
    load_scores(rating, in_a_row(0, rows_), load_scores_[i]);
    for (std::size_t block = 0; block < blocks_; ++block) {
      if (limits_[block] == kLowest) continue;
      const std::size_t from = block * kBlock;
      const std::span<const std::int64_t> its{load_scores_[i].data() + from, size_of(block)};
      limits_[block] += load.weight * ends_of(its, open_places_.data() + from, true).most;
    }
  }
}

RowBounds::LoadPlaces& RowBounds::places_of(const RowLoad& load) {
  const auto found = std::ranges::find(load_places_, load.key, &LoadPlaces::key);
  const std::size_t resources = load.rating.columns.resources;
  if (found != load_places_.end() && found->resources == resources) return *found;
  if (found != load_places_.end()) load_places_.erase(found);
  if (load_places_.size() >= kMostKeys) load_places_.clear();
  LoadPlaces& made = load_places_.emplace_back();
  made.key = load.key;
  made.resources = resources;
  for (auto* column : {&made.used, &made.capacity}) column->resize(resources * rows_);
  made.until.resize(rows_);
  return made;
}

// Reads the load of rows that were read again since, or of all.
void RowBounds::read_load(const RowLoad& load, LoadPlaces& places) {
  const auto& [columns, amounts, weights, freshness] = load.rating;
  const auto read = [&](std::size_t row) {
    const std::size_t place = places_[row];
    for (std::size_t i = 0; i < places.resources; ++i) {
      places.used[i * rows_ + place] = columns.used[i * columns.stride + row];
      places.capacity[i * rows_ + place] = columns.bound[i * columns.stride + row];
    }
    places.until[place] = freshness.until[row];
  };
  for (std::size_t row = 0; places.all_due && row < rows_; ++row) read(row);
  for (std::size_t i = 0; !places.all_due && i < places.due.size(); ++i) read(places.due[i]);
  places.all_due = false;
  places.due.clear();
}

// Rows are read again, at their places or at other ones.
void RowBounds::note_load_due(RowSet rows, bool all) {
  for (LoadPlaces& each : load_places_) {
    each.all_due = each.all_due || all || each.due.size() + rows.count > rows_;
    for (std::size_t i = 0; !each.all_due && i < rows.count; ++i) {
      each.due.push_back(static_cast<std::size_t>(rows[i]));
    }
    if (each.all_due) each.due.clear();
  }
}

// The rows of places beside each other.
RowSet RowBounds::rows_of(std::size_t first, std::size_t count,
                          std::span<std::int64_t> numbers) const {
  if (!by_use_) return in_a_row(first, count);
  for (std::size_t i = 0; i < count; ++i) {
    numbers[i] = static_cast<std::int64_t>(order_[first + i]);
  }
  return {.index = numbers.data(), .first = 0, .count = count};
}

}  // namespace koord::placement
