// SPDX-License-Identifier: Apache-2.0
// The makers that the table in placement_policies.cpp names, one a policy.
#pragma once

#include "koord/placement_policy.hpp"

namespace koord::placement {

/// Spreads scores over 0..100: min-max over the feasible nodes, all 0 where they are equal.
void spread_scores(std::span<const std::uint8_t> mask, std::span<Rating> ratings);

using PolicyMaker = std::unique_ptr<Policy>(const NodeTable&, const PolicyOptions&);

PolicyMaker make_random, make_fit;                 // placement_simple.cpp
PolicyMaker make_least, make_most, make_balanced;  // placement_kubernetes.cpp
PolicyMaker make_dotprod, make_bestfit;            // placement_vectors.cpp
PolicyMaker make_packing, make_clustering;         // placement_gpus.cpp
PolicyMaker make_fgd;                              // placement_fgd.cpp
PolicyMaker make_koord;                            // placement_koord.cpp

}  // namespace koord::placement
