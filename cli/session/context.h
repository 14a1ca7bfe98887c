// Where the controller is and what to show it.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/session/host.h"
#include "common/fs/file_system.h"

namespace muster::cli {

inline constexpr char kDefaultAddress[] = "127.0.0.1:7070";

// What the user said on the command line; empty: nothing.
struct ContextFlags {
  std::string address;
  std::string token_file;
};

struct Endpoint {
  std::string address;  // host:port
  std::string token;    // empty: none was given
};

// What `muster local up` leaves for later calls:
// `${XDG_CONFIG_HOME:-~/.config}/muster/context.json`.
struct SavedContext {
  std::string address;
  std::string token_file;
};

// FAILED_PRECONDITION when neither XDG_CONFIG_HOME nor HOME is set.
absl::StatusOr<std::string> ContextPath(const Host& host);

// NOT_FOUND: none was saved. INVALID_ARGUMENT: the file is no context; the message names it.
absl::StatusOr<SavedContext> LoadContext(const Host& host, FileSystem& fs);
absl::Status SaveContext(const Host& host, FileSystem& fs, const SavedContext& context);

// Removes the saved context if it leads to `address`. OK when there is none.
absl::Status ForgetContext(const Host& host, FileSystem& fs, const std::string& address);

// The address: --addr, else MUSTER_ADDR, else the saved context's, else kDefaultAddress; without
// `dns:///` in front, which it may have.
// The token: --token-file, else MUSTER_TOKEN, else MUSTER_TOKEN_FILE, else the saved context's if
// the address is its own. INVALID_ARGUMENT for an address that is no host:port; a token file that
// cannot be used gives ReadTokenFile's status.
absl::StatusOr<Endpoint> FindController(const Host& host, FileSystem& fs,
                                        const ContextFlags& flags);

}  // namespace muster::cli
