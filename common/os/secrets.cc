#include "common/os/secrets.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"

namespace muster {

absl::StatusOr<std::string> RandomBytes(size_t count) {
  // So many come whole and without interruption (getrandom(2)).
  MUSTER_CHECK(count <= 256, "more random bytes than come at once");
  std::string bytes(count, '\0');
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    return absl::UnavailableError(
        absl::StrCat("the kernel gives no random bytes: ", ::strerror(errno)));
  }
  return bytes;
}

absl::StatusOr<std::string> RandomHex(size_t bytes) {
  MUSTER_ASSIGN_OR_RETURN(const std::string random, RandomBytes(bytes));
  return absl::BytesToHexString(random);
}

bool IsSameSecret(absl::string_view a, absl::string_view b) {
  unsigned difference = a.size() == b.size() ? 0 : 1;
  for (size_t i = 0; i < b.size(); ++i) {
    difference |=
        static_cast<unsigned char>(i < a.size() ? a[i] : 0) ^ static_cast<unsigned char>(b[i]);
  }
  return difference == 0;
}

}  // namespace muster
