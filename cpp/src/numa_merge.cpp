// SPDX-License-Identifier: Apache-2.0
// Merging without trying every combination.
//
// The rule walks all combinations (one hint a list) in lexicographic order and keeps a best one. It
// compares by class first: preferred before not, then fewer zones. Within the winning class a later
// combination replaces the best if its mask is lower or its score higher. That is no order of
// values (of two, each can beat the other), so which comes last matters. But it has structure: the
// winner is the first combination that no later one replaces, and for this one needs of the later
// ones only their lowest mask and highest score. So a run of combinations is summed up by a `Run`,
// runs join associatively, and the run below a prefix depends on the prefix only through the
// intersection of its masks. One Run per list and distinct intersection replaces the walk.
#include <algorithm>

#include "numa_last_list.hpp"
#include "numa_mask_table.hpp"

namespace koord::numa {
namespace {

using Lists = std::span<const std::span<const Hint>>;

// Sums of scores over all lists must fit 64 bits.
constexpr std::int64_t kLargestScore = 0x100'0000'0000;  // 2^40
constexpr std::size_t kMostLists = 0x10'0000;            // 2^20

bool passes_exclusive(const Machine& machine, Mask mask) {
  if (machine.exclusive != Exclusive::kRequired) return true;
  const Status barred = width(mask) > 1 ? Status::kSingle : Status::kShared;
  for (std::size_t zone = 0; zone < machine.statuses.size(); ++zone) {
    if (contains(mask, zone) && machine.statuses[zone] == barred) return false;
  }
  return true;
}

// Preferred combinations: all hints preferred, and all affinities the same one (or none at all).
class PreferredMerge {
 public:
  PreferredMerge(const Machine& machine, Lists lists)
      : all_(machine.zones.all()), lists_(lists), affinities_(count_hints(lists)) {
    collect();
    choose_smallest(machine);
  }

  /// The run of all preferred combinations of the fewest zones; empty if there are none.
  [[nodiscard]] Run run() const {
    std::vector<Run> below(chosen_.size());  // by chosen affinity, once one is in the prefix
    for (std::size_t i = 0; i < chosen_.size(); ++i) below[i] = Run::single(chosen_[i] & all_);
    Run below_none = unbound_ && width(all_) == size_ ? Run::single(all_) : Run{};
    for (std::size_t i = lists_.size(); i-- > 0;) prepend(lists_[i], below, below_none);
    return below_none;
  }

 private:
  static std::size_t count_hints(Lists lists) {
    std::size_t count = 0;
    for (const auto& list : lists) count += list.size();
    return count;
  }

  // Counts in how many of the lists that demand an affinity each one is on offer.
  void collect() {
    std::vector<std::size_t> last_list;
    for (std::size_t i = 0; i < lists_.size(); ++i) {
      const bool demands = std::none_of(lists_[i].begin(), lists_[i].end(), [](const Hint& hint) {
        return hint.preferred && !hint.affinity;
      });
      demanding_ += demands ? 1 : 0;
      for (const Hint& hint : lists_[i]) {
        if (!hint.preferred || !hint.affinity || (*hint.affinity & all_) == 0) continue;
        const std::uint32_t at = affinities_.insert(*hint.affinity);
        if (at == offers_.size()) {
          offers_.push_back(0);
          last_list.push_back(lists_.size());
        }
        if (!demands || last_list[at] == i) continue;
        last_list[at] = i;
        ++offers_[at];
      }
    }
  }

  void choose_smallest(const Machine& machine) {
    unbound_ = demanding_ == 0 && passes_exclusive(machine, all_);
    size_ = unbound_ ? width(all_) : width(all_) + 1;
    const auto& masks = affinities_.masks();
    for (std::size_t i = 0; i < masks.size(); ++i) {
      const Mask merged = masks[i] & all_;
      if (offers_[i] != demanding_ || width(merged) > size_) continue;
      if (!passes_exclusive(machine, merged)) continue;
      if (width(merged) < size_) {
        size_ = width(merged);
        chosen_.clear();
      }
      chosen_.push_back(masks[i]);
    }
    chosen_at_.assign(masks.size(), MaskTable::kAbsent);
    for (std::uint32_t i = 0; i < chosen_.size(); ++i) chosen_at_[affinities_.find(chosen_[i])] = i;
  }

