// The subcommands of muster-trainer: what it does for people, without a job.
//
// Used by main alone.
#pragma once

#include <memory>
#include <optional>

namespace CLI {
class App;
}

namespace muster::worker {

class Commands {
 public:
  // Adds them to the program's flags.
  explicit Commands(CLI::App& app);
  ~Commands();

  // After the flags were parsed: runs what was asked for and returns the program's exit code;
  // nothing when no subcommand was given.
  std::optional<int> Run();

 private:
  struct State;
  void AddExport(CLI::App& app);
  const std::unique_ptr<State> state_;
};

}  // namespace muster::worker
