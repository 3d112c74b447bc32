// SPDX-License-Identifier: Apache-2.0
#include "koord/placement_placer.hpp"

#include <algorithm>
#include <bit>

namespace koord::placement {

void Tournament::reset(std::size_t ranks) {
  leaves_ = std::bit_ceil(std::max<std::size_t>(2, ranks));
  ratings_.assign(leaves_, kOut);
  winners_.assign(leaves_, 0);
  rebuild();
}

void Tournament::set(std::uint32_t rank, Rating rating) {
  ratings_[rank] = rating;
  std::size_t node = (leaves_ + rank) / 2;
  winners_[node] = match(rank & ~1U, rank | 1U);
  for (node /= 2; node > 0; node /= 2) {
    const std::uint32_t winner = match(winners_[2 * node], winners_[2 * node + 1]);
    // Further up only the rank that changed or a new winner can matter.
    if (winner == winners_[node] && winner != rank) return;
    winners_[node] = winner;
  }
}

void Tournament::rebuild() {
  for (std::size_t node = leaves_ - 1; node >= leaves_ / 2; --node) {
    const auto left = static_cast<std::uint32_t>(2 * node - leaves_);
    winners_[node] = match(left, left + 1);
  }
  for (std::size_t node = leaves_ / 2 - 1; node > 0; --node) {
    winners_[node] = match(winners_[2 * node], winners_[2 * node + 1]);
  }
}

std::optional<std::uint32_t> Tournament::winner() const {
  const std::uint32_t rank = winners_[1];
  if (ratings_[rank] == kOut) return std::nullopt;
  return rank;
}

Placer::Placer(NodeTable& table, std::unique_ptr<Policy> policy)
    : table_(table), policy_(std::move(policy)) {}

Placer::Cache& Placer::refreshed(ShapeId shape) {
  if (shape >= caches_.size()) caches_.resize(table_.shapes());
  if (!caches_[shape]) caches_[shape] = std::make_unique<Cache>();
  Cache& cache = *caches_[shape];
  const std::uint64_t epoch = policy_->epoch(shape);
  if (!cache.built || cache.layout != table_.layout() || cache.epoch != epoch) {
    build(cache, shape);
    cache.built = true;
    cache.layout = table_.layout();
    cache.epoch = epoch;
  } else {
    table_.for_each_changed(cache.seen, [&](Row row) { update(cache, shape, row); });
  }
  cache.seen = table_.version();
  return cache;
}

void Placer::build(Cache& cache, ShapeId shape) {
  std::vector<std::uint8_t> mask(table_.rows());
  std::vector<Rating> ratings(table_.rows(), Tournament::kOut);
  table_.filter(shape, mask);
  policy_->rate_all(table_, shape, mask, ratings);
  cache.feasible = std::ranges::count(mask, 1);
  cache.tournament.reset(table_.rows());
  for (Row row = 0; row < table_.rows(); ++row) {
    cache.tournament.set_lazily(table_.ranks()[row], ratings[row]);
  }
  cache.tournament.rebuild();
}

void Placer::update(Cache& cache, ShapeId shape, Row row) {
  const std::uint32_t rank = table_.ranks()[row];
  const Rating before = cache.tournament.rating(rank);
  const bool fits = table_.fits(shape, row);
  const Rating after = fits ? policy_->rate(table_, shape, row) : Tournament::kOut;
  if (after == before) return;
  cache.feasible += static_cast<int>(fits) - static_cast<int>(before != Tournament::kOut);
  cache.tournament.set(rank, after);
}

std::uint32_t Placer::drawn(const Cache& cache, std::int64_t place) const {
  std::uint32_t rank = 0;
  while (cache.tournament.rating(rank) == Tournament::kOut || place-- > 0) ++rank;
  return rank;
}

void Placer::check(ShapeId shape) const {
  if (shape < table_.shapes()) return;
  throw Exception(not_found("shape", std::to_string(shape), "a shape of the table"));
}

std::optional<Placement> Placer::pick(ShapeId shape) {
  check(shape);
  const Cache& cache = refreshed(shape);
  const auto winner = cache.tournament.winner();
  if (!winner) return std::nullopt;
  const std::int64_t lot = policy_->draw(cache.feasible);
  const Row row = table_.by_rank()[lot < 0 ? *winner : drawn(cache, lot)];
  const bool gpus = table_.shape(shape).gpus.count > 0;
  return Placement{row, shape, gpus ? policy_->choose_gpus(table_, shape, row) : 0};
}

std::optional<Placement> Placer::place(ShapeId shape) {
  check(shape);
  policy_->arrived(table_, shape);
  const auto placement = pick(shape);
  if (placement) table_.commit(*placement);
  return placement;
}

void Placer::rate(ShapeId shape, std::span<const Row> rows, std::span<Rating> ratings) {
  check(shape);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const bool fits = table_.fits(shape, rows[i]);
    ratings[i] = fits ? policy_->rate(table_, shape, rows[i]) : Tournament::kOut;
  }
}

MinorMask Placer::choose_gpus(ShapeId shape, Row row) {
  check(shape);
  if (table_.shape(shape).gpus.count == 0 || !table_.fits(shape, row)) return 0;
  return policy_->choose_gpus(table_, shape, row);
}

void Placer::arrived(ShapeId shape) {
  check(shape);
  policy_->arrived(table_, shape);
}

std::uint64_t Placer::epoch(ShapeId shape) const {
  check(shape);
  return policy_->epoch(shape);
}

std::vector<std::optional<Placement>> Placer::place_batch(std::span<const ShapeId> shapes,
                                                          bool all_or_none) {
  for (const ShapeId shape : shapes) check(shape);
  const std::size_t mark = table_.mark();
  std::vector<std::optional<Placement>> placements;
  for (const ShapeId shape : shapes) {
    placements.push_back(place(shape));
    if (all_or_none && !placements.back()) {
      table_.undo(mark);
      return {};
    }
  }
  table_.forget();
  return placements;
}

}  // namespace koord::placement
