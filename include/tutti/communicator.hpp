// The object users hold: a set of ranks that run collectives together.
//
// A Communicator is a handle (move-only). All calls may come from any thread; collectives of one communicator must be
// called in the same order on all its ranks, operations on different communicators never wait for each other.
// Blocking calls run on the caller's thread; `*_async` calls return a Work at once and are driven by the process's
// progress thread, or by whoever waits. Buffers belong to the operation until it is done.
// Destruction ends what is under way: it waits for asynchronous operations as long as they move, and aborts, on all
// ranks, what has not moved for five seconds. Nothing touches the caller's buffers after it.
// Failure: every call returns a Status that names rank, peer and operation. After rank_died, mismatch, timed_out or
// aborted the communicator is broken: every pending and later call fails with that error until shrink() (which gives a
// working communicator of the survivors) or destruction. Nothing blocks without a deadline or an abort. One exception:
// a call that fails waits until user operators on other ranks of the same process, which may use its buffers, return.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/error.hpp"
#include "tutti/shrink.hpp"
#include "tutti/types.hpp"
#include "tutti/unique_id.hpp"

namespace tutti {

/// How a communicator behaves; the defaults come from the environment (`tutti env`).
struct Options {
  double timeout = 0.0;       // seconds an operation may take once it has to wait; 0: no limit
  double join_timeout = 0.0;  // seconds to wait for all ranks at creation; 0: TUTTI_JOIN_TIMEOUT
  bool reproducible = false;  // same bits whatever the size and layout
  std::string select;         // override of program selection, as TUTTI_SELECT
  std::string name;           // for logs and errors
  std::stop_token cancel;  // ends a creation that is under way with `aborted`; the other ranks hear that this one left

  /// As the environment says.
  static Options from_environment();
};

/// How a communicator takes in newcomers. What rank 0 says counts for all.
///
/// Newcomers find the ranks by an id: one that rank 0 made earlier, where they may be waiting already, or one that
/// grow() makes and hands to `invite`. With neither they meet at the launcher's address (TUTTI_ADDRESS), which must
/// lead to rank 0, by the secret of the job.
struct GrowOptions {
  int newcomers = 1;     // how many to wait for
  int at_least = 0;      // how many suffice when time is up; 0: all
  bool fill = true;      // they take the numbers of ranks that were lost; false: those after the last
  double seconds = 0.0;  // to wait for them; 0: as at creation
  std::optional<UniqueId> id;
  std::function<void(const UniqueId&)> invite;  // called on rank 0 once newcomers may come
};

/// Where ranks sit.
struct HostLayout {
  std::vector<int> host_of_rank;  // index of the host, in order of first appearance
  int hosts = 1;
  int local_rank = 0;  // this rank among those of its host, in rank order
  int local_size = 1;
};

struct Call;
struct Operation;
class ProvenProgram;
struct TcpCounters;

/// An operation under way. Copyable; the operation goes on if all handles are dropped.
class Work {
 public:
  Work() = default;
  /// True once done, well or not; drives progress, never blocks.
  bool test();
  /// Waits until done, or for `seconds` at most (timed_out: the operation goes on, wait again). 0: no limit.
  [[nodiscard]] Status wait(double seconds = 0.0);
  /// The error, once done with one.
  const Error* error() const;

 private:
  friend class Communicator;
  explicit Work(std::shared_ptr<Operation> state) : state_(std::move(state)) {}
  std::shared_ptr<Operation> state_;
};

class CommunicatorImpl;

class Communicator {
 public:
  /// Every rank calls this with the same id, which one of them made by UniqueId::create().
  [[nodiscard]] static Result<Communicator> create(const UniqueId& id, int rank, int size,
                                                   const Options& options = Options::from_environment());
  /// Creates several ranks of this process at once: element i is rank `ranks[i]`. Returns all of them, or an error.
  [[nodiscard]] static Result<std::vector<Communicator>> create(const UniqueId& id, std::span<const int> ranks,
                                                                int size,
                                                                const Options& options = Options::from_environment());
  /// Rank, size and meeting point from the launcher: tutti run, torchrun, srun, mpirun, Kubernetes.
  [[nodiscard]] static Result<Communicator> create_from_environment(
      const Options& options = Options::from_environment());
  /// All ranks as threads of this process; element r is to be used by one thread as rank r.
  [[nodiscard]] static Result<std::vector<Communicator>> create_threads(
      int size, const Options& options = Options::from_environment());

