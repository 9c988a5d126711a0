// For tests of the engine: ranks that run in one thread, with links between them and memory that they reach, all made
// of plain containers. A test makes a link or a rank late or wrong by the fields that say so. What the engine must not
// do (change memory that is still being sent, use a stage outside of a turn) is noted as a fault.
//
// An Exercise holds the buffers of one collective on all ranks and knows what must come out. FakeRanks runs it: one
// Execution per rank, advanced in an order that follows from a seed.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <random>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/execution.hpp"
#include "engine/exercise_test_kit.hpp"

namespace tutti {

struct FakeLimits {
  std::size_t chunk_limit = 4096;
  std::size_t slots = 2;           // chunks that a link takes before its receiver takes any
  std::size_t stage_bytes = 4096;  // of each half of a rank's stage
};

/// What all fakes of a test share.
struct FakeNotes {
  std::vector<std::string> faults;  // of the engine
  std::uint64_t moves = 0;          // changes that another rank can notice
};

/// A link from one rank to another, both its ends. Memory that is sent and not copied is read when the receiver asks
/// for it, and compared when it is released.
class FakeLink {
 public:
  FakeLink(const FakeLimits& limits, FakeNotes& notes) : limits_(limits), notes_(notes) {}
  FakeLink(const FakeLink&) = delete;
  FakeLink& operator=(const FakeLink&) = delete;

  bool is_prompt = true;            // chunks arrive, and credit and memory return, at once; else in progress()
  bool lands = false;               // chunks are put where they are expected as soon as they are here
  bool copies = true;               // send_copy() copies; else it does what send() does
  bool holds_chunks = false;        // no chunk arrives
  Transit transit = Transit::none;  // as it tells
  bool holds_memory = false;        // no memory is released, but that of chunks that were copied
  std::optional<Error> send_error;
  std::optional<Error> recv_error;
  std::optional<OperationTag> false_tag;   // chunks carry this instead of theirs
  std::optional<std::size_t> false_bytes;  // chunks claim to have this size

  SendLink& send_end() { return sender_; }
  RecvLink& recv_end() { return receiver_; }
  /// Lets so many chunks arrive although they are held.
  void deliver(std::uint64_t chunks);
  /// Brings to the other end what is under way and not held. Returns whether anything changed.
  bool progress();

  std::uint64_t sent() const { return chunks_.size(); }
  std::uint64_t sent_copies() const { return sent_copies_; }
  std::uint64_t taken() const { return taken_; }
  /// Returns how many chunks were announced to the receiving end.
  std::uint64_t expected() const { return taken_ + expected_.size(); }

 private:
  struct Chunk {
    const std::byte* data;             // the sender's memory
    std::vector<std::byte> when_sent;  // what it held then
    std::size_t bytes;
    OperationTag tag;
    bool is_copied;
    bool has_landed = false;
  };
  struct Expected {
    std::byte* landing;
    std::size_t bytes;
    OperationTag tag;
  };
  class Sender final : public SendLink {
   public:
    explicit Sender(FakeLink& link) : link_(link) {}
    bool send(const std::byte* data, std::size_t bytes, OperationTag tag) override {
      return link_.take(data, bytes, tag, false);
    }
    bool send_copy(const std::byte* data, std::size_t bytes, OperationTag tag) override {
      return link_.take(data, bytes, tag, link_.copies);
    }
    std::uint64_t sent() const override { return link_.chunks_.size(); }
    std::uint64_t released() override { return link_.released_; }
    std::size_t chunk_limit() const override { return link_.limits_.chunk_limit; }
    const Error* error() const override { return link_.send_error ? &*link_.send_error : nullptr; }
    void observe(monitor::LinkRecord&) override {}

   private:
    FakeLink& link_;
  };
  class Receiver final : public RecvLink {
   public:
    explicit Receiver(FakeLink& link) : link_(link) {}
    void expect(std::byte* landing, std::size_t bytes, OperationTag tag) override;
    std::optional<Arrival> poll() override { return link_.poll(); }
    void release() override { link_.release(); }
    Transit transit() const override { return link_.transit; }
    std::size_t chunk_limit() const override { return link_.limits_.chunk_limit; }
    const Error* error() const override { return link_.recv_error ? &*link_.recv_error : nullptr; }
    void observe(monitor::LinkRecord&) override {}

   private:
    FakeLink& link_;
  };

