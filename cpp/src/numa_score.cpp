// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "numa_internal.hpp"

namespace koord::numa {
namespace {

constexpr Wide kMaxScore = 100;
constexpr std::int64_t kLargestWeight = 1'000'000;

Wide term_score(Strategy strategy, Wide requested, Wide allocatable) {
  if (strategy == Strategy::kMostAllocated) {
    return std::min(requested, allocatable) * kMaxScore / allocatable;
  }
  if (requested > allocatable) return 0;
  return (allocatable - requested) * kMaxScore / allocatable;
}

}  // namespace

std::optional<Error> check_scorer(const Scorer& scorer, std::size_t columns) {
  if (scorer.weights.size() != columns) {
    return invalid("weights", std::to_string(scorer.weights.size()), "a weight for each resource");
  }
  for (const std::int64_t weight : scorer.weights) {
    if (weight < 0 || weight > kLargestWeight) {
      return invalid("weight", std::to_string(weight), "0 to 1000000");
    }
  }
  return std::nullopt;
}

std::int64_t weighted_score(const Scorer& scorer, std::span<const WideTerm> terms) {
  Wide sum = 0;
  Wide weights = 0;
  for (std::size_t i = 0; i < terms.size(); ++i) {
    const WideTerm& term = terms[i];
    if (scorer.weights[i] == 0 || term.allocatable == 0) continue;
    if (term.kind == Kind::kScalar && term.pod == 0) continue;
    sum += scorer.weights[i] *
           term_score(scorer.strategy, term.requested + term.pod, term.allocatable);
    weights += scorer.weights[i];
  }
  return weights == 0 ? 0 : static_cast<std::int64_t>(sum / weights);
}

Result<std::int64_t> score(const Scorer& scorer, std::span<const ScoreTerm> terms) {
  if (auto error = check_scorer(scorer, terms.size())) return *error;
  std::vector<WideTerm> wide;
  wide.reserve(terms.size());
  for (const ScoreTerm& term : terms) {
    for (const std::int64_t amount : {term.requested, term.allocatable, term.pod}) {
      if (amount < -kLargestAmount || amount > kLargestAmount) {
        return invalid("scored amount", std::to_string(amount), "an amount within 2^61");
      }
    }
    wide.push_back({term.kind, term.requested, term.allocatable, term.pod});
  }
  return weighted_score(scorer, wide);
}

}  // namespace koord::numa
