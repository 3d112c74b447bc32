// SPDX-License-Identifier: Apache-2.0
// KOORD_VECTOR_CLONES: a function is compiled twice, for any x86-64-v2 machine and for AVX2, and
// the loader takes the one that the machine has. Integers and doubles come out the same: nothing is
// contracted, and AVX2 alone has no fused multiply-add.
#pragma once

#include <cstddef>  // defines __GLIBC__ where that is the library: others have no such loader

// Sanitizers are not ready yet when the loader chooses.
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__)
#define KOORD_VECTOR_CLONES __attribute__((target_clones("avx2", "default")))
#else
#define KOORD_VECTOR_CLONES
#endif
