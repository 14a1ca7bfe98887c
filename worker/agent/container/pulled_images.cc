#include "worker/agent/container/pulled_images.h"

#include <algorithm>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/base/log.h"
#include "common/spec/validate/image_reference.h"

namespace muster::worker {
namespace {

constexpr uint64_t kMaxListBytes = 1u << 20;

}  // namespace

PulledImages::PulledImages(FileSystem& fs, std::string file, size_t most)
    : fs_(fs), file_(std::move(file)), most_(most) {
  const absl::StatusOr<std::string> text = fs_.ReadFile(file_, kMaxListBytes);
  if (!text.ok()) return;
  for (const absl::string_view line : absl::StrSplit(*text, '\n', absl::SkipEmpty())) {
    if (IsImageReference(line)) images_.emplace_back(line);
  }
}

std::vector<std::string> PulledImages::Add(const std::string& image) {
  images_.remove(image);
  images_.push_back(image);
  std::vector<std::string> surplus;
  while (images_.size() > most_) {
    surplus.push_back(std::move(images_.front()));
    images_.pop_front();
  }
  Write();
  return surplus;
}

void PulledImages::Use(const std::string& image) {
  const auto known = std::find(images_.begin(), images_.end(), image);
  if (known != images_.end()) images_.splice(images_.end(), images_, known);
}

void PulledImages::Keep(const std::string& image) {
  images_.push_front(image);
  Write();
}

void PulledImages::Write() {
  const absl::Status written =
      WriteFileAtomically(fs_, file_, absl::StrCat(absl::StrJoin(images_, "\n"), "\n"));
  // What is not in the list stays on the disk, and that is all.
  if (!written.ok()) Log(LogLevel::kWarning, "images_not_listed", {{"error", written.ToString()}});
}

}  // namespace muster::worker
