/* Flips bits in what has come on lanes, above TCP: preloaded into ranks, it stands between readv() or recv() and the
 * library. Of a chunk it flips one bit at most, in the read that brings its last bytes; headers are told by their first
 * bytes, and only those at the beginning of a read are touched.
 *
 *   TUTTI_TEST_FLIPS  file of two 64-bit counters, shared by all ranks: chunks and headers flipped so far
 *   TUTTI_TEST_FLIP_CHUNKS, TUTTI_TEST_FLIP_HEADERS  "EVERY LIMIT": one in so many, until there were so many
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>

enum { kHeaderBytes = 64, kFormat = 3, kLeastRead = 4096 };

struct plan {
  unsigned every, limit;
  atomic_uint seen;
  _Atomic uint64_t* flipped;
};

static struct plan chunks, headers;

static void read_plan(struct plan* plan, const char* name) {
  const char* text = getenv(name);
  if (text == NULL || sscanf(text, "%u %u", &plan->every, &plan->limit) != 2) plan->every = 0;
}

__attribute__((constructor)) static void start(void) {
  const char* path = getenv("TUTTI_TEST_FLIPS");
  int file = path == NULL ? -1 : open(path, O_RDWR | O_CLOEXEC);
  void* counters = file < 0 ? MAP_FAILED : mmap(NULL, 16, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (counters == MAP_FAILED) return;
  chunks.flipped = counters;
  headers.flipped = chunks.flipped + 1;
  read_plan(&chunks, "TUTTI_TEST_FLIP_CHUNKS");
  read_plan(&headers, "TUTTI_TEST_FLIP_HEADERS");
}

/* Whether it is the turn of this one. */
static int takes(struct plan* plan) {
  if (plan->every == 0 || plan->flipped == NULL) return 0;
  if ((atomic_fetch_add(&plan->seen, 1) + 1) % plan->every != 0) return 0;
  uint64_t flipped = atomic_load(plan->flipped);
  while (flipped < plan->limit)
    if (atomic_compare_exchange_weak(plan->flipped, &flipped, flipped + 1)) return 1;
  return 0;
}

static void flip(unsigned char* bytes, size_t count, uint64_t what) {
  const uint64_t bit = (what * 0x9e3779b97f4a7c15u >> 20) % (8 * count);
  bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
}

ssize_t readv(int file, const struct iovec* parts, int count) {
  static ssize_t (*real)(int, const struct iovec*, int);
  if (real == NULL) real = (ssize_t(*)(int, const struct iovec*, int))dlsym(RTLD_NEXT, "readv");
  const ssize_t got = real(file, parts, count);
  if (count == 2 && got > 0 && (size_t)got >= parts[0].iov_len && parts[0].iov_len != 0 && takes(&chunks))
    flip(parts[0].iov_base, parts[0].iov_len, atomic_load(chunks.flipped));
  return got;
}

ssize_t recv(int file, void* buffer, size_t size, int flags) {
  static ssize_t (*real)(int, void*, size_t, int);
  if (real == NULL) real = (ssize_t(*)(int, void*, size_t, int))dlsym(RTLD_NEXT, "recv");
  const ssize_t got = real(file, buffer, size, flags);
  unsigned char* bytes = buffer;
  /* What is read before a connection is a lane is asked for by its size. */
  if (size >= kLeastRead && got >= kHeaderBytes && bytes[0] == 'T' && bytes[1] == 'T' && bytes[2] == kFormat &&
      takes(&headers))
    flip(bytes, kHeaderBytes, atomic_load(headers.flipped));
  return got;
}