  bool take(const std::byte* data, std::size_t bytes, OperationTag tag, bool copy);
  std::optional<Arrival> poll();
  void release();
  void settle();
  void land();
  void release_memory();
  static const std::byte* source_of(const Chunk& chunk) {
    return chunk.is_copied ? chunk.when_sent.data() : chunk.data;
  }

  const FakeLimits limits_;
  FakeNotes& notes_;
  Sender sender_{*this};
  Receiver receiver_{*this};
  std::vector<Chunk> chunks_;  // all that were sent
  std::deque<Expected> expected_;
  std::vector<std::byte> staging_;
  bool is_fetched_ = false;  // the oldest chunk lies in `staging_`
  std::uint64_t sent_copies_ = 0;
  std::uint64_t arrived_ = 0;
  std::uint64_t taken_ = 0;
  std::uint64_t credited_ = 0;      // of those taken, what the sender knows
  std::uint64_t acknowledged_ = 0;  // the same for memory
  std::uint64_t released_ = 0;
};

/// What the ranks of a host show each other.
struct FakeHost {
  struct Entry {
    std::uint32_t number = 0;  // of the operation, plus one
    std::uint32_t signature = 0;
    std::span<std::byte> sides[2];
    bool is_mapped = false;
  };
  struct Rank {
    Entry entries[2];
    std::vector<std::byte> stage[2];
    std::map<std::pair<int, int>, std::uint64_t> signals;  // by sender and channel: not yet taken
  };

  FakeHost(int ranks, const FakeLimits& limits);
  /// Returns whether something was written behind the end of a stage.
  bool has_overrun() const;

  FakeLimits limits;
  std::vector<Rank> ranks;
};

/// The stages of a host's ranks as one of them sees them.
class FakeStage final : public SharedStage {
 public:
  FakeStage(FakeHost& host, int rank, FakeNotes& notes) : host_(host), rank_(rank), notes_(notes) {}

  int turns() const { return turns_; }
  int half() const { return half_; }
  int copies() const { return copies_; }
  std::size_t bytes_read() const { return bytes_read_; }
  bool is_in_turn() const { return is_in_turn_; }

  std::size_t bytes() const override { return host_.limits.stage_bytes; }
  std::byte* own() const override { return of(rank_); }
  std::byte* of(int peer) const override;
  void begin_turn() override;
  void end_turn(bool change_halves) override;
  void copy(std::byte* to, const std::byte* from, std::size_t bytes) override;
  void count_read(std::uint64_t, std::size_t bytes) override { bytes_read_ += bytes; }

 private:
  void note(const char* fault) const { notes_.faults.emplace_back(fault); }

  FakeHost& host_;
  const int rank_;
  FakeNotes& notes_;
  int half_ = 0;
  bool is_in_turn_ = false;
  int turns_ = 0;
  int copies_ = 0;
  std::size_t bytes_read_ = 0;
};

/// The ranks of a host as one of them sees them.
class FakePeers final : public OneSidedPeers {
 public:
  FakePeers(FakeHost& host, int rank, FakeNotes& notes)
      : OneSidedPeers(has_stopped), host_(host), rank_(rank), notes_(notes), stage_(host, rank, notes) {}

  bool is_mapped = true;                      // peers can map this rank's buffers; else they have to pull
  std::atomic<std::uint32_t> has_stopped{0};  // 1: a peer has given up
  bool refuses_push = false;                  // the same, as it shows in begin_push()
  std::optional<Error> begin_use_error;
  std::optional<Error> pull_error;

  int uses() const { return uses_; }  // of peers' buffers, not ended yet
  int pulls() const { return pulls_; }
  int pushes() const { return pushes_; }
  int operations_left() const { return operations_left_; }
  const std::vector<int>& rung() const { return rung_; }
  bool is_quiet() const { return uses_ == 0 && !stage_.is_in_turn() && !is_pushing_; }

  bool enter(OperationTag tag, std::span<std::byte> input, std::span<std::byte> output) override;
  Entered has_entered(int peer, OperationTag tag) const override;
  bool can_map(int peer) const override { return entry_of(peer).is_mapped; }
  Result<std::array<Place, 2>> begin_use(int peer) override;
  void end_use(int peer) override;
  Status pull(int peer, std::byte* target, std::uint64_t address, std::size_t bytes) override;
  void leave_operation() override;
  void ring(int peer) const override { rung_.push_back(peer); }

  FakeStage& stage() override { return stage_; }

  void signal(int peer, int channel) override;
  bool take_signal(int peer, int channel) override;

