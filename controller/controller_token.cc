#include "controller/controller_token.h"

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/os/secrets.h"
#include "common/rpc/token_file.h"

namespace muster::controller {
namespace {

constexpr size_t kTokenBytes = 32;

}  // namespace

absl::StatusOr<std::string> LoadOrMakeToken(FileSystem& fs, const std::string& path) {
  absl::StatusOr<std::string> token = ReadTokenFile(path);
  if (!absl::IsNotFound(token.status())) return token;
  MUSTER_ASSIGN_OR_RETURN(const std::string made, RandomHex(kTokenBytes));
  MUSTER_RETURN_IF_ERROR(WriteFileAtomically(fs, path, absl::StrCat(made, "\n"), 0600));
  return made;
}

}  // namespace muster::controller