  Communicator(Communicator&&) noexcept;
  Communicator& operator=(Communicator&&) noexcept;
  ~Communicator();

  int rank() const;
  int size() const;
  const HostLayout& layout() const;

  /// New communicators; collective calls. Ranks with the same color form one, ordered by key, then rank; a negative
  /// color takes part in none and gets nullptr.
  [[nodiscard]] Result<std::unique_ptr<Communicator>> split(int color, int key = 0);
  [[nodiscard]] Result<Communicator> duplicate();
  /// Survivors agree on who is left and go on without the dead; works on a broken communicator. Ranks that are silent
  /// are left out only by a majority, or as the options say: otherwise the two halves of a network that fell apart
  /// would both go on. no_quorum names those that are silent; this communicator stays broken, and shrink() may be
  /// called again with other options. timed_out names ranks that live and did not call shrink() in time.
  [[nodiscard]] Result<Communicator> shrink(double seconds = 10.0);
  [[nodiscard]] Result<Communicator> shrink(const ShrinkOptions& options);
  /// Takes in newcomers, which call join(): a collective call of all ranks, on a shrunk communicator or a healthy one.
  /// Gives a new communicator. Ranks that were lost to shrink() have left their numbers free; newcomers fill them, and
  /// all have the numbers again that they had before, once none is free. Newcomers beyond that come after the last.
  /// This communicator is left as it is, also where growing fails: at the deadline, which names who is missing, or
  /// when one of its ranks is lost. One id serves one call, well or not.
  [[nodiscard]] Result<Communicator> grow(const GrowOptions& options);
  /// Joins ranks that grow their communicator, now or before options.join_timeout, by the id that rank 0 gave out.
  /// `rank`: the number wished for, taken into account where it is free. Which programs run is the others' choice:
  /// `select` and `reproducible` of the options are replaced by theirs.
  [[nodiscard]] static Result<Communicator> join(const UniqueId& id, int rank = -1,
                                                 const Options& options = Options::from_environment());
  /// Joins where the launcher says, by TUTTI_UNIQUE_ID or at its address, and wishes for the rank it says.
  [[nodiscard]] static Result<Communicator> join_from_environment(const Options& options = Options::from_environment());
  /// Ends every pending operation here and on all peers; always returns at once.
  void abort(std::string_view reason = "abort was called");
  /// The error that broke this communicator, if any.
  [[nodiscard]] Status status() const;
  /// Replaces the rules by which programs are selected, as TUTTI_SELECT; all ranks must do so between the same calls.
  [[nodiscard]] Status select(std::string_view rules);

  // Collectives. Counts are elements. In place: pass the same pointer as the collective defines it (all_reduce,
  // reduce: send == recv; all_gather, gather: send == recv + rank * count; reduce_scatter, scatter: recv == send +
  // rank * count). `count` is per rank for all_gather, reduce_scatter, all_to_all, gather, scatter.
  // Calls that differ between ranks fail on all of them. Small broadcasts and scatters whose roots differ need nothing
  // of each other and may end well, with wrong data: that is found at the latest at the next collective, or reported in
  // the log when the communicator is destroyed.
  [[nodiscard]] Status all_reduce(const void* send, void* recv, std::size_t count, DataType type, const Reduction& op);
  [[nodiscard]] Status reduce(const void* send, void* recv, std::size_t count, DataType type, const Reduction& op,
                              int root);
  [[nodiscard]] Status broadcast(const void* send, void* recv, std::size_t count, DataType type, int root);
  [[nodiscard]] Status all_gather(const void* send, void* recv, std::size_t count, DataType type);
  [[nodiscard]] Status reduce_scatter(const void* send, void* recv, std::size_t count, DataType type,
                                      const Reduction& op);
  [[nodiscard]] Status all_to_all(const void* send, void* recv, std::size_t count, DataType type);
  [[nodiscard]] Status gather(const void* send, void* recv, std::size_t count, DataType type, int root);
  [[nodiscard]] Status scatter(const void* send, void* recv, std::size_t count, DataType type, int root);
  [[nodiscard]] Status barrier();