  bool begin_push() override;
  void end_push() override;

 private:
  const FakeHost::Entry& entry_of(int peer) const;
  void note(const char* fault) const { notes_.faults.emplace_back(fault); }

  FakeHost& host_;
  const int rank_;
  FakeNotes& notes_;
  FakeStage stage_;
  int entry_ = 0;  // of the two
  bool is_pushing_ = false;
  int uses_ = 0;
  int pulls_ = 0;
  int pushes_ = 0;
  int operations_left_ = 0;
  mutable std::vector<int> rung_;
};

enum class Outcome { done, failed, stuck };
inline std::ostream& operator<<(std::ostream& out, Outcome outcome) {
  return out << (outcome == Outcome::done ? "done" : outcome == Outcome::failed ? "failed" : "stuck");
}

class FakeRanks {
 public:
  /// Seed 0: links are prompt and no chunk lands. Others draw that, link by link.
  explicit FakeRanks(int ranks, const FakeLimits& limits = {}, std::uint64_t seed = 0);

  int size() const { return static_cast<int>(ranks_.size()); }
  FakeLink& link(int from, int to, int channel = 0);
  FakePeers& peers(int rank) { return at(rank).peers; }
  Links& links(int rank) { return at(rank).links; }
  Execution& execution(int rank) { return at(rank).execution; }
  std::atomic<bool>& stop(int rank) { return at(rank).stop; }
  Plan& mapped_plan(int rank) { return *at(rank).plans[1]; }
  std::optional<Error> send_refusal;  // what links answer who asks for the sending end
  std::optional<Error> recv_refusal;

  /// Compiles a program for the calls of an exercise. No rank has entered it then.
  void load(const Program& program, const Exercise& exercise, std::size_t tile = 0);
  /// Compiles another that runs instead if all buffers can be mapped. After load().
  void load_mapped(const Program& program, std::size_t tile = 0);
  /// Adds an exercise of the same task, on other buffers. Every rank goes on to it as soon as it is done with the last.
  void load_next(const Exercise& exercise) { exercises_.push_back(&exercise); }

  /// Lets a rank enter its next operation, under a tag that is not its own if one is given.
  Status start(int rank, std::optional<OperationTag> tag = {});
  /// Lets all ranks enter that have not.
  void start_all();
  bool advance(int rank) { return execution(rank).advance(); }
  /// Lets all ranks enter and run in random order until none is running, or nothing moves.
  Outcome run();

  /// Returns the first fault of the engine that was noticed; empty: none.
  std::string fault() const;

 private:
  class LinksOf final : public Links {
   public:
    LinksOf(FakeRanks& ranks, int rank) : ranks_(ranks), rank_(rank) {}
    Result<SendLink*> send_link(int rank, int channel) override;
    Result<RecvLink*> recv_link(int rank, int channel) override;
    std::size_t window() const override { return ranks_.limits_.slots * ranks_.limits_.chunk_limit; }

   private:
    FakeRanks& ranks_;
    int rank_;
  };
  struct Rank {
    Rank(FakeRanks& ranks, int rank) : links(ranks, rank), peers(ranks.host_, rank, ranks.notes_) {}
    LinksOf links;
    FakePeers peers;
    Execution execution;
    std::unique_ptr<Plan> plans[2];
    std::atomic<bool> stop{false};
    std::uint32_t number = 0;  // of the next operation
    std::size_t started = 0;   // exercises
    bool is_bound = false;     // the execution, to these plans
  };

  Rank& at(int rank) { return *ranks_[static_cast<std::size_t>(rank)]; }
  void compile_for_all(const Program& program, std::size_t which);
  bool has_next(const Rank& rank) const;
  bool act(std::size_t actor);
  bool run_round(bool all_act);
  bool is_anyone_running() const;

  const FakeLimits limits_;
  FakeNotes notes_;
  FakeHost host_;
  std::uint64_t seed_;
  std::mt19937_64 random_;
  std::map<std::tuple<int, int, int>, std::unique_ptr<FakeLink>> links_;  // by sender, receiver and channel
  std::vector<FakeLink*> every_link_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::vector<const Exercise*> exercises_;
  std::size_t tile_[2] = {};  // of each plan
};

/// Runs the exercise by the program under a seed, and expects it to come out right. Returns whether it did.
bool runs_right(const Program& program, const Task& task, const FakeLimits& limits, std::uint64_t seed,
                std::size_t tile = 0);

}  // namespace tutti
