// One run of `muster`: the flags that every verb takes, the connection, and how results are
// printed.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "cli/output/document.h"
#include "cli/output/table.h"
#include "cli/session/client.h"
#include "cli/session/context.h"
#include "cli/session/error.h"
#include "cli/session/host.h"

namespace muster::cli {

// How long one call may take unless --timeout says otherwise.
inline constexpr absl::Duration kCallTimeout = absl::Seconds(10);

struct Globals {
  ContextFlags context;
  std::optional<absl::Duration> timeout;  // --timeout
  Format format = Format::kTable;
  bool header = true;
  // What stands behind `--`: a program and its arguments, as they are.
  std::vector<std::string> program;

  bool tables() const { return format == Format::kTable || format == Format::kWide; }
  bool wide() const { return format == Format::kWide; }
};

class Session {
 public:
  Session(Host& host, FileSystem& fs) : host_(host), fs_(fs) {}
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  Host& host() { return host_; }
  FileSystem& fs() { return fs_; }
  Globals& globals() { return globals_; }

  // Finds the controller; does not wait for it. The client lives as long as the session.
  absl::StatusOr<Client*> Connect();

  // --timeout, else `fallback`.
  absl::Duration timeout(absl::Duration fallback = kCallTimeout) const {
    return globals_.timeout.value_or(fallback);
  }

  // A list in the form that -o asks for: `table` for people, `items` for machines.
  void PrintList(const Table& table, const std::vector<Json>& items, absl::string_view name_key);
  // One object likewise.
  void PrintOne(absl::string_view page, const Json& item, absl::string_view name_key);

  // INVALID_ARGUMENT unless -o is one that lines can have which come one by one.
  absl::Status CheckLineFormat() const;

  // One line of progress on stderr, as Plain makes it.
  void Say(absl::string_view line);
  // How many lines were said: what redraws in place must not draw over them.
  int said() const { return said_; }

 private:
  Host& host_;
  FileSystem& fs_;
  Globals globals_;
  std::unique_ptr<Client> client_;
  int said_ = 0;
};

}  // namespace muster::cli
