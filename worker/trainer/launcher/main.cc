// muster-trainer as packages install it: finds torch, checks that it is the version that the
// trainer was built against, and becomes the real program, ../trainer/muster-trainer. The process,
// its arguments, its descriptors and its place among its parent's children stay the same.
//
// Settings: MUSTER_TORCH, else the torch beside Muster (a wheel), else the folder in
// /etc/muster/torch. docs/INSTALL.md tells more.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <iostream>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "worker/link/link_messages.h"
#include "worker/trainer/launcher/torch_finder.h"

namespace muster::worker {
namespace {

constexpr char kSettingFile[] = "/etc/muster/torch";
constexpr char kLibraryPath[] = "LD_LIBRARY_PATH";

const char* Variable(const char* name) {
  const char* value = ::getenv(name);
  return value == nullptr ? "" : value;
}

// To the agent that started this as a rank, too, where one did: so it stands in the job's history.
int Fail(const std::string& message) {
  std::cerr << "muster-trainer: " << message << std::endl;
  int link = -1;
  if (absl::SimpleAtoi(Variable(kLinkFdVariable), &link) && link >= 0) {
    const std::string line =
        Encode(RankLine(ResultLine{.failure_class = "START_FAILED", .message = message}));
    [[maybe_unused]] const ssize_t sent = ::send(link, line.data(), line.size(), MSG_NOSIGNAL);
  }
  return 1;
}

int Main(char** argv) {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return Fail(absl::StrCat("/proc/self/exe: ", error.message()));
  const std::filesystem::path package = self.parent_path().parent_path();
  const absl::StatusOr<FoundTorch> torch =
      FindTorch({.variable = Variable("MUSTER_TORCH"),
                 .beside = package.parent_path().string(),
                 .setting_file = kSettingFile},
                {.version = MUSTER_TORCH_VERSION, .cuda = MUSTER_TORCH_CUDA != 0});
  if (!torch.ok()) return Fail(std::string(torch.status().message()));
  ::setenv(kLibraryPath, LibraryPath(*torch, Variable(kLibraryPath)).c_str(), /*overwrite=*/1);
  const std::string trainer = (package / "trainer" / "muster-trainer").string();
  ::execv(trainer.c_str(), argv);
  return Fail(absl::StrCat(trainer, ": ", ::strerror(errno)));
}

}  // namespace
}  // namespace muster::worker

int main(int, char** argv) { return muster::worker::Main(argv); }
