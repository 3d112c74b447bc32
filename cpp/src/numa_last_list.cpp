// SPDX-License-Identifier: Apache-2.0
#include "numa_last_list.hpp"

#include <array>

namespace koord::numa {
namespace {

constexpr std::size_t kBits = 64;

// A hint without an affinity leaves every prefix as it is, and has no score to add.
Mask mask_of(const Hint& hint) { return hint.affinity.value_or(~Mask{0}); }

std::uint64_t bit(std::size_t at) { return std::uint64_t{1} << (at % kBits); }

}  // namespace

LastList::LastList(std::span<const Hint> hints, Mask all)
    : hints_(hints),
      zones_(static_cast<std::size_t>(width(all))),
      words_((hints.size() + kBits - 1) / kBits),
      planes_(words_ * zones_),
      exact_(words_),
      class_(words_) {
  for (std::size_t i = 0; i < hints.size(); ++i) {
    std::uint64_t* const planes = &planes_[i / kBits * zones_];
    for (Mask rest = mask_of(hints[i]) & all; rest != 0; rest &= rest - 1) {
      planes[std::countr_zero(rest)] |= bit(i);
    }
  }
  choose_size(width(all));
}

void LastList::choose_size(int size) {
  size_ = size;
  std::fill(exact_.begin(), exact_.end(), 0);
  ascending_.clear();
  for (std::size_t i = 0; i < hints_.size(); ++i) {
    const Mask mask = hints_[i].affinity.value_or(0);
    if (width(mask) != size) continue;
    exact_[i / kBits] |= bit(i);
    ascending_.push_back({mask, hints_[i].score});
  }
  std::sort(ascending_.begin(), ascending_.end(),
            [](const Exact& a, const Exact& b) { return a.mask < b.mask; });
}

std::vector<Bounds> LastList::bounds(std::span<const Mask> prefixes) {
  std::vector<Bounds> found(prefixes.size());
  const Singles singles = find_singles();
  Mask reached = 0;
  for (const Mask prefix : prefixes) reached |= prefix;
  // A hint of one zone that some prefix has makes a combination of one zone: none has fewer.
  if (size_ > 1 && (reached & singles.zones) != 0) choose_size(1);
  for (std::size_t i = 0; i < prefixes.size(); ++i) {
    if (size_ == 1 && singles.bound(prefixes[i], found[i])) continue;
    const int before = size_;
    if (!collect(prefixes[i])) continue;
    // What came before this prefix is wider than the class.
    if (size_ != before) std::fill_n(found.begin(), i, Bounds{});
    const std::int64_t most = highest();
    found[i] = {true, lowest(prefixes[i]), most};
  }
  return found;
}

LastList::Singles LastList::find_singles() const {
  Singles singles;
  for (const Hint& hint : hints_) {
    const Mask mask = hint.affinity.value_or(0);
    if (!std::has_single_bit(mask)) continue;
    const auto zone = static_cast<std::size_t>(std::countr_zero(mask));
    std::int64_t& most = singles.most[zone];
    most = contains(singles.zones, zone) ? std::max(most, hint.score) : hint.score;
    singles.zones |= mask;
  }
  return singles;
}

// Wider hints that share one zone with the prefix add 0, so they matter only to scores below it.
bool LastList::Singles::bound(Mask prefix, Bounds& bounds) const {
  const Mask lowest = prefix & (~prefix + 1);
  if ((lowest & zones) == 0) return false;
  std::int64_t highest = -1;
  for (Mask rest = prefix & zones; rest != 0; rest &= rest - 1) {
    highest = std::max(highest, most[static_cast<std::size_t>(std::countr_zero(rest))]);
  }
  if (highest < 0) return false;
  bounds = {true, lowest, highest};
  return true;
}

// The hints of one word that share the fewest zones with the prefix. Of the counts only so many
// binary digits are kept as size_ has; beyond these a hint is out.
LastList::Narrowest LastList::narrowest(std::size_t word, Mask prefix) const {
  std::uint64_t out = 0;
  if (size_ == 1) {  // nearly always, and there one digit is enough
    std::uint64_t one = 0;
    for (; prefix != 0; prefix &= prefix - 1) {
      const std::uint64_t have = planes(word)[std::countr_zero(prefix)];
      out |= one & have;
      one |= have;
    }
    return {1, one & ~out};
  }
  std::array<std::uint64_t, 7> digits{};
  const auto kept = static_cast<std::size_t>(std::bit_width(static_cast<unsigned>(size_)));
  for (; prefix != 0; prefix &= prefix - 1) {
    std::uint64_t carry = planes(word)[std::countr_zero(prefix)];
    for (std::size_t i = 0; i < kept; ++i) {
      const std::uint64_t sum = digits[i] ^ carry;
      carry &= digits[i];
      digits[i] = sum;
    }
    out |= carry;
  }
  Narrowest least{0, 0};
  for (std::size_t i = 0; i < kept; ++i) least.hints |= digits[i];
  least.hints &= ~out;
  if (least.hints == 0) return least;
  for (std::size_t i = kept; i-- > 0;) {
    const std::uint64_t fewer = least.hints & ~digits[i];
    if (fewer == 0)
      least.size |= 1 << i;
    else
      least.hints = fewer;
  }
  return least;
}

// Fills class_, narrowing the class if there are fewer zones than in any before; whether it has
// one.
bool LastList::collect(Mask prefix) {
  bool any = false;
  for (std::size_t word = 0; word < words_; ++word) {
    const Narrowest least = narrowest(word, prefix);
    class_[word] = 0;
    if (least.hints == 0 || least.size > size_) continue;
    if (least.size < size_) {
      choose_size(least.size);
      std::fill_n(class_.begin(), word, 0);
    }
    class_[word] = least.hints;
    any = true;
  }
  return any;
}

bool LastList::any_has(Mask zones) const {
  for (std::size_t word = 0; word < words_; ++word) {
    std::uint64_t have = class_[word];
    for (Mask rest = zones; rest != 0; rest &= rest - 1) {
      have &= planes(word)[std::countr_zero(rest)];
    }
    if (have != 0) return true;
  }
  return false;
}

// Keeps those in class_ that lack the zone, if there are any.
bool LastList::leave_out(std::size_t zone) {
  std::uint64_t any = 0;
  for (std::size_t word = 0; word < words_; ++word) any |= class_[word] & ~planes(word)[zone];
  if (any == 0) return false;
  for (std::size_t word = 0; word < words_; ++word) class_[word] &= ~planes(word)[zone];
  return true;
}

// The lowest intersection of the class with the prefix: mostly the lowest zones of the prefix.
// Otherwise it is found from the highest zone down, and class_ is left with its hints only.
Mask LastList::lowest(Mask prefix) {
  Mask least = prefix;
  for (int left = width(prefix); left > size_; --left) least &= ~std::bit_floor(least);
  if (any_has(least)) return least;
  least = prefix;
  for (Mask rest = prefix; width(least) > size_;) {
    const Mask top = std::bit_floor(rest);
    rest ^= top;
    if (leave_out(static_cast<std::size_t>(std::countr_zero(top)))) least ^= top;
  }
  return least;
}

// A hint adds its score only where it is the merged mask; the others leave 0.
std::int64_t LastList::highest() const {
  bool any = false;
  std::int64_t most = 0;
  for (std::size_t word = 0; word < words_; ++word) {
    any = any || (class_[word] & ~exact_[word]) != 0;
  }
  for (std::size_t word = 0; word < words_; ++word) {
    for (std::uint64_t rest = class_[word] & exact_[word]; rest != 0; rest &= rest - 1) {
      const auto at = word * kBits + static_cast<std::size_t>(std::countr_zero(rest));
      most = any ? std::max(most, hints_[at].score) : hints_[at].score;
      any = true;
    }
  }
  return most;
}

bool LastList::may_stay(Mask prefix, std::int64_t added, const Bounds& later) const {
  if (!later.any || added >= later.highest) return true;
  for (const Exact& hint : ascending_) {
    if (hint.mask > later.lowest) return false;
    if ((hint.mask & ~prefix) == 0 && hint.score + added >= later.highest) return true;
  }
  return false;
}

Run LastList::run(Mask prefix) {
  Run run;
  if (!collect(prefix)) return run;
  for (std::size_t word = 0; word < words_; ++word) {
    for (std::uint64_t rest = class_[word]; rest != 0; rest &= rest - 1) {
      const auto at = word * kBits + static_cast<std::size_t>(std::countr_zero(rest));
      const Hint& hint = hints_[at];
      const Mask mask = mask_of(hint) & prefix;
      const std::int64_t score = hint.affinity == mask ? hint.score : 0;
      run.join({true, unsatisfied_at(hint, size_), mask, mask, score, score});
    }
  }
  return run;
}

}  // namespace koord::numa
