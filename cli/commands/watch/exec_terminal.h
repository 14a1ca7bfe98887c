// The process's own terminal, given over to a program that runs elsewhere: every key goes to it as
// it comes, and nothing is echoed here. At most one at a time.
#pragma once

#include <termios.h>

#include <memory>

#include "absl/status/statusor.h"
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

  termios before_{};
  UniqueFd resized_;
};

}  // namespace muster::cli
