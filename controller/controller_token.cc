#include "controller/controller_token.h"

#include <errno.h>
#include <sys/random.h>

#include <cstring>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/rpc/token_file.h"

namespace muster::controller {
namespace {

constexpr size_t kTokenBytes = 32;

absl::StatusOr<std::string> RandomHex() {
  std::string bytes(kTokenBytes, '\0');
  // Up to 256 bytes come whole and without interruption (getrandom(2)).
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    return absl::UnavailableError(absl::StrCat("getrandom: ", std::strerror(errno)));
  }
  return absl::BytesToHexString(bytes);
}

}  // namespace

absl::StatusOr<std::string> LoadOrMakeToken(FileSystem& fs, const std::string& path) {
  absl::StatusOr<std::string> token = ReadTokenFile(path);
  if (!absl::IsNotFound(token.status())) return token;
  MUSTER_ASSIGN_OR_RETURN(const std::string made, RandomHex());
  MUSTER_RETURN_IF_ERROR(WriteFileAtomically(fs, path, absl::StrCat(made, "\n"), 0600));
  return made;
}

}  // namespace muster::controller
