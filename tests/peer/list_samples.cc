// Lists the samples that a reader of a format finds, a JSON object a line, for the peers' tests.
//   list_samples FORMAT FILE   FORMAT: image_folder, web_dataset, tf_record, record_io, lmdb
// Ends with 1 and the error where there is one.
#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "tests/worker/data/formats/support/sample_list.h"
#include "worker/data/formats/image_folder.h"
#include "worker/data/formats/lmdb.h"
#include "worker/data/formats/record_io.h"
#include "worker/data/formats/tf_record.h"
#include "worker/data/formats/web_dataset.h"

namespace {

absl::Status Index(const std::string& format, const std::string& path,
                   muster::worker::SampleList& list) {
  muster::FileSystem& fs = muster::PosixFileSystem();
  if (format == "image_folder") {
    return muster::worker::IndexImageFolder(fs, path, {}, list).status();
  }
  if (format == "web_dataset") return muster::worker::IndexWebDataset(fs, path, {}, list).status();
  if (format == "record_io") return muster::worker::IndexRecordIo(fs, path, {}, list).status();
  if (format == "lmdb") return muster::worker::IndexLmdb(fs, path, {}, list).status();
  muster::worker::TfRecordOptions options;
  options.verify = true;
  return muster::worker::IndexTfRecords(fs, path, options, list).status();
}

absl::Status Run(const std::string& format, const std::string& path) {
  muster::worker::SampleList list;
  MUSTER_RETURN_IF_ERROR(Index(format, path, list));
  MUSTER_ASSIGN_OR_RETURN(const auto samples, list.Read(muster::PosixFileSystem()));
  for (const muster::worker::WholeSample& sample : samples) {
    std::cout << nlohmann::json{{"key", sample.key},
                                {"bytes", absl::BytesToHexString(sample.bytes)},
                                {"label", sample.label}}
              << "\n";
  }
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: list_samples FORMAT FILE\n";
    return 2;
  }
  const absl::Status status = Run(argv[1], argv[2]);
  if (status.ok()) return 0;
  std::cerr << status << "\n";
  return 1;
}