  void prepend(std::span<const Hint> list, std::vector<Run>& below, Run& below_none) const {
    std::vector<Run> runs(below.size());
    Run none;
    for (const Hint& hint : list) {
      if (!hint.preferred) continue;
      if (!hint.affinity) {
        for (std::size_t i = 0; i < runs.size(); ++i) {
          runs[i].join(below[i].behind(0, hint.unsatisfied));
        }
        none.join(below_none.behind(0, hint.unsatisfied));
        continue;
      }
      if (width(*hint.affinity & all_) != size_) continue;
      const std::uint32_t at = chosen_at_[affinities_.find(*hint.affinity)];
      if (at == MaskTable::kAbsent) continue;
      const std::int64_t score = (*hint.affinity & ~all_) == 0 ? hint.score : 0;
      const Run run = below[at].behind(score, unsatisfied_at(hint, size_));
      runs[at].join(run);
      none.join(run);
    }
    below = std::move(runs);
    below_none = none;
  }

  Mask all_;
  Lists lists_;
  MaskTable affinities_;             // of preferred hints
  std::vector<std::size_t> offers_;  // by number in affinities_
  std::size_t demanding_ = 0;        // lists without a preferred hint that leaves the zones open
  bool unbound_ = false;             // a combination without any affinity is preferred
  int size_ = 0;                     // zones of the class
  std::vector<Mask> chosen_;         // affinities of the class
  std::vector<std::uint32_t> chosen_at_;  // number in affinities_ to index in chosen_
};

// All combinations, when none of them is preferred; no list is empty.
class PlainMerge {
 public:
  PlainMerge(const Machine& machine, Lists lists)
      : all_(machine.zones.all()), lists_(lists), last_(lists.back(), all_) {
    prefixes_.emplace_back(1);
    prefixes_[0].insert(all_);
    for (std::size_t i = 0; i + 1 < lists.size(); ++i) extend(lists[i]);
    bounds_ = last_.bounds(prefixes_.back().masks());
    ends_.resize(bounds_.size());
    size_ = last_.size();
  }

  /// The best of the default, all zones, and the combinations of the fewest zones.
  [[nodiscard]] Run run() {
    Run best = size_ == width(all_) ? Run::single(all_) : Run{};
    if (lists_.size() == 1) {
      best.join(last_.run(all_));
      return best;
    }
    std::vector<Run> below;
    for (std::size_t i = lists_.size() - 1; i-- > 0;) {
      std::vector<Run> runs;
      runs.reserve(prefixes_[i].masks().size());
      for (const Mask prefix : prefixes_[i].masks()) {
        runs.push_back(i + 2 == lists_.size() ? before_last(prefix) : prepend(i, prefix, below));
      }
      below = std::move(runs);
    }
    best.join(below[0]);
    return best;
  }

 private:
  // A hint of the list before the last, behind which the winner may be.
  struct Candidate {
    const Hint* hint;
    std::uint32_t end;  // number of the intersection in the last prefixes
    std::int64_t score;
    Bounds later;  // of the combinations behind later hints
  };

  static Mask meet(Mask prefix, const Hint& hint) {
    return hint.affinity ? prefix & *hint.affinity : prefix;
  }

  void extend(std::span<const Hint> list) {
    const auto& prefixes = prefixes_.back().masks();
    MaskTable next(std::max(prefixes.size(), list.size()));
    for (const Mask prefix : prefixes) {
      for (const Hint& hint : list) {
        if (const Mask mask = meet(prefix, hint); mask != 0) next.insert(mask);
      }
    }
    prefixes_.push_back(std::move(next));
  }

