// A mixed integer program to minimise, and Cbc to solve it.
//
// Columns are added first, then rows; rows that say the same are kept once, which is what is left of a symmetric model
// whose symmetric variables are one column. A start, once given, is where the search begins and what is returned if
// nothing better is found in time. Solving changes the process' handling of SIGINT while it runs, as Cbc does, and
// restores it. Owns everything; not to be shared between threads.
#pragma once

#include <set>
#include <utility>
#include <vector>

#include "tutti/error.hpp"

namespace tutti {

class IntegerProgram {
 public:
  struct Term {
    int column = 0;
    double factor = 0;
  };
  struct Solution {
    std::vector<double> values;  // [column]
    double objective = 0;
    double bound = 0;  // no solution is below
    bool optimal = false;
  };

  int add_column(double lower, double upper, double cost);
  int add_binary(double cost);
  /// Sum of terms >= bound. Terms of one column are added up.
  void at_least(std::vector<Term> terms, double bound) { add_row(std::move(terms), bound, false); }
  /// Sum of terms == bound.
  void equal(std::vector<Term> terms, double bound) { add_row(std::move(terms), bound, true); }
  /// Values for all columns, that keep all rows.
  void set_start(std::vector<double> values) { start_ = std::move(values); }

  int rows() const { return static_cast<int>(rows_.size()); }
  int columns() const { return static_cast<int>(columns_.size()); }
  int binaries() const { return binaries_; }
  /// The largest amount by which values miss a row or a column's limits.
  double violation(const std::vector<double>& values) const;
  double objective(const std::vector<double>& values) const;

  /// Fails with invalid_argument where there is no solution, with timed_out where none was found in `seconds`.
  Result<Solution> solve(double seconds) const;

 private:
  struct Variable {
    double lower = 0;
    double upper = 0;
    double cost = 0;
    bool integer = false;
  };
  struct Constraint {
    std::vector<std::pair<int, double>> terms;  // by column
    double bound = 0;
    bool equal = false;

    auto operator<=>(const Constraint&) const = default;
  };

  void add_row(std::vector<Term> terms, double bound, bool equal);

  std::vector<Variable> columns_;
  std::set<Constraint> rows_;
  int binaries_ = 0;
  std::vector<double> start_;
};

}  // namespace tutti
