// MSCCL++'s executor in small: runs a plan on symbolic values, as its reader and its kernel understand plans, with
// thread blocks taking turns at random. For tests of plans.
//
// A value is the list of contributions (run, rank, chunk) summed in it. Ranks do several runs, each beginning the next
// as soon as all its blocks are done, so that what a plan must not do before its peers have begun shows. Anything wrong
// is a GoogleTest failure: a value that is not what the collective promises, blocks that wait for ever, a channel or a
// semaphore that ends with a signal too many, or data that threads of a block move without having met (nop) after a
// wait or before a signal.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "program/program.hpp"

namespace tutti {

class MscclppExecutor {
 public:
  using Json = nlohmann::json;

  MscclppExecutor(const std::string& text, const Shape& shape, unsigned seed)
      : plan_(Json::parse(text)), shape_(shape), random_(seed), in_place_(plan_.at("inplace").get<bool>()) {
    const Json& gpus = plan_.at("gpus");
    ranks_.resize(gpus.size());
    for (std::size_t rank = 0; rank < gpus.size(); ++rank) load(static_cast<int>(rank), gpus[rank]);
  }

  void run(int runs) {
    for (int rank = 0; rank < size(); ++rank) begin(rank, 0);
    for (;;) {
      std::vector<Block*> open;
      for (Rank& rank : ranks_)
        for (Block& block : rank.blocks)
          if (!is_done(block) && can_go_on(block)) open.push_back(&block);
      if (open.empty()) break;
      Block& block = *open[random_() % open.size()];
      execute(block, block.ops->at(block.next++));
      Rank& rank = ranks_[at(block.rank)];
      if (!std::all_of(rank.blocks.begin(), rank.blocks.end(), [&](const Block& b) { return is_done(b); })) continue;
      check_outputs(block.rank);
      if (rank.run + 1 < runs) begin(block.rank, rank.run + 1);
    }
    for (int rank = 0; rank < size(); ++rank) check_end(rank, runs);
  }

 private:
  using Value = std::vector<std::array<int, 3>>;

  struct Block {
    int rank = 0;
    const Json* ops = nullptr;
    std::map<std::string, std::vector<int>> channels, buffers;  // by medium: the rank's numbers
    std::size_t next = 0;
    bool has_waited = false, has_moved = false;  // since all threads met
  };

  struct Channel {
    int peer = 0;
    int ordinal = 0;  // among the channels to that peer
    int signals = 0;  // not waited for yet
  };

  struct RemoteBuffer {
    int rank;
    std::string type;
  };

  struct Rank {
    int run = 0;
    std::map<std::string, std::vector<Value>> memory;  // by buffer
    std::map<std::string, std::vector<Channel>> channels;
    std::vector<RemoteBuffer> remote;
    std::vector<int> semaphores;
    std::vector<Block> blocks;
  };

  static std::size_t at(int index) { return static_cast<std::size_t>(index); }
  int size() const { return static_cast<int>(ranks_.size()); }
  static bool is_done(const Block& block) { return block.next == block.ops->size(); }

  void load(int number, const Json& gpu) {
    ASSERT_EQ(gpu.at("id"), number);
    Rank& rank = ranks_[at(number)];
    for (const auto& [key, name] : {std::pair("i", "input_chunks"), {"o", "output_chunks"}, {"s", "scratch_chunks"}})
      rank.memory[key].resize(gpu.at(name).get<std::size_t>());
    ASSERT_GT(rank.memory["i"].size(), 0U) << "the executor divides by it";
    ASSERT_GT(rank.memory["o"].size(), 0U) << "the executor divides by it";
    for (const Json& list : gpu.at("channels")) {
      std::map<int, int> ordinals;
      for (const int peer : list.at("connected_to"))
        rank.channels[list.at("channel_type")].push_back({peer, ordinals[peer]++, 0});
    }
    for (const Json& buffer : gpu.at("remote_buffers")) rank.remote.push_back({buffer.at("rank"), buffer.at("type")});
    for (const Json& semaphore : gpu.at("semaphores")) rank.semaphores.push_back(semaphore.at("init_value"));
    ASSERT_LE(rank.semaphores.size(), 16U);
    for (const Json& json : gpu.at("threadblocks")) {
      ASSERT_EQ(json.at("id"), rank.blocks.size());
      ASSERT_LE(json.at("ops").size(), 64U);
      Block block{number, &json.at("ops"), {}, {}, 0, false, false};
      for (const Json& list : json.at("channels"))
        block.channels[list.at("channel_type")] = list.at("channel_ids").get<std::vector<int>>();
      for (const Json& list : json.at("remote_buffer_refs"))
        block.buffers[list.at("access_channel_type")] = list.at("remote_buffer_ids").get<std::vector<int>>();
      for (const auto& [medium, ids] : block.channels) ASSERT_LE(ids.size(), 16U) << medium;
      for (const auto& [medium, ids] : block.buffers) ASSERT_LE(ids.size(), 16U) << medium;
      rank.blocks.push_back(block);
    }
  }

  /// In place, one of the buffers lies in the other.
  Value& cell(int rank, std::string type, int index) {
    if (in_place_ && type == "i" && shape_.collective != Collective::reduce_scatter) {
      if (shape_.collective == Collective::all_gather) index += rank * shape_.chunks;
      type = "o";
    }
    if (in_place_ && type == "o" && shape_.collective == Collective::reduce_scatter) {
      index += rank * shape_.chunks;
      type = "i";
    }
    return ranks_[at(rank)].memory.at(type).at(at(index));
  }