  // Uneven blocks: counts and offsets in elements, one per rank, the same on all ranks for all_gather_v and
  // reduce_scatter_v; empty offsets: blocks lie one after another. all_to_all_v: this rank's own counts, the peers'
  // must agree. gather_v, scatter_v: counts matter on the root; `count` is this rank's own.
  [[nodiscard]] Status all_gather_v(const void* send, void* recv, std::span<const std::size_t> counts,
                                    std::span<const std::size_t> offsets, DataType type);
  [[nodiscard]] Status reduce_scatter_v(const void* send, void* recv, std::span<const std::size_t> counts,
                                        std::span<const std::size_t> offsets, DataType type, const Reduction& op);
  [[nodiscard]] Status all_to_all_v(const void* send, std::span<const std::size_t> send_counts,
                                    std::span<const std::size_t> send_offsets, void* recv,
                                    std::span<const std::size_t> recv_counts, std::span<const std::size_t> recv_offsets,
                                    DataType type);
  [[nodiscard]] Status gather_v(const void* send, std::size_t count, void* recv, std::span<const std::size_t> counts,
                                std::span<const std::size_t> offsets, DataType type, int root);
  [[nodiscard]] Status scatter_v(const void* send, std::span<const std::size_t> counts,
                                 std::span<const std::size_t> offsets, void* recv, std::size_t count, DataType type,
                                 int root);

  [[nodiscard]] Status send(const void* data, std::size_t count, DataType type, int peer);
  [[nodiscard]] Status recv(void* data, std::size_t count, DataType type, int peer);

  [[nodiscard]] Result<Work> all_reduce_async(const void* send, void* recv, std::size_t count, DataType type,
                                              const Reduction& op);
  [[nodiscard]] Result<Work> reduce_async(const void* send, void* recv, std::size_t count, DataType type,
                                          const Reduction& op, int root);
  [[nodiscard]] Result<Work> broadcast_async(const void* send, void* recv, std::size_t count, DataType type, int root);
  [[nodiscard]] Result<Work> all_gather_async(const void* send, void* recv, std::size_t count, DataType type);
  [[nodiscard]] Result<Work> reduce_scatter_async(const void* send, void* recv, std::size_t count, DataType type,
                                                  const Reduction& op);
  [[nodiscard]] Result<Work> all_to_all_async(const void* send, void* recv, std::size_t count, DataType type);
  [[nodiscard]] Result<Work> gather_async(const void* send, void* recv, std::size_t count, DataType type, int root);
  [[nodiscard]] Result<Work> scatter_async(const void* send, void* recv, std::size_t count, DataType type, int root);
  [[nodiscard]] Result<Work> barrier_async();
  [[nodiscard]] Result<Work> send_async(const void* data, std::size_t count, DataType type, int peer);
  [[nodiscard]] Result<Work> recv_async(void* data, std::size_t count, DataType type, int peer);

 private:
  friend class Group;
  friend Status install_program(Communicator& communicator, ProvenProgram program);
  friend TcpCounters network_traffic(const Communicator& communicator);
  explicit Communicator(std::shared_ptr<CommunicatorImpl> impl);
  [[nodiscard]] Result<Work> submit(const Result<Call>& call);
  std::shared_ptr<CommunicatorImpl> impl_;
};

/// Fuses operations, of one or several communicators, that this thread issues between construction and end(): calls
/// return at once, and all run together, so that sends and receives may be written in any order. Asynchronous calls are
/// refused in it.
class Group {
 public:
  Group();
  ~Group();  // ends it if end() was not called
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  /// Runs what was issued, at the end of the outermost group; returns the first error.
  [[nodiscard]] Status end();

 private:
  bool open_ = true;
};

}  // namespace tutti
