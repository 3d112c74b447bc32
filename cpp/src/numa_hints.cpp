// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "numa_internal.hpp"

namespace koord::numa {
namespace {

std::optional<Error> check_query(const HintQuery& query) {
  const std::size_t columns = query.total.size();
  if (auto error = check_columns("total", query.total, query.zones, true)) return error;
  if (auto error = check_columns("available", query.available, query.zones, false)) return error;
  if (query.available.size() != columns) {
    return invalid("available", std::to_string(query.available.size()), "the columns of total");
  }
  if (auto error = check_demands(query.demands, columns)) return error;
  if (query.scorer) {
    if (auto error = check_scorer(*query.scorer, columns)) return error;
  }
  for (const Pool& pool : query.pools) {
    if (auto error = check_columns("pool", pool.available, query.zones, false)) return error;
    if (pool.available.size() != columns) {
      return invalid("pool", std::to_string(pool.available.size()), "the columns of total");
    }
    if (!pool.cpus) continue;
    if (auto error = check_supply(*pool.cpus, query.zones)) return error;
  }
  return std::nullopt;
}

Wide sum_over(const Column& column, Mask mask) {
  Wide sum = 0;
  for (std::size_t zone = 0; zone < column.amount.size(); ++zone) {
    if (contains(mask, zone)) sum += column.amount[zone];
  }
  return sum;
}

class Generator {
 public:
  explicit Generator(const HintQuery& query)
      : query_(query),
        hints_(query.demands.size()),
        smallest_(query.demands.size(), static_cast<int>(query.zones)) {
    for (const Pool& pool : query.pools) {
      spreaders_.emplace_back(pool.available, query.demands, query.zones,
                              pool.cpus ? &*pool.cpus : nullptr);
    }
    for (const Demand& demand : query.demands) lacking_.push_back(lacking(demand.column));
  }

  void visit(Mask mask) {
    seen_ |= mask;
    const bool fits = std::any_of(spreaders_.begin(), spreaders_.end(),
                                  [&](const Spreader& pool) { return pool.fits(mask); });
    if (!fits) return;
    const std::int64_t score = query_.scorer ? score_of(*query_.scorer, mask) : 0;
    for (std::size_t i = 0; i < hints_.size(); ++i) {
      // A resource counts from the first mask on that lists it.
      const bool tracked = (query_.total[query_.demands[i].column].listed & seen_) != 0;
      if (!tracked || (mask & lacking_[i]) != 0) continue;
      smallest_[i] = std::min(smallest_[i], width(mask));
      hints_[i].push_back({mask, false, false, score});
    }
  }

  std::vector<std::optional<HintList>> finish() {
    std::vector<std::optional<HintList>> lists(hints_.size());
    for (std::size_t i = 0; i < hints_.size(); ++i) {
      for (Hint& hint : hints_[i]) {
        hint.preferred =
            query_.prefer_every_size || width(hint.affinity.value_or(0)) == smallest_[i];
      }
      const bool listed = query_.total[query_.demands[i].column].listed != 0;
      if (listed) lists[i] = std::move(hints_[i]);
    }
    return lists;
  }

 private:
  // Zones where a resource that some zone lists is absent or used up.
  Mask lacking(std::size_t column) const {
    if (query_.total[column].listed == 0) return 0;
    Mask mask = 0;
    for (std::size_t zone = 0; zone < query_.zones; ++zone) {
      if (query_.available[column].amount[zone] == 0) mask |= Mask{1} << zone;
    }
    return mask;
  }

  std::int64_t score_of(const Scorer& scorer, Mask mask) {
    terms_.clear();
    for (std::size_t i = 0; i < query_.total.size(); ++i) {
      const Wide total = sum_over(query_.total[i], mask);
      const Wide used = std::max(Wide{0}, total - sum_over(query_.available[i], mask));
      terms_.push_back({query_.total[i].kind, used, total, 0});
    }
    for (const Demand& demand : query_.demands) terms_[demand.column].pod += demand.scored;
    return weighted_score(scorer, terms_);
  }

  const HintQuery& query_;
  std::vector<HintList> hints_;
  std::vector<int> smallest_;
  std::vector<Mask> lacking_;
  std::vector<Spreader> spreaders_;
  std::vector<WideTerm> terms_;
  Mask seen_ = 0;
};

}  // namespace

Result<std::vector<std::optional<HintList>>> generate_hints(const HintQuery& query) {
  auto masks = enumerate_masks(query.zones);
  if (!masks) return masks.error();
  if (auto error = check_query(query)) return *error;
  Generator generator(query);
  for (const Mask mask : masks.value()) generator.visit(mask);
  return generator.finish();
}

}  // namespace koord::numa
