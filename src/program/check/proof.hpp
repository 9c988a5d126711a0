// Proven programs: what may run. A plan is compiled from a ProvenProgram only, and only a proof makes one.
//
// A proof for a rank says that the program is right, and that the rank's own part belongs to it:
//  - If the program claims a symmetry (Program::symmetry, likeness), the representatives' parts are proven to be right
//    once they are translated to all ranks, and the rank's own part is compared with its representative's. Every rank
//    compares its own, so no part runs that was not compared. The cost is that of a few ranks, however many there are.
//  - Otherwise, up to 256 ranks, the parts of all ranks are proven.
//  - With more ranks, all are compared with rank 0, translated; if they are alike, the proof is as above. If not, all
//    parts are proven if their steps move at most 4 million chunks, and refused if they move more.
// An error names the program, the rank, the worker and the step. ProvenProgram is a plain value, safe to read from any
// thread; the functions may be called from any thread.
#pragma once

#include <cstdint>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "program/program.hpp"
#include "tutti/error.hpp"

namespace tutti {

class ProvenProgram {
 public:
  const Program& operator*() const { return program_; }
  const Program* operator->() const { return &program_; }

 private:
  friend Result<ProvenProgram> prove(Program program, int rank);
  friend class Proofs;
  friend struct UnprovenForTests;  // proof_test_kit.hpp
  explicit ProvenProgram(Program program) : program_(std::move(program)) {}

  Program program_;
};

/// Proves a program for the rank that will run it.
Result<ProvenProgram> prove(Program program, int rank);

/// What was proven in this process, so that a built-in program is proven once. Threads that ask for the same at the
/// same time wait for one proof.
class Proofs {
 public:
  /// Those of the process; tests may have their own.
  static Proofs& of_process();

  /// Proves the program unless one of the same key was proven before: programs of one key must be the same on all
  /// ranks. The rank's own part is compared each time. A proof that fails is not remembered.
  Result<ProvenProgram> prove_once(const std::string& key, Program program, int rank);

  /// Proofs that were made.
  std::uint64_t made() const;

 private:
  mutable std::mutex mutex_;
  std::set<std::string> proven_;
  std::uint64_t made_ = 0;
};

}  // namespace tutti
