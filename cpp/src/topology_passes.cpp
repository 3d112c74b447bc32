// SPDX-License-Identifier: Apache-2.0
// The passes of the picker: whole cores, then CPUs spread over cores of one place, then any CPUs.
#include <algorithm>
#include <bit>
#include <tuple>
#include <utility>

#include "topology_picker.hpp"

namespace koord::detail {
namespace {

// Ranks are packed so that one comparison orders a core or a CPU. Every field is as wide as its
// largest value; only sums of references may be larger, and saturate.
constexpr unsigned kIdBits = 13;
constexpr unsigned kThreadBits = 7;
constexpr unsigned kSumBits = 64 - 3 * kIdBits - kThreadBits;

std::uint64_t saturated(std::uint64_t sum) {
  return std::min(sum, (std::uint64_t{1} << kSumBits) - 1);
}

// Keeps the smallest `count` keys, in no particular order: an answer is a set.
template <class Keys>
void keep_smallest(Keys& keys, std::size_t count) {
  if (keys.size() <= count) return;
  std::nth_element(keys.begin(), keys.begin() + static_cast<std::ptrdiff_t>(count), keys.end(),
                   [](const auto& a, const auto& b) { return a.rank < b.rank; });
  keys.resize(count);
}

template <class Keys>
void sort_keys(Keys& keys) {
  std::ranges::sort(keys, {}, [](const auto& key) { return key.rank; });
}

}  // namespace

int Picker::by_strategy(int free) const {
  return input_->strategy == NumaStrategy::kMostAllocated ? free : -free;
}

// The first group in order that can give all CPUs; groups are visited by id, so equals keep that.
template <class Measure>
const CoreGroup* Picker::choose(const std::vector<CoreGroup>& groups, Measure measure) const {
  const CoreGroup* best = nullptr;
  std::pair<int, int> best_rank;
  for (const CoreGroup& group : groups) {
    const Fit fit = measure(group);
    if (fit.length < need_) continue;
    const std::pair rank{by_strategy(fit.first), by_strategy(fit.second)};
    if (best == nullptr || rank < best_rank) {
      best = &group;
      best_rank = rank;
    }
  }
  return best;
}

bool Picker::take_whole_cores() {
  return full_cores_in_node(true) || (any_blocked_ && full_cores_in_node(false)) ||
         full_cores_in_socket() || full_cores_across_sockets();
}

bool Picker::full_cores_in_node(bool filter) {
  const bool by_node = filter && input_->exclusive == ExclusivePolicy::kNUMANodeLevel;
  // The socket's count takes in CPUs of broken cores, the node's does not.
  set_pool(any_, by_node);
  count_sockets();
  set_pool(full_, by_node);
  const CoreGroup* node = choose(layout_.nodes, [&](const CoreGroup& group) {
    const int length = free_cpus(group);
    return Fit{length, length, socket_free_[group.socket]};
  });
  if (node == nullptr) return false;
  passes_.insert(filter ? Pass::kFullCoresInNode : Pass::kFullCoresInNodeIgnoringExclusivity);
  const std::uint32_t broken = take_fitting_cores(*node);
  for (std::size_t plane = 0; need_ > 0; ++plane) take_cpu(broken, plane);
  return true;
}

bool Picker::full_cores_in_socket() {
  set_pool(full_, false);
  const CoreGroup* socket = choose(layout_.sockets, [&](const CoreGroup& group) {
    const int length = free_cpus(group);
    return Fit{length, length, 0};
  });
  if (socket == nullptr) return false;
  passes_.insert(Pass::kFullCoresInSocket);
  const std::uint32_t broken = take_fitting_cores(*socket);
  for (std::size_t plane = 0; need_ > 0; ++plane) take_cpu(broken, plane);
  return true;
}

// Whole sockets, the fullest of free cores first, then the cores that still fit of those left over,
// the emptiest first. It stops where no core fits, so that the number asked for is never exceeded.
bool Picker::full_cores_across_sockets() {
  const int before = need_;
  set_pool(full_, false);
  spans_.clear();
  for (std::size_t s = 0; s < layout_.sockets.size(); ++s) {
    if (const int length = free_cpus(layout_.sockets[s]); length > 0) spans_.push_back({length, s});
  }
  std::ranges::sort(spans_, {}, [](const Span& s) { return std::pair(-s.length, s.socket); });
  for (Span& span : spans_) {
    if (span.length > need_) continue;
    take_fitting_cores(layout_.sockets[span.socket]);
    span.length = 0;
  }
  std::ranges::sort(spans_, {}, [](const Span& s) { return std::pair(s.length, s.socket); });
  for (const Span& span : spans_) {
    if (span.length > 0 && need_ > 0) take_fitting_cores(layout_.sockets[span.socket]);
  }
  if (need_ < before) passes_.insert(Pass::kFullCoresAcrossSockets);
  summarise();
  return need_ == 0;
}

// Keys for the full cores of a group: those with more threads first, then those that fewer pods
// share, then by id.
void Picker::rank_cores(const CoreGroup& group) {
  keys_.clear();
  const bool by_id = layout_.uniform && input_->refs == nullptr;
  const std::size_t enough = static_cast<std::size_t>(need_) / layout_.threads + 1;
  for (std::size_t w = group.first_word; w < group.end_word; ++w) {
    const Word cores = pool_[w] & group.cores[w];
    for (Word rest = cores; rest != 0; rest &= rest - 1) {
      if (by_id && keys_.size() == enough) return;
      const auto core = w * kWordBits + static_cast<std::size_t>(std::countr_zero(rest));
      const std::uint64_t fewer_threads = layout_.threads - layout_.cores[core].threads;
      const std::uint64_t sum = saturated(free_refs(core));
      keys_.push_back({((fewer_threads << kSumBits | sum) << kIdBits) | core,
                       static_cast<std::uint32_t>(core), 0});
    }
  }
  if (by_id) return;
  // Where cores are alike no more than these are looked at; unlike ones may fit later.
  if (layout_.uniform) keep_smallest(keys_, enough);
  sort_keys(keys_);
}

// Takes the cores whose threads are all wanted; returns the first that was too large for the rest.
std::uint32_t Picker::take_fitting_cores(const CoreGroup& group) {
  rank_cores(group);
  std::uint32_t too_large = kNoCore;
  for (const Key& key : keys_) {
    if (need_ == 0) break;
    if (static_cast<int>(layout_.cores[key.core].threads) <= need_) {
      take_core(key.core);
      if (input_->exclusive == ExclusivePolicy::kNUMANodeLevel) block_node_of(key.core);
    } else if (too_large == kNoCore) {
      too_large = key.core;
    }
  }
  return too_large;
}

bool Picker::take_spread() {
  return spread_in_node(true) || spread_in_node(false) || spread_in_socket(true) ||
         spread_in_socket(false);
}

bool Picker::spread_in_node(bool one_per_core) {
  set_pool(any_, one_per_core);
  count_sockets();
  const CoreGroup* node = choose(layout_.nodes, [&](const CoreGroup& group) {
    const int free = free_cpus(group);
    return Fit{one_per_core ? pool_cores(group) : free, free, socket_free_[group.socket]};
  });
  if (node == nullptr) return false;
  passes_.insert(one_per_core ? Pass::kOnePerCoreInNode : Pass::kCpusInNode);
  spread_over(*node, one_per_core || free_cpus(*node) > static_cast<int>(layout_.threads));
  return true;
}

bool Picker::spread_in_socket(bool one_per_core) {
  set_pool(any_, one_per_core && input_->exclusive == ExclusivePolicy::kPCPULevel);
  const CoreGroup* socket = choose(layout_.sockets, [&](const CoreGroup& group) {
    const int length = one_per_core ? pool_cores(group) : free_cpus(group);
    return Fit{length, length, 0};
  });
  if (socket == nullptr) return false;
  passes_.insert(one_per_core ? Pass::kOnePerCoreInSocket : Pass::kCpusInSocket);
  spread_over(*socket, one_per_core || free_cpus(*socket) > static_cast<int>(layout_.threads));
  return true;
}

// A CPU of each core by (references, id), then a second one of each, until there are enough. A list
// no longer than one core's threads is not spread, as in the original.
void Picker::spread_over(const CoreGroup& group, bool by_turns) {
  const auto add = [&](std::size_t core, std::size_t plane) {
    const std::uint64_t references = refs(core, plane);
    keys_.push_back({references << kIdBits | layout_.cpu(core, plane),
                     static_cast<std::uint32_t>(core), static_cast<std::uint32_t>(plane)});
  };
  for (std::size_t w = group.first_word; w < group.end_word; ++w) pool_[w] &= group.cores[w];
  while (need_ > 0) {
    keys_.clear();
    for_each_bit(pool_.data(), group.first_word, group.end_word, [&](std::size_t core) {
      const std::uint32_t threads = layout_.cores[core].threads;
      const std::uint32_t best = best_plane(core);
      if (by_turns && best < threads) add(core, best);
      for (std::size_t plane = 0; !by_turns && plane < threads; ++plane) {
        if (is_free(core, plane)) add(core, plane);
      }
    });
    take_smallest();
  }
}

void Picker::take_smallest() {
  keep_smallest(keys_, static_cast<std::size_t>(need_));
  for (const Key& key : keys_) take_cpu(key.core, key.plane);
}

bool Picker::fall_back(bool filter) {
  if (!filter) summarise();
  const int before = need_;
  set_pool(any_, filter);
  rank_cells();
  rank_fallback_cores();
  int free = 0;
  for (const int in_socket : socket_free_) free += in_socket;
  if (free > static_cast<int>(layout_.threads)) {
    take_in_turns();
  } else {
    take_core_by_core();
  }
  if (need_ < before) {
    passes_.insert(filter ? Pass::kFallback : Pass::kFallbackIgnoringExclusivity);
  }
  return need_ == 0;
}

// A rank for every place where a socket and a node meet: sockets that gave CPUs already first, then
// by the strategy over the free CPUs of socket and node. Equal places share a rank.
void Picker::rank_cells() {
  count_sockets();
  for (std::size_t n = 0; n < node_free_.size(); ++n) node_free_[n] = free_cpus(layout_.nodes[n]);
  const auto place = [&](std::uint32_t index) {
    const Cell& cell = layout_.cells[index];
    return std::tuple(-socket_taken_[cell.socket], by_strategy(socket_free_[cell.socket]),
                      by_strategy(node_free_[cell.node]));
  };
  for (std::uint32_t i = 0; i < cell_order_.size(); ++i) cell_order_[i] = i;
  std::ranges::sort(cell_order_, {}, place);
  std::uint32_t rank = 0;
  for (std::size_t i = 0; i < cell_order_.size(); ++i) {
    if (i > 0 && place(cell_order_[i]) != place(cell_order_[i - 1])) ++rank;
    cell_rank_[cell_order_[i]] = rank;
  }
}

// Within a place: cores with fewer free CPUs first, then by socket, references and core id.
void Picker::rank_fallback_cores() {
  keys_.clear();
  for_each_bit(pool_.data(), 0, pool_.size(), [&](std::size_t core) {
    const CoreInfo& info = layout_.cores[core];
    std::uint64_t free = 0;
    for (std::size_t plane = 0; plane < info.threads; ++plane) free += is_free(core, plane) ? 1 : 0;
    std::uint64_t rank = cell_rank_[info.cell];
    rank = rank << kThreadBits | free;
    rank = rank << kIdBits | info.socket;
    rank = rank << kSumBits | saturated(free_refs(core));
    rank = rank << kIdBits | core;
    keys_.push_back({rank, static_cast<std::uint32_t>(core), 0});
  });
}

void Picker::take_in_turns() {
  while (need_ > 0 && !keys_.empty()) {
    keep_smallest(keys_, static_cast<std::size_t>(need_));
    for (const Key& key : keys_) take_cpu(key.core, best_plane(key.core));
    std::erase_if(keys_, [&](const Key& key) {
      return best_plane(key.core) == layout_.cores[key.core].threads;
    });
  }
}

void Picker::take_core_by_core() {
  sort_keys(keys_);
  for (const Key& key : keys_) {
    const std::uint32_t threads = layout_.cores[key.core].threads;
    for (auto plane = best_plane(key.core); need_ > 0 && plane < threads;) {
      take_cpu(key.core, plane);
      plane = best_plane(key.core);
    }
  }
}

}  // namespace koord::detail
