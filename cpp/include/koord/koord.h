/* SPDX-License-Identifier: Apache-2.0
 *
 * libkoord for C: read a machine and pick CPUs on it. Everything that can fail returns a
 * koord_error (KOORD_OK is 0) and leaves its outputs as they were; koord_error_text() then says
 * what was wrong. Link with the C++ standard library, for libkoord is C++.
 */
#ifndef KOORD_KOORD_H
#define KOORD_KOORD_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KOORD_EXPORT __attribute__((visibility("default")))

/* Grows when a function is added; a change that breaks callers starts it anew at the next thousand.
 */
#define KOORD_ABI_VERSION 1000

/* The version that the library was built with; compare with KOORD_ABI_VERSION. */
KOORD_EXPORT int koord_abi_version(void);

typedef enum koord_error {
  KOORD_OK = 0,
  KOORD_INVALID = 1,   /* a value is malformed or out of range */
  KOORD_NOT_FOUND = 2, /* a name or id is unknown */
  KOORD_SYSTEM = 3,    /* the operating system refused */
  KOORD_EXHAUSTED = 4  /* too few free CPUs, or none that meet a required policy */
} koord_error;

/* What went wrong in the last call on this thread that failed: one line, valid until the next call
 * on this thread. Never null. */
KOORD_EXPORT const char* koord_error_text(void);

/* One logical CPU; -1 is an id that is not known. Cores are told apart by (socket, core). */
typedef struct koord_cpu {
  int32_t cpu;
  int32_t core;
  int32_t socket;
  int32_t node;
  int32_t l3;
  int32_t online; /* 0 or 1 */
} koord_cpu;

/* A machine, immutable; any thread may use it. */
typedef struct koord_topology koord_topology;

/* Builds a machine of `count` CPUs. Free it with koord_topology_free. */
KOORD_EXPORT koord_error koord_topology_from_cpus(const koord_cpu* cpus, size_t count,
                                                  koord_topology** out);
/* Reads the machine below `root` ("/" is this one). Free it with koord_topology_free. */
KOORD_EXPORT koord_error koord_topology_from_sysfs(const char* root, koord_topology** out);
/* Null is allowed. */
KOORD_EXPORT void koord_topology_free(koord_topology* topology);
/* How many CPUs are present, offline ones too. */
KOORD_EXPORT size_t koord_topology_cpu_count(const koord_topology* topology);
/* The CPU at `index`, ascending by id; its core is unique on the machine. */
KOORD_EXPORT koord_error koord_topology_cpu(const koord_topology* topology, size_t index,
                                            koord_cpu* out);

typedef enum koord_bind_policy {
  KOORD_BIND_DEFAULT = 0,
  KOORD_BIND_FULL_PCPUS = 1,
  KOORD_BIND_SPREAD_BY_PCPUS = 2
} koord_bind_policy;

typedef enum koord_numa_strategy {
  KOORD_NUMA_MOST_ALLOCATED = 0,
  KOORD_NUMA_LEAST_ALLOCATED = 1,
  KOORD_NUMA_DISTRIBUTE_EVENLY = 2
} koord_numa_strategy;

/* What to pick. Zero everything, then set what differs. */
typedef struct koord_pick_request {
  int32_t count;
  int32_t bind;         /* a koord_bind_policy */
  int32_t required;     /* not 0: fail rather than break the bind policy */
  int32_t strategy;     /* a koord_numa_strategy */
  const int32_t* taken; /* CPUs that others hold; may be null when taken_count is 0 */
  size_t taken_count;
} koord_pick_request;

/* Writes exactly request->count CPU ids, ascending, to `cpus`, which holds that many. */
KOORD_EXPORT koord_error koord_pick_cpus(const koord_topology* topology,
                                         const koord_pick_request* request, int32_t* cpus);

/* Writes the ids as Linux does ("0-3,8") with a final zero byte, at most `size` bytes; ids may come
 * in any order. `length`, unless null, gets the length without that byte, also when `size` is too
 * small, which is KOORD_INVALID. */
KOORD_EXPORT koord_error koord_format_cpu_list(const int32_t* cpus, size_t count, char* text,
                                               size_t size, size_t* length);

#ifdef __cplusplus
}
#endif
#endif /* KOORD_KOORD_H */
