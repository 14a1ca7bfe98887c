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
  std::string context;  // the name of a saved one
  std::string address;
  std::string token_file;
  std::string ca_file;
  bool insecure = false;  // the token may be sent in plain text
};

struct Endpoint {
  std::string address;    // host:port
  std::string ca_file;    // of the CA that signed the controller's certificate; empty: no TLS
  std::string token;      // empty: none was given
  bool insecure = false;  // the token may be sent in plain text
};

// What `muster local up` leaves for later calls, as the context `local`:
// `${XDG_CONFIG_HOME:-~/.config}/muster/context.json`; and each of saved_contexts.h.
struct SavedContext {
  std::string address;
  std::string token_file;
  std::string ca_file;  // empty: no TLS
  bool insecure = false;
};

// FAILED_PRECONDITION when neither XDG_CONFIG_HOME nor HOME is set.
absl::StatusOr<std::string> ContextPath(const Host& host);

// NOT_FOUND: none was saved. INVALID_ARGUMENT: the file is no context; the message names it.
absl::StatusOr<SavedContext> LoadContext(const Host& host, FileSystem& fs);
absl::Status SaveContext(const Host& host, FileSystem& fs, const SavedContext& context);

// Removes the saved context if it leads to `address`. OK when there is none.
absl::Status ForgetContext(const Host& host, FileSystem& fs, const std::string& address);

// The context: --context, which goes before the environment, else MUSTER_CONTEXT, else the one in
// use (saved_contexts.h), else what `muster local up` left. NOT_FOUND: the one that is named is not
// there. A file of contexts that is there and cannot be read is an error.
// The address: --addr, else MUSTER_ADDR, else the context's, else kDefaultAddress; without
// `dns:///` in front, which it may have.
// The token: --token-file, else MUSTER_TOKEN, else MUSTER_TOKEN_FILE, else the saved context's if
// the address is its own. The CA's certificates: --ca-file, else MUSTER_CA_FILE, else the saved
// context's if the address is its own. INVALID_ARGUMENT for an address that is no host:port; a
// token file that cannot be used gives ReadTokenFile's status, and a CA's file CheckTlsFiles'.
absl::StatusOr<Endpoint> FindController(const Host& host, FileSystem& fs,
                                        const ContextFlags& flags);

// HOST:PORT. INVALID_ARGUMENT.
absl::Status CheckAddress(const std::string& address);

// Whether the token may go to that address: in plain text it may not leave the machine, unless
// somebody said so. INVALID_ARGUMENT, with the way out.
absl::Status CheckMaySend(const Endpoint& endpoint);

}  // namespace muster::cli
