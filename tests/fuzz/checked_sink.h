// A SampleSink for fuzz targets: what a reader of a format adds must lie in its file.
#pragma once

#include <stdio.h>
#include <stdlib.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "worker/data/formats/index_report.h"
#include "worker/data/formats/sample_sink.h"

namespace muster::testing {

class CheckedSink final : public worker::SampleSink {
 public:
  uint32_t AddFile(const std::string& path, uint64_t size_bytes) override {
    absl::StrAppend(&seen_, "file ", path, "\n");
    sizes_.push_back(size_bytes);
    return static_cast<uint32_t>(sizes_.size() - 1);
  }
  absl::Status Add(const worker::FoundSample& sample) override {
    if (sample.file >= sizes_.size()) Broken("a sample of no file");
    const uint64_t size = sizes_[sample.file];
    if (sample.offset > size || sample.size > size - sample.offset) {
      Broken("a sample lies outside of its file");
    }
    if (sample.label < worker::kNoLabel) Broken("a label that is none");
    if (sample.key.empty()) Broken("a sample without a key");
    absl::StrAppend(&seen_, sample.key, " ", sample.offset, " ", sample.size, " ", sample.label,
                    "\n");
    ++samples_;
    return absl::OkStatus();
  }

  // All that a walk gave: the same for any window that the file is read through.
  std::string Outcome(const absl::Status& status, const worker::IndexReport& report) const {
    if (status.ok() && report.samples != samples_) Broken("a report of other samples");
    if (status.ok() && report.reasons.size() > report.left_out) Broken("reasons for nothing");
    return absl::StrCat(seen_, report.left_out, "\n", status.ToString());
  }

  [[noreturn]] static void Broken(const char* what) {
    ::fprintf(stderr, "BROKEN: %s\n", what);
    ::abort();
  }

 private:
  std::vector<uint64_t> sizes_;
  std::string seen_;
  uint64_t samples_ = 0;
};

}  // namespace muster::testing
