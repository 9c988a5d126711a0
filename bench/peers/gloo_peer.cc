// Gloo over TCP, met through files beside BENCH_MEETING. For all_reduce it has two algorithms worth having: halving and
// doubling, bound to its buffer ahead, is quicker where latency rules, the ring of gloo::allreduce beyond.
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/alltoall.h>
#include <gloo/broadcast.h>
#include <gloo/math.h>
#include <gloo/reduce_scatter.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#include <sys/stat.h>

#include <cstring>
#include <memory>

#include "loop.hpp"

namespace {

using peers::Collective;

constexpr std::size_t kRingFrom = 1 << 20;  // bytes

class GlooLibrary final : public peers::Library {
 public:
  GlooLibrary(std::shared_ptr<gloo::Context> context) : context_(std::move(context)) {}

  int rank() const override { return context_->rank; }
  int size() const override { return context_->size; }
  bool supports(Collective) const override { return true; }

  void prepare(const peers::Operation& op) override {
    const std::vector<float*> memory = {op.recv};
    bound_.reset();
    work_.clear();
    if (op.collective == Collective::all_reduce && op.count * sizeof(float) < kRingFrom) {
      bound_ = std::make_unique<gloo::AllreduceHalvingDoubling<float>>(context_, memory, static_cast<int>(op.count));
    }
    if (op.collective == Collective::reduce_scatter) {
      const auto ranks = static_cast<std::size_t>(size());
      work_.resize(op.count * ranks);
      bound_ = std::make_unique<gloo::ReduceScatterHalvingDoubling<float>>(
          context_, std::vector<float*>{work_.data()}, static_cast<int>(work_.size()),
          std::vector<int>(ranks, static_cast<int>(op.count)));
    }
  }

  void run(const peers::Operation& op) override {
    ++tag_;
    switch (op.collective) {
      case Collective::all_reduce:
        return all_reduce(op);
      case Collective::all_gather: {
        gloo::AllgatherOptions call(context_);
        call.setInput(const_cast<float*>(op.send), op.count);
        call.setOutput(op.recv, op.count * static_cast<std::size_t>(size()));
        call.setTag(tag_);
        return gloo::allgather(call);
      }
      case Collective::reduce_scatter:
        std::memcpy(work_.data(), op.send, work_.size() * sizeof(float));
        bound_->run();
        std::memcpy(op.recv, work_.data(), op.count * sizeof(float));
        return;
      case Collective::broadcast: {
        gloo::BroadcastOptions call(context_);
        call.setOutput(rank() == op.root ? const_cast<float*>(op.send) : op.recv, op.count);
        call.setRoot(op.root);
        call.setTag(tag_);
        return gloo::broadcast(call);
      }
      case Collective::all_to_all: {
        gloo::AlltoallOptions call(context_);
        call.setInput(const_cast<float*>(op.send), op.count * static_cast<std::size_t>(size()));
        call.setOutput(op.recv, op.count * static_cast<std::size_t>(size()));
        call.setTag(tag_);
        return gloo::alltoall(call);
      }
      case Collective::send_recv:
        return ping_pong(op);
    }
  }

 private:
  void all_reduce(const peers::Operation& op) {
    if (bound_) {
      std::memcpy(op.recv, op.send, op.count * sizeof(float));
      bound_->run();
      return;
    }
    gloo::AllreduceOptions call(context_);
    call.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
    call.setInput(const_cast<float*>(op.send), op.count);
    call.setOutput(op.recv, op.count);
    call.setReduceFunction([](void* c, const void* a, const void* b, std::size_t n) { gloo::sum<float>(c, a, b, n); });
    call.setTag(tag_);
    gloo::allreduce(call);
  }

  void ping_pong(const peers::Operation& op) {
    const int partner = rank() ^ 1;
    const auto send = context_->createUnboundBuffer(const_cast<float*>(op.send), op.count * sizeof(float));
    const auto recv = context_->createUnboundBuffer(op.recv, op.count * sizeof(float));
    recv->recv(partner, tag_);
    if (rank() < partner) {
      send->send(partner, tag_);
      recv->waitRecv();
    } else {
      recv->waitRecv();
      send->send(partner, tag_);
    }
    send->waitSend();
  }

  std::shared_ptr<gloo::Context> context_;
  std::unique_ptr<gloo::Algorithm> bound_;
  std::vector<float> work_;
  std::uint32_t tag_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  const peers::Options options = peers::read_options(argc, argv);
  const char* rank = std::getenv("BENCH_RANK");
  const char* meeting = std::getenv("BENCH_MEETING");
  if (rank == nullptr || meeting == nullptr) peers::give_up("BENCH_RANK is not set; bench/run.py starts this");
  const std::string folder = std::string(meeting) + ".gloo";
  mkdir(folder.c_str(), 0700);
  gloo::rendezvous::FileStore store(folder);
  gloo::transport::tcp::attr attributes;
  const char* interface = std::getenv("BENCH_INTERFACE");
  attributes.iface = interface == nullptr ? "lo" : interface;
  auto device = gloo::transport::tcp::CreateDevice(attributes);
  auto context = std::make_shared<gloo::rendezvous::Context>(std::atoi(rank), options.ranks);
  context->connectFullMesh(store, device);
  GlooLibrary library(context);
  peers::run_loop(library, "gloo", options);
}
