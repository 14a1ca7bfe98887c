#include "common/rpc/token_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/base/unique_fd.h"

namespace muster {
namespace {

constexpr size_t kMaxTokenBytes = 256;

}  // namespace

absl::Status CheckTokenText(absl::string_view token) {
  if (token.empty()) return absl::InvalidArgumentError("the token is empty");
  if (token.size() > kMaxTokenBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the token is longer than ", kMaxTokenBytes, " bytes"));
  }
  for (const char c : token) {
    if (!absl::ascii_isgraph(static_cast<unsigned char>(c))) {
      return absl::InvalidArgumentError("the token has characters that are not printable ASCII");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadTokenFile(const std::string& path, TokenReaders readers) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) {
    const int error = errno;
    const std::string message = absl::StrCat("token file ", path, ": ", ::strerror(error));
    return error == ENOENT || error == ENOTDIR ? absl::NotFoundError(message)
                                               : absl::PermissionDeniedError(message);
  }
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat("token file ", path, ": not a plain file"));
  }
  const mode_t of_others =
      S_IRWXO | (readers == TokenReaders::kGroup ? S_IWGRP | S_IXGRP : S_IRWXG);
  if ((info.st_mode & of_others) != 0) {
    return absl::PermissionDeniedError(
        absl::StrCat("token file ", path, ": others may use it; run: chmod ",
                     readers == TokenReaders::kGroup ? "640 " : "600 ", path));
  }
  std::array<char, kMaxTokenBytes + 3> buffer;
  const ssize_t count = ::read(fd.get(), buffer.data(), buffer.size());
  if (count < 0) {
    return absl::PermissionDeniedError(absl::StrCat("token file ", path, ": ", ::strerror(errno)));
  }
  const absl::string_view token =
      absl::StripAsciiWhitespace(absl::string_view(buffer.data(), static_cast<size_t>(count)));
  if (const absl::Status status = CheckTokenText(token); !status.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("token file ", path, ": ", status.message()));
  }
  return std::string(token);
}

}  // namespace muster
