/* SPDX-License-Identifier: Apache-2.0
 * pick_cpus_c N [ROOT]: the same through the C ABI. */
#include <koord/koord.h>
#include <stdio.h>
#include <stdlib.h>

static int report(koord_error error) {
  fprintf(stderr, "error: %s\n", koord_error_text());
  return error == KOORD_EXHAUSTED ? 1 : 2;
}

int main(int argc, char** argv) {
  static const int32_t taken[] = {0, 1};
  int32_t cpus[8192];
  char list[65536];
  koord_topology* machine = NULL;
  koord_pick_request request = {0};
  request.count = argc > 1 ? (int32_t)strtol(argv[1], NULL, 10) : 1;
  request.bind = KOORD_BIND_FULL_PCPUS;
  request.strategy = KOORD_NUMA_LEAST_ALLOCATED;
  request.taken = taken;
  request.taken_count = 2;
  if (request.count > 8192 || koord_abi_version() < KOORD_ABI_VERSION) return 2;

  koord_error error = koord_topology_from_sysfs(argc > 2 ? argv[2] : "/", &machine);
  if (error == KOORD_OK) error = koord_pick_cpus(machine, &request, cpus);
  if (error == KOORD_OK) {
    error = koord_format_cpu_list(cpus, (size_t)request.count, list, sizeof list, NULL);
  }
  koord_topology_free(machine);
  if (error != KOORD_OK) return report(error);
  printf("%s\n", list);
  return 0;
}
