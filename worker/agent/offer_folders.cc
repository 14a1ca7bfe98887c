#include "worker/agent/offer_folders.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace muster::worker {
namespace {

constexpr char kName[] = "offers";

// "" when it has none.
std::string ParentOf(const std::string& path) { return path.substr(0, path.rfind('/') + 1); }

}  // namespace

OfferFolders::~OfferFolders() {
  for (const std::string& spare : spare_) fs_.RemoveTree(spare).IgnoreError();
}

std::string OfferFolders::Path(const std::string& job_root) {
  return absl::StrCat(job_root, "/", kName);
}

absl::Status OfferFolders::Make(const std::string& job_root) {
  if (!spare_.empty() && ParentOf(spare_.back()) == ParentOf(job_root) &&
      fs_.Rename(spare_.back(), job_root).ok()) {
    spare_.pop_back();
    return absl::OkStatus();
  }
  return fs_.MakeDirectories(Path(job_root));
}

bool OfferFolders::IsUntouched(const std::string& job_root) {
  const absl::StatusOr<std::vector<FileInfo>> root = fs_.List(job_root);
  if (!root.ok() || root->size() != 1 || root->front().name != kName) return false;
  const absl::StatusOr<std::vector<FileInfo>> offers = fs_.List(Path(job_root));
  return offers.ok() && offers->empty();
}

void OfferFolders::GiveBack(const std::string& job_root) {
  if (!IsUntouched(job_root)) return;
  if (spare_.size() >= kMaxSpare) {
    fs_.RemoveTree(job_root).IgnoreError();  // an empty folder more is no harm
    return;
  }
  std::string spare = absl::StrCat(ParentOf(job_root), "spare-", worker_, "-", spare_.size());
  absl::Status kept = fs_.Rename(job_root, spare);
  if (absl::IsAlreadyExists(kept) && fs_.RemoveTree(spare).ok()) {  // left by a killed agent
    kept = fs_.Rename(job_root, spare);
  }
  if (kept.ok()) spare_.push_back(std::move(spare));
}

}  // namespace muster::worker
