// tutti through its public API, in ordinary memory or in memory of tutti::allocate.
#include "loop.hpp"
#include "tutti/tutti.hpp"

namespace {

using peers::Collective;

void check(const tutti::Status& status) {
  if (!status) peers::give_up(status.error().to_string());
}

class TuttiLibrary final : public peers::Library {
 public:
  TuttiLibrary(tutti::Communicator communicator, bool allocated)
      : communicator_(std::move(communicator)), allocated_(allocated) {}

  int rank() const override { return communicator_.rank(); }
  int size() const override { return communicator_.size(); }
  bool supports(Collective) const override { return true; }

  void* allocate(std::size_t bytes) override {
    if (!allocated_) return Library::allocate(bytes);
    const tutti::Result<void*> memory = tutti::allocate(bytes);
    if (!memory) peers::give_up(memory.error().to_string());
    return *memory;
  }
  void deallocate(void* memory) override {
    if (allocated_) {
      check(tutti::deallocate(memory));
    } else {
      Library::deallocate(memory);
    }
  }

  void run(const peers::Operation& op) override {
    constexpr auto kType = tutti::DataType::float32;
    switch (op.collective) {
      case Collective::all_reduce:
        return check(communicator_.all_reduce(op.send, op.recv, op.count, kType, tutti::Operator::sum));
      case Collective::all_gather:
        return check(communicator_.all_gather(op.send, op.recv, op.count, kType));
      case Collective::reduce_scatter:
        return check(communicator_.reduce_scatter(op.send, op.recv, op.count, kType, tutti::Operator::sum));
      case Collective::broadcast: {
        void* buffer = rank() == op.root ? const_cast<float*>(op.send) : op.recv;
        return check(communicator_.broadcast(buffer, buffer, op.count, kType, op.root));
      }
      case Collective::all_to_all:
        return check(communicator_.all_to_all(op.send, op.recv, op.count, kType));
      case Collective::send_recv:
        return ping_pong(op);
    }
  }

 private:
  void ping_pong(const peers::Operation& op) {
    constexpr auto kType = tutti::DataType::float32;
    const int partner = rank() ^ 1;
    if (rank() < partner) {
      check(communicator_.send(op.send, op.count, kType, partner));
      check(communicator_.recv(op.recv, op.count, kType, partner));
    } else {
      check(communicator_.recv(op.recv, op.count, kType, partner));
      check(communicator_.send(op.send, op.count, kType, partner));
    }
  }

  tutti::Communicator communicator_;
  bool allocated_;
};

}  // namespace

int main(int argc, char** argv) {
  const peers::Options options = peers::read_options(argc, argv);
  auto communicator = tutti::Communicator::create_from_environment();
  if (!communicator) peers::give_up(communicator.error().to_string());
  TuttiLibrary library(std::move(*communicator), options.memory == "allocated");
  peers::run_loop(library, "tutti", options);
}
