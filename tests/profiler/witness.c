/* A profiler plugin as others write them: in C, from NCCL's description of version 5 of the interface alone, which is
 * declared here anew so that ours is held against it. Writes a line for each thing it is told to $WITNESS_LOG.RANK;
 * events are numbered as they start. */
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { kGroup = 1, kColl = 2, kP2p = 4, kKernelCh = 64, kGroupApi = 256, kCollApi = 512, kP2pApi = 1024 };

typedef struct {
  uint64_t type;
  void* parentObj;
  int rank;
  union {
    struct {
      bool graphCaptured;
      int groupDepth;
    } groupApi;
    struct {
      const char* func;
      size_t count;
      const char* datatype;
      int root;
      void* stream;
      bool graphCaptured;
    } collApi;
    struct {
      const char* func;
      size_t count;
      const char* datatype;
      void* stream;
      bool graphCaptured;
    } p2pApi;
    struct {
      uint64_t seqNumber;
      const char* func;
      void const* sendBuff;
      void* recvBuff;
      size_t count;
      int root;
      const char* datatype;
      uint8_t nChannels;
      uint8_t nWarps;
      const char* algo;
      const char* proto;
      void* parentGroup;
    } coll;
    struct {
      const char* func;
      void* buff;
      const char* datatype;
      size_t count;
      int peer;
      uint8_t nChannels;
      void* parentGroup;
    } p2p;
    struct {
      uint8_t channelId;
      uint64_t pTimer;
    } kernelCh;
  };
} Description;

typedef void (*Logger)(int level, unsigned long flags, const char* file, int line, const char* format, ...);

struct Context {
  FILE* file;
  int events;
  pthread_mutex_t mutex;
};
struct Event {
  struct Context* context;
  int number;
  uint64_t began;
};

static int number_of(const void* event) { return event == NULL ? 0 : ((const struct Event*)event)->number; }

static int init(void** context, uint64_t id, int* mask, const char* name, int hosts, int ranks, int rank, Logger log) {
  char path[4096];
  struct Context* made = calloc(1, sizeof *made);
  snprintf(path, sizeof path, "%s.%d", getenv("WITNESS_LOG"), rank);
  made->file = fopen(path, "w");
  if (made->file == NULL) return 2;
  pthread_mutex_init(&made->mutex, NULL);
  fprintf(made->file, "init %s hosts %d ranks %d rank %d\n", name ? name : "-", hosts, ranks, rank);
  log(2, 1, __FILE__, __LINE__, "rank %d is witnessed, communicator %s", rank, id != 0 ? "named" : "nameless");
  *context = made;
  *mask = kGroup | kColl | kP2p | kKernelCh | kGroupApi | kCollApi | kP2pApi;
  return 0;
}

static int start(void* context, void** handle, Description* told) {
  struct Context* in = context;
  struct Event* event = calloc(1, sizeof *event);
  pthread_mutex_lock(&in->mutex);
  event->context = in;
  event->number = ++in->events;
  fprintf(in->file, "start %d ", event->number);
  switch (told->type) {
    case kGroupApi:
      fprintf(in->file, "GroupApi depth %d", told->groupApi.groupDepth);
      break;
    case kCollApi:
      fprintf(in->file, "CollApi %s %zu %s root %d", told->collApi.func, told->collApi.count, told->collApi.datatype,
              told->collApi.root);
      break;
    case kP2pApi:
      fprintf(in->file, "P2pApi %s %zu %s", told->p2pApi.func, told->p2pApi.count, told->p2pApi.datatype);
      break;
    case kGroup:
      fprintf(in->file, "Group");
      break;
    case kColl:
      fprintf(in->file, "Coll %s %zu %s root %d number %lu channels %d rank %d group %d%s", told->coll.func,
              told->coll.count, told->coll.datatype, told->coll.root, (unsigned long)told->coll.seqNumber,
              told->coll.nChannels, told->rank, number_of(told->coll.parentGroup),
              told->coll.algo[0] != 0 && told->coll.proto[0] != 0 ? "" : " nameless");
      break;
    case kP2p:
      fprintf(in->file, "P2p %s %zu %s peer %d channels %d rank %d group %d%s", told->p2p.func, told->p2p.count,
              told->p2p.datatype, told->p2p.peer, told->p2p.nChannels, told->rank, number_of(told->p2p.parentGroup),
              told->p2p.buff != NULL ? "" : " nowhere");
      break;
    case kKernelCh:
      event->began = told->kernelCh.pTimer;
      fprintf(in->file, "KernelCh %d", told->kernelCh.channelId);
      break;
    default:
      fprintf(in->file, "unexpected %lu", (unsigned long)told->type);
  }
  fprintf(in->file, " in %d\n", number_of(told->parentObj));
  pthread_mutex_unlock(&in->mutex);
  *handle = event;
  return 0;
}

static int stop(void* handle) {
  struct Event* event = handle;
  struct Context* in = event->context;
  pthread_mutex_lock(&in->mutex);
  fprintf(in->file, "stop %d\n", event->number);
  pthread_mutex_unlock(&in->mutex);
  free(event);
  return 0;
}

static int record_state(void* handle, int state, void* arguments) {
  struct Event* event = handle;
  struct Context* in = event->context;
  pthread_mutex_lock(&in->mutex);
  if (state == 22)
    fprintf(in->file, "state of %d: lasted %s\n", event->number,
            *(const uint64_t*)arguments > event->began ? "a while" : "no time");
  else
    fprintf(in->file, "state of %d: %d\n", event->number, state);
  pthread_mutex_unlock(&in->mutex);
  return 0;
}

static int finalize(void* context) {
  struct Context* in = context;
  fprintf(in->file, "finalize\n");
  fclose(in->file);
  free(in);
  return 0;
}

struct {
  const char* name;
  int (*init)(void**, uint64_t, int*, const char*, int, int, int, Logger);
  int (*startEvent)(void*, void**, Description*);
  int (*stopEvent)(void*);
  int (*recordEventState)(void*, int, void*);
  int (*finalize)(void*);
} ncclProfiler_v5 = {"witness", init, start, stop, record_state, finalize};
