// The subcommands of `tutti`, one file each. add_* hangs a subcommand's options and its action on the parser; the
// action leaves its exit status in `status`: 0 when all went well, 1 for a finding, 2 for a mistake of the caller.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}

namespace tutti::cli {

inline constexpr int kBadUsage = 2;

using Arguments = std::vector<std::string>;

/// Prints "tutti COMMAND: MESSAGE" to stderr. Returns the exit status that goes with it.
int report_error(std::string_view command, std::string_view message, int status = 1);

/// For programs that serve many: takes as many descriptors as it may, up to 65,536, and outlives readers of its output.
void become_a_service();

void add_agent(CLI::App& app, int& status);
// `arguments`: what the program was started with, for subcommands that start themselves again as ranks.
void add_bench(CLI::App& app, const Arguments& arguments, int& status);
void add_demo(CLI::App& app, const Arguments& arguments, int& status);
void add_collector(CLI::App& app, int& status);
void add_diagnose(CLI::App& app, int& status);
void add_doctor(CLI::App& app, int& status);
void add_env(CLI::App& app, int& status);
void add_events(CLI::App& app, int& status);
void add_program(CLI::App& app, int& status);
/// `tail`: the arguments from the first "--" on, which the parser must not see.
void add_run(CLI::App& app, const Arguments& tail, int& status);
void add_simulate(CLI::App& app, int& status);
void add_status(CLI::App& app, int& status);
void add_top(CLI::App& app, int& status);
void add_synth(CLI::App& app, int& status);
void add_topo(CLI::App& app, int& status);
/// These hang `bound`, `check` and `trees` on the group `topo`.
void add_topo_bound(CLI::App& group, int& status);
void add_topo_trees(CLI::App& group, int& status);
/// Hangs `measure` on it.
void add_topo_measure(CLI::App& group, const Arguments& arguments, int& status);
void add_trace(CLI::App& app, int& status);
void add_tune(CLI::App& app, const Arguments& arguments, int& status);
void add_version(CLI::App& app, int& status);

}  // namespace tutti::cli
