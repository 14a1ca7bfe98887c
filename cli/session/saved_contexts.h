// The clusters that a person has logged in to, by name, and which of them is in use:
// `${XDG_CONFIG_HOME:-~/.config}/muster/config.json`, with each one's token and CA in files of
// their own beside it. The one of `muster local up` is apart, in context.h.
#pragma once

#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cli/session/context.h"
#include "cli/session/host.h"
#include "common/fs/file_system.h"

namespace muster::cli {

// What `muster local up` left is called so.
inline constexpr char kLocalContext[] = "local";

struct ContextConfig {
  std::string current;  // empty: none is chosen, so that it is kLocalContext
  std::map<std::string, SavedContext> contexts;
};

// 1 to 64 letters, digits, '.', '_' and '-', and not kLocalContext. INVALID_ARGUMENT.
absl::Status CheckContextName(absl::string_view name);

// NOT_FOUND: nobody has logged in here. INVALID_ARGUMENT: the file is none that muster wrote; the
// message names it. FAILED_PRECONDITION as ContextPath.
absl::StatusOr<ContextConfig> LoadContexts(const Host& host, FileSystem& fs);
// Readable by its owner alone.
absl::Status SaveContexts(const Host& host, FileSystem& fs, const ContextConfig& config);

// Where the token and the CA of a context are kept.
absl::StatusOr<std::string> ContextTokenPath(const Host& host, const std::string& name);
absl::StatusOr<std::string> ContextCaPath(const Host& host, const std::string& name);

}  // namespace muster::cli