  void begin(int number, int run) {
    Rank& rank = ranks_[at(number)];
    rank.run = run;
    for (auto& [type, cells] : rank.memory)
      for (Value& value : cells) value.clear();
    for (int chunk = 0; chunk < input_chunks(shape_, number); ++chunk)
      cell(number, "i", chunk) = {{run, number, chunk}};
    for (Block& block : rank.blocks) {
      block.next = 0;
      block.has_waited = block.has_moved = false;
    }
  }

  Channel& channel(const Block& block, const Json& op) {
    const std::string medium = op.at("channel_type");
    const int number = block.channels.at(medium).at(op.at("channel_ids").at(0).get<std::size_t>());
    return ranks_[at(block.rank)].channels.at(medium).at(at(number));
  }

  void signal(const Block& block, const Json& op) {
    const Channel& mine = channel(block, op);
    for (Channel& theirs : ranks_[at(mine.peer)].channels.at(op.at("channel_type")))
      if (theirs.peer == block.rank && theirs.ordinal == mine.ordinal) {
        ++theirs.signals;
        return;
      }
    ADD_FAILURE() << "rank " << mine.peer << " has no channel to rank " << block.rank << " for " << op;
  }

  bool can_go_on(const Block& block) {
    const Json& op = block.ops->at(block.next);
    if (op.at("name") == "wait") return channel(block, op).signals > 0;
    if (op.at("name") == "sem_acquire")
      return ranks_[at(block.rank)].semaphores.at(op.at("semaphore_ids").at(0).get<std::size_t>()) > 0;
    return true;
  }

  void execute(Block& block, const Json& op) {
    const std::string name = op.at("name");
    if (name == "nop") {
      block.has_waited = block.has_moved = false;
    } else if (name == "wait") {
      --channel(block, op).signals;
      block.has_waited = true;
    } else if (name == "sem_acquire") {
      --ranks_[at(block.rank)].semaphores.at(op.at("semaphore_ids").at(0).get<std::size_t>());
      block.has_waited = true;
    } else if (name == "signal" || name == "sem_release") {
      EXPECT_FALSE(block.has_moved) << "a signal before all threads have met: " << op;
      if (name == "signal")
        signal(block, op);
      else
        ++ranks_[at(block.rank)].semaphores.at(op.at("semaphore_ids").at(0).get<std::size_t>());
    } else {
      EXPECT_FALSE(block.has_waited || block.has_moved) << "data moves before all threads have met: " << op;
      block.has_moved = true;
      move(block, op, name);
    }
  }

  void move(const Block& block, const Json& op, const std::string& name) {
    const int chunks = op.at("src_buff").at(0).at("size");
    for (int i = 0; i < chunks; ++i) {
      Value sum;
      for (const Json& source : op.at("src_buff")) {
        EXPECT_EQ(source.at("size"), chunks);
        const Value& value = cell(block.rank, source.at("type"), source.at("index").get<int>() + i);
        EXPECT_FALSE(value.empty()) << "nothing is there yet: rank " << block.rank << " " << op;
        sum.insert(sum.end(), value.begin(), value.end());
      }
      std::sort(sum.begin(), sum.end());
      ASSERT_EQ(op.at("dst_buff").size(), 1U);
      const Json& target = op.at("dst_buff").at(0);
      EXPECT_EQ(target.at("size"), chunks);
      const int index = target.at("index").get<int>() + i;
      if (name == "copy" || name == "re") {
        cell(block.rank, target.at("type"), index) = sum;
      } else {
        ASSERT_TRUE(name == "put" || name == "pwsf") << name;
        const auto& ids = block.buffers.at(op.at("channel_type"));
        const RemoteBuffer& remote = ranks_[at(block.rank)].remote.at(at(ids.at(target.at("buffer_id"))));
        EXPECT_EQ(remote.rank, channel(block, op).peer);
        cell(remote.rank, remote.type, index) = sum;
      }
    }
    if (name == "pwsf") signal(block, op);
  }

  Value promised(int rank, int run, int index) const {
    const int block = index / shape_.chunks, piece = index % shape_.chunks;
    switch (shape_.collective) {
      case Collective::all_gather:
        return {{run, block, piece}};
      case Collective::all_to_all:
        return {{run, block, rank * shape_.chunks + piece}};
      case Collective::broadcast:
        return {{run, shape_.root, index}};
      default:
        break;
    }
    Value sum;
    const int chunk = shape_.collective == Collective::reduce_scatter ? rank * shape_.chunks + index : index;
    for (int other = 0; other < size(); ++other) sum.push_back({run, other, chunk});
    return sum;
  }

  void check_outputs(int rank) {
    for (int index = 0; index < output_chunks(shape_, rank); ++index)
      EXPECT_EQ(cell(rank, "o", index), promised(rank, ranks_[at(rank)].run, index))
          << "rank " << rank << " output " << index << " of run " << ranks_[at(rank)].run;
  }

  void check_end(int number, int runs) {
    const Rank& rank = ranks_[at(number)];
    for (const Block& block : rank.blocks)
      EXPECT_TRUE(is_done(block)) << "rank " << number << " waits for ever: " << block.ops->at(block.next);
    EXPECT_EQ(rank.run, runs - 1);
    for (const auto& [medium, channels] : rank.channels)
      for (const Channel& channel : channels) EXPECT_EQ(channel.signals, 0) << "from rank " << channel.peer;
    for (const int semaphore : rank.semaphores) EXPECT_EQ(semaphore, 0);
  }

  Json plan_;
  Shape shape_;
  std::mt19937 random_;
  bool in_place_;
  std::vector<Rank> ranks_;
};

}  // namespace tutti
