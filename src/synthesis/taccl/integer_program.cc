#include "synthesis/taccl/integer_program.hpp"

#include <coin/Cbc_C_Interface.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <map>
#include <memory>

namespace tutti {
namespace {

constexpr double kLittle = 1e-7;  // a gap that counts as none

/// Cbc takes SIGINT for itself; whoever runs it has other plans for it.
class InterruptKeeper {
 public:
  InterruptKeeper() { sigaction(SIGINT, nullptr, &kept_); }
  ~InterruptKeeper() { sigaction(SIGINT, &kept_, nullptr); }
  InterruptKeeper(const InterruptKeeper&) = delete;
  InterruptKeeper& operator=(const InterruptKeeper&) = delete;

 private:
  struct sigaction kept_ {};
};

struct ModelDeleter {
  void operator()(Cbc_Model* model) const { Cbc_deleteModel(model); }
};

}  // namespace

int IntegerProgram::add_column(double lower, double upper, double cost) {
  columns_.push_back({lower, upper, cost, false});
  return columns() - 1;
}

int IntegerProgram::add_binary(double cost) {
  columns_.push_back({0, 1, cost, true});
  ++binaries_;
  return columns() - 1;
}

void IntegerProgram::add_row(std::vector<Term> terms, double bound, bool equal) {
  std::map<int, double> sums;
  for (const Term& term : terms) sums[term.column] += term.factor;
  Constraint row{{}, bound, equal};
  for (const auto& [column, factor] : sums)
    if (factor != 0) row.terms.emplace_back(column, factor);
  if (!row.terms.empty() || bound > 0) rows_.insert(std::move(row));
}

double IntegerProgram::violation(const std::vector<double>& values) const {
  double worst = 0;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    worst = std::max({worst, columns_[i].lower - values[i], values[i] - columns_[i].upper});
    if (columns_[i].integer) worst = std::max(worst, std::abs(values[i] - std::round(values[i])));
  }
  for (const Constraint& row : rows_) {
    double sum = 0;
    for (const auto& [column, factor] : row.terms) sum += factor * values[static_cast<std::size_t>(column)];
    worst = std::max(worst, row.equal ? std::abs(row.bound - sum) : row.bound - sum);
  }
  return worst;
}

double IntegerProgram::objective(const std::vector<double>& values) const {
  double sum = 0;
  for (std::size_t i = 0; i < columns_.size(); ++i) sum += columns_[i].cost * values[i];
  return sum;
}

Result<IntegerProgram::Solution> IntegerProgram::solve(double seconds) const {
  const std::unique_ptr<Cbc_Model, ModelDeleter> model(Cbc_newModel());
  Cbc_setLogLevel(model.get(), 0);
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    const Variable& column = columns_[i];
    const std::string name = "x" + std::to_string(i);
    Cbc_addCol(model.get(), name.c_str(), column.lower, column.upper, column.cost, column.integer ? 1 : 0, 0, nullptr,
               nullptr);
  }
  for (const Constraint& row : rows_) {
    std::vector<int> where;
    std::vector<double> factors;
    for (const auto& [column, factor] : row.terms) {
      where.push_back(column);
      factors.push_back(factor);
    }
    Cbc_addRow(model.get(), "", static_cast<int>(where.size()), where.data(), factors.data(), row.equal ? 'E' : 'G',
               row.bound);
  }
  if (!start_.empty()) {
    std::vector<int> where;
    for (int i = 0; i < columns(); ++i) where.push_back(i);
    Cbc_setMIPStartI(model.get(), columns(), where.data(), start_.data());
  }
  Cbc_setAllowableGap(model.get(), kLittle);
  Cbc_setMaximumSeconds(model.get(), seconds);
  Cbc_setParameter(model.get(), "timeMode", "elapsed");
  {
    const InterruptKeeper keeper;
    Cbc_solve(model.get());
  }
  if (Cbc_isProvenInfeasible(model.get()) != 0 && start_.empty())
    return fail(ErrorCode::invalid_argument, "the integer program has no solution");
  const double* found = Cbc_bestSolution(model.get());
  Solution solution;
  solution.bound = Cbc_getBestPossibleObjValue(model.get());
  if (found != nullptr) {
    solution.values.assign(found, found + columns());
    solution.objective = objective(solution.values);
    solution.optimal = Cbc_isProvenOptimal(model.get()) != 0;
  }
  if (!start_.empty() && (found == nullptr || objective(start_) <= solution.objective)) {
    solution.values = start_;
    solution.objective = objective(start_);
  }
  if (solution.values.empty()) return fail(ErrorCode::timed_out, "no solution of the integer program in time");
  return solution;
}

}  // namespace tutti
