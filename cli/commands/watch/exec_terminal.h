// The process's own terminal, given over to a program that runs elsewhere: every key goes to it as
// it comes, and nothing is echoed here. At most one at a time. Also a signal that ends the process
// gives it back as it was.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/base/unique_fd.h"
#include "muster/v1/exec_service.pb.h"

namespace muster::cli {

class ExecTerminal {
 public:
  // INVALID_ARGUMENT: standard input is none.
  static absl::StatusOr<std::unique_ptr<ExecTerminal>> Take();
  ~ExecTerminal();  // gives it back as it was
  ExecTerminal(const ExecTerminal&) = delete;
  ExecTerminal& operator=(const ExecTerminal&) = delete;

  v1::TerminalSize size() const;
  // An eventfd, written when the size has changed.
  int resized() const { return resized_.get(); }

 private:
  ExecTerminal() = default;

  UniqueFd resized_;
};

// Finds the way out in what is typed, as ssh has it: `~.` at the begin of a line leaves, `~~` there
// is one `~`. Pure.
class LeaveKeys {
 public:
  // What of the keys goes to the program. `leave` becomes true at `~.`; what follows is dropped.
  std::string Pass(absl::string_view keys, bool& leave);

 private:
  bool at_begin_ = true;  // of a line
  bool tilde_ = false;    // came there, and was not passed on yet
};

}  // namespace muster::cli
