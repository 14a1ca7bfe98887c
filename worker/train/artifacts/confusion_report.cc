#include "worker/train/artifacts/confusion_report.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"

namespace muster::worker {
namespace {

class ConfusionFiles final : public Artifact {
 public:
  ConfusionFiles(FileSystem& fs, std::string folder) : fs_(fs), folder_(std::move(folder)) {}

  void AfterStep(int64_t) override {}

  void AfterTest(const Evaluation& test) override {
    if (!test.confusion.defined()) return;
    if (const absl::Status written = Write(test.confusion); !written.ok())
      Log(LogLevel::kWarning, "confusion_not_written", {{"error", written.ToString()}});
  }

 private:
  absl::Status Write(const at::Tensor& confusion) {
    MUSTER_RETURN_IF_ERROR(fs_.MakeDirectories(folder_));
    MUSTER_RETURN_IF_ERROR(WriteFileAtomically(fs_, absl::StrCat(folder_, "/confusion-test.csv"),
                                               ConfusionCsv(confusion)));
    return WriteFileAtomically(fs_, absl::StrCat(folder_, "/classes-test.csv"),
                               PerClassCsv(confusion));
  }

  FileSystem& fs_;
  const std::string folder_;
};

// The cells row by row.
const int64_t* Cells(const at::Tensor& confusion) { return confusion.const_data_ptr<int64_t>(); }

}  // namespace

std::unique_ptr<Artifact> MakeConfusionFiles(FileSystem& fs, std::string folder) {
  return std::make_unique<ConfusionFiles>(fs, std::move(folder));
}

std::string ConfusionCsv(const at::Tensor& confusion) {
  const int64_t classes = confusion.size(0);
  std::string text = "true\\predicted";
  for (int64_t i = 0; i < classes; ++i) absl::StrAppend(&text, ",", i);
  text += "\n";
  for (int64_t row = 0; row < classes; ++row) {
    absl::StrAppend(&text, row);
    for (int64_t column = 0; column < classes; ++column)
      absl::StrAppend(&text, ",", Cells(confusion)[row * classes + column]);
    text += "\n";
  }
  return text;
}

std::string PerClassCsv(const at::Tensor& confusion) {
  const int64_t classes = confusion.size(0);
  std::string text = "class,samples,correct,accuracy\n";
  for (int64_t row = 0; row < classes; ++row) {
    int64_t samples = 0;
    for (int64_t column = 0; column < classes; ++column)
      samples += Cells(confusion)[row * classes + column];
    const int64_t correct = Cells(confusion)[row * classes + row];
    absl::StrAppend(&text, row, ",", samples, ",", correct, ",");
    if (samples > 0)
      absl::StrAppendFormat(&text, "%.6f",
                            static_cast<double>(correct) / static_cast<double>(samples));
    text += "\n";
  }
  return text;
}

}  // namespace muster::worker
