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
// message names it. FAILED_PRECONDITION as ContextPath. Else as FileSystem.
absl::StatusOr<ContextConfig> LoadContexts(const Host& host, FileSystem& fs);
// Readable by its owner alone.
absl::Status SaveContexts(const Host& host, FileSystem& fs, const ContextConfig& config);

// Makes or replaces a context, and puts it in use: its token and a copy of its CA are in new files
// before it names them, and those of the one before are removed last. A crash leaves a context with
// its own token, and at worst files that none names.
absl::Status KeepContext(const Host& host, FileSystem& fs, const std::string& name,
                         const Endpoint& endpoint);
// Removes the files that KeepContext wrote for a context which is gone, unless `config` names them.
absl::Status RemoveKept(const Host& host, FileSystem& fs, const SavedContext& gone,
                        const ContextConfig& config);

}  // namespace muster::cli
