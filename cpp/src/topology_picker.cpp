// SPDX-License-Identifier: Apache-2.0
#include "topology_picker.hpp"

#include <algorithm>
#include <bit>
#include <limits>

namespace koord::detail {

Picker::Picker(const CpuLayout& layout)
    : layout_(layout),
      free_(layout.threads * layout.core_words),
      any_(layout.core_words),
      full_(layout.core_words),
      blocked_(layout.core_words),
      pool_(layout.core_words),
      socket_free_(layout.sockets.size()),
      node_free_(layout.nodes.size()),
      socket_taken_(layout.sockets.size()),
      cell_rank_(layout.cells.size()),
      cell_order_(layout.cells.size()) {
  keys_.reserve(layout.cores.size() * layout.threads);
  spans_.reserve(layout.sockets.size());
}

bool Picker::take(const TakeInput& input, Word* taken, PassSet& passes) {
  int available = 0;
  for (std::size_t w = 0; w < layout_.cpu_words; ++w)
    available += std::popcount(input.available[w]);
  if (input.count > available) return false;
  if (input.count < 1) return true;
  input_ = &input;
  taken_ = taken;
  need_ = input.count;
  passes_ = {};
  load(input.available);
  block(input);
  std::ranges::fill(socket_taken_, 0);
  const bool whole_cores = input.bind == BindPolicy::kFullPCPUs || layout_.threads == 1;
  const bool done = (whole_cores && take_whole_cores()) ||
                    (input.bind != BindPolicy::kFullPCPUs && take_spread()) || fall_back(true) ||
                    fall_back(false);
  passes = passes_;
  return done;
}

// The gather is the one step that touches every CPU; loads do not depend on each other, so it runs
// at about one CPU a cycle.
void Picker::load(const Word* cpus) {
  for (std::size_t at = 0; at < free_.size(); ++at) {
    const Word exists = layout_.exists[at];
    const std::uint16_t* cpu = &layout_.cpu_at[at * kWordBits];
    Word word = 0;
    const int used = static_cast<int>(kWordBits) - std::countl_zero(exists);
    for (int bit = 0; bit < used; ++bit) {
      word |= ((cpus[cpu[bit] / kWordBits] >> (cpu[bit] % kWordBits)) & 1U) << bit;
    }
    free_[at] = word & exists;
  }
  summarise();
}

void Picker::summarise() {
  const std::size_t words = layout_.core_words;
  for (std::size_t w = 0; w < words; ++w) {
    any_[w] = free_[w];
    full_[w] = free_[w];
    for (std::size_t at = w + words; at < free_.size(); at += words) {
      any_[w] |= free_[at];
      full_[w] &= free_[at] | ~layout_.exists[at];
    }
  }
}

void Picker::block(const TakeInput& input) {
  any_blocked_ = false;
  if (input.exclusive == ExclusivePolicy::kNone) return;
  std::ranges::fill(blocked_, 0);
  for (std::size_t w = 0; w < layout_.cpu_words; ++w) {
    const Word held = input.held[w] & input.used[w];
    for_each_bit(&held, 0, 1, [&](std::size_t bit) {
      const std::size_t core = layout_.core_of[w * kWordBits + bit];
      if (input.exclusive == ExclusivePolicy::kNUMANodeLevel) return block_node_of(core);
      blocked_[core / kWordBits] |= Word{1} << (core % kWordBits);
      any_blocked_ = true;
    });
  }
}

void Picker::block_node_of(std::size_t core) {
  const CoreGroup& node = layout_.nodes[layout_.cores[core].node];
  any_blocked_ = true;
  if (((blocked_[core / kWordBits] >> (core % kWordBits)) & 1U) != 0) return;
  for (std::size_t w = node.first_word; w < node.end_word; ++w) blocked_[w] |= node.cores[w];
}

void Picker::set_pool(const std::vector<Word>& cores, bool unblocked_only) {
  const bool filter = unblocked_only && any_blocked_;
  for (std::size_t w = 0; w < pool_.size(); ++w) {
    pool_[w] = filter ? cores[w] & ~blocked_[w] : cores[w];
  }
}

void Picker::count_sockets() {
  for (std::size_t s = 0; s < socket_free_.size(); ++s) {
    socket_free_[s] = free_cpus(layout_.sockets[s]);
  }
}

int Picker::free_cpus(const CoreGroup& group) const {
  int total = 0;
  for (std::size_t plane = 0; plane < layout_.threads; ++plane) {
    const Word* free = &free_[plane * layout_.core_words];
    for (std::size_t w = group.first_word; w < group.end_word; ++w) {
      total += std::popcount(free[w] & pool_[w] & group.cores[w]);
    }
  }
  return total;
}

int Picker::pool_cores(const CoreGroup& group) const {
  int total = 0;
  for (std::size_t w = group.first_word; w < group.end_word; ++w) {
    total += std::popcount(pool_[w] & group.cores[w]);
  }
  return total;
}

std::uint64_t Picker::free_refs(std::size_t core) const {
  std::uint64_t sum = 0;
  if (input_->refs == nullptr) return sum;
  for (std::size_t plane = 0; plane < layout_.cores[core].threads; ++plane) {
    if (is_free(core, plane)) sum += refs(core, plane);
  }
  return sum;
}

// The plane of a core's free CPU that fewest pods hold, the lowest id among equals; the number of
// threads when none is free.
std::uint32_t Picker::best_plane(std::size_t core) const {
  const std::uint32_t threads = layout_.cores[core].threads;
  std::uint32_t best = threads;
  for (std::uint32_t plane = 0; plane < threads; ++plane) {
    if (!is_free(core, plane)) continue;
    if (input_->refs == nullptr) return plane;
    if (best == threads || refs(core, plane) < refs(core, best)) best = plane;
  }
  return best;
}

void Picker::take_cpu(std::size_t core, std::size_t plane) {
  const std::size_t cpu = layout_.cpu(core, plane);
  taken_[cpu / kWordBits] |= Word{1} << (cpu % kWordBits);
  free_[plane * layout_.core_words + core / kWordBits] &= ~(Word{1} << (core % kWordBits));
  ++socket_taken_[layout_.cores[core].socket];
  --need_;
}

void Picker::take_core(std::size_t core) {
  for (std::size_t plane = 0; plane < layout_.cores[core].threads; ++plane) take_cpu(core, plane);
}

void Picker::keep_bindable(BindPolicy bind, Word* available) {
  if (bind == BindPolicy::kDefault) return;
  load(available);
  std::fill_n(available, layout_.cpu_words, 0);
  const auto keep = [&](std::size_t core, std::size_t plane) {
    const std::size_t cpu = layout_.cpu(core, plane);
    available[cpu / kWordBits] |= Word{1} << (cpu % kWordBits);
  };
  const bool full = bind == BindPolicy::kFullPCPUs;
  for_each_bit(full ? full_.data() : any_.data(), 0, layout_.core_words, [&](std::size_t core) {
    for (std::size_t plane = 0; plane < layout_.cores[core].threads; ++plane) {
      if (!is_free(core, plane)) continue;
      keep(core, plane);
      if (!full) break;
    }
  });
}

bool Picker::meets(BindPolicy bind, const Word* cpus) {
  if (bind == BindPolicy::kDefault) return true;
  load(cpus);
  if (bind == BindPolicy::kFullPCPUs) return any_ == full_;
  for (std::size_t w = 0; w < layout_.core_words; ++w) {
    Word seen = 0;
    for (std::size_t at = w; at < free_.size(); at += layout_.core_words) {
      if ((seen & free_[at]) != 0) return false;
      seen |= free_[at];
    }
  }
  return true;
}

}  // namespace koord::detail
