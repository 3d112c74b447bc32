// SPDX-License-Identifier: Apache-2.0
// What containers of scenes run. `load burn PERCENT`: wants that much of one CPU, 10 ms at a time.
// `load hold BYTES`: touches memory, says "held", keeps it. `load idle`: nothing. Never ends.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static const long kTurn = 10 * 1000 * 1000;
static const long kSecond = 1000 * 1000 * 1000;

static long now(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return t.tv_sec * kSecond + t.tv_nsec;
}

static void burn(long percent) {
  const long work = kTurn / 100 * percent;
  for (;;) {
    const long began = now(CLOCK_MONOTONIC);
    const long used = now(CLOCK_THREAD_CPUTIME_ID);
    while (percent >= 100 || now(CLOCK_THREAD_CPUTIME_ID) - used < work) {
      for (volatile int i = 0; i < 1000; i++) {
      }
    }
    const long left = began + kTurn - now(CLOCK_MONOTONIC);
    if (left > 0) {
      const struct timespec rest = {0, left};
      nanosleep(&rest, NULL);
    }
  }
}

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "idle";
  const long amount = argc > 2 ? atol(argv[2]) : 0;
  if (strcmp(what, "burn") == 0) {
    burn(amount);
  }
  if (strcmp(what, "hold") == 0) {
    char* memory = mmap(NULL, amount, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
      return 1;
    }
    memset(memory, 1, amount);
    puts("held");
    fflush(stdout);
  }
  for (;;) {
    pause();
  }
}