  // A hint adds its score where it is the merged mask; once a prefix is as narrow as the class, the
  // merged mask can only be the prefix.
  [[nodiscard]] std::int64_t score_at(const Hint& hint, Mask mask) const {
    return width(mask) == size_ && hint.affinity == mask ? hint.score : 0;
  }

  Run prepend(std::size_t level, Mask prefix, const std::vector<Run>& below) const {
    Run run;
    for (const Hint& hint : lists_[level]) {
      const Mask mask = meet(prefix, hint);
      if (width(mask) < size_) continue;
      const Run& rest = below[prefixes_[level + 1].find(mask)];
      run.join(rest.behind(score_at(hint, mask), unsatisfied_at(hint, size_)));
    }
    return run;
  }

  // Bounds tell of most hints that no combination behind them wins, and the first that has one ends
  // the search: few ends are looked at in full.
  Run before_last(Mask prefix) {
    const Bounds all = find_candidates(prefix);
    for (auto candidate = candidates_.rbegin(); candidate != candidates_.rend(); ++candidate) {
      const Run run =
          end(candidate->end).behind(candidate->score, unsatisfied_at(*candidate->hint, size_));
      if (!candidate->later.leave(run.mask, run.score)) continue;
      return {true, run.unsatisfied, all.lowest, run.mask, all.highest, run.score};
    }
    return {};
  }

  // From the last hint to the first; returns the bounds of all combinations behind the prefix.
  Bounds find_candidates(Mask prefix) {
    candidates_.clear();
    Bounds later;
    const auto& list = lists_[lists_.size() - 2];
    for (auto hint = list.rbegin(); hint != list.rend(); ++hint) {
      const Mask mask = meet(prefix, *hint);
      if (width(mask) < size_) continue;
      const std::uint32_t at = prefixes_.back().find(mask);
      Bounds own = bounds_[at];
      if (!own.any) continue;
      const std::int64_t score = score_at(*hint, mask);
      own.highest += score;
      if (later.leave(own.lowest, own.highest) && last_.may_stay(mask, score, later)) {
        candidates_.push_back({&*hint, at, score, later});
      }
      later.join(own);
    }
    return later;
  }

  const Run& end(std::uint32_t at) {
    if (!ends_[at].any) ends_[at] = last_.run(prefixes_.back().masks()[at]);
    return ends_[at];
  }

  Mask all_;
  Lists lists_;
  LastList last_;
  int size_ = 0;                     // zones of the class
  std::vector<MaskTable> prefixes_;  // by list: the distinct intersections of the lists before it
  std::vector<Bounds> bounds_;       // by last prefix
  std::vector<Run> ends_;            // by last prefix, once it is looked at
  std::vector<Candidate> candidates_;
};

std::optional<Error> check_merge(const Machine& machine, Lists lists) {
  if (machine.statuses.size() != machine.zones.size()) {
    return invalid("zone statuses", std::to_string(machine.statuses.size()), "one for each zone");
  }
  if (lists.size() > kMostLists) {
    return invalid("hint lists", std::to_string(lists.size()), "at most 1048576 lists");
  }
  for (const auto& list : lists) {
    for (const Hint& hint : list) {
      if (hint.score < -kLargestScore || hint.score > kLargestScore) {
        return invalid("hint score", std::to_string(hint.score), "a score within 2^40");
      }
    }
  }
  return std::nullopt;
}

}  // namespace

Result<Hint> merge(const Machine& machine, Lists lists) {
  if (auto error = check_merge(machine, lists)) return *error;
  const auto hint_of = [](const Run& run, bool preferred) {
    return Hint{run.mask, preferred, run.unsatisfied, run.score};
  };
  const Run preferred = PreferredMerge(machine, lists).run();
  if (preferred.any) return hint_of(preferred, true);
  // An empty list leaves no combination at all.
  const auto empty = [](const auto& list) { return list.empty(); };
  if (std::any_of(lists.begin(), lists.end(), empty)) return Hint{machine.zones.all()};
  const Run plain =
      lists.empty() ? Run::single(machine.zones.all()) : PlainMerge(machine, lists).run();
  return hint_of(plain, false);
}

}  // namespace koord::numa
