#include "worker/agent/command/offer_folders.h"

#include <fcntl.h>
#include <unistd.h>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/unique_fd.h"
#include "common/fs/open_beneath.h"

namespace muster::worker {
namespace {

constexpr char kName[] = "offers";

}  // namespace

std::string OfferFolders::Path(const std::string& job_root) {
  return absl::StrCat(job_root, "/", kName);
}

absl::Status OfferFolders::Make(FileSystem& fs, const std::string& job_root) {
  return fs.MakeDirectories(Path(job_root));
}

void OfferFolders::GiveBack(const std::string& job_root, const std::function<bool()>& still_asked) {
  const size_t slash = job_root.rfind('/');
  if (slash == std::string::npos) return;
  const std::string name = job_root.substr(slash + 1);
  const absl::StatusOr<UniqueFd> parent = OpenFolder(job_root.substr(0, slash + 1));
  if (!parent.ok()) return;
  const absl::StatusOr<UniqueFd> root =
      OpenBeneath(parent->get(), name, O_RDONLY | O_DIRECTORY, Links::kNone);
  if (!root.ok() || !still_asked()) return;
  if (::unlinkat(root->get(), kName, AT_REMOVEDIR) != 0 || !still_asked()) return;
  ::unlinkat(parent->get(), name.c_str(), AT_REMOVEDIR);
}

}  // namespace muster::worker
