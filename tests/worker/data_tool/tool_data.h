// A folder of small pictures of three classes, and a place for indexes, for tests of muster-data.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tests/support/temp_dir.h"
#include "tests/worker/data/formats/support/format_bytes.h"
#include "tests/worker/data/pictures/picture_makers.h"
#include "worker/data_tool/base/open_data.h"

namespace muster::worker {

inline void PutFile(const std::string& path, const std::string& bytes) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << bytes;
}

inline std::string FileText(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// A file's bytes. A failed comparison prints their number and a checksum, not megabytes of them.
struct FileBytes {
  std::string bytes;
  friend bool operator==(const FileBytes&, const FileBytes&) = default;
  friend void PrintTo(const FileBytes& file, std::ostream* out) {
    *out << file.bytes.size() << " bytes, hash " << std::hash<std::string>()(file.bytes);
  }
};

// The files below a folder by their paths there.
inline std::map<std::string, FileBytes> FilesBelow(const std::string& folder) {
  std::map<std::string, FileBytes> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    files[std::filesystem::relative(entry.path(), folder)] = {FileText(entry.path())};
  }
  return files;
}

class ToolDataTest : public ::testing::Test {
 protected:
  static constexpr int kClassCount = 3;

  void SetUp() override { ::setenv("MUSTER_INDEX_DIR", (dir_ / "index").c_str(), 1); }

  static std::string ClassName(int i) { return absl::StrCat("class-", i % kClassCount); }
  static std::string KeyName(int i) { return absl::StrFormat("%s/%03d", ClassName(i), i); }
  // Of several sizes and kinds: every sixth is grey, every fourth progressive, 5 a PNG, 7 a WebP.
  static std::string PictureBytes(int i) {
    using testing::EncodeJpeg;
    using testing::MakePhoto;
    const int channels = i % 6 == 0 ? 1 : 3;
    const testing::Pixels photo =
        MakePhoto(60 + 7 * (i % 5), 50 + 5 * (i % 7), channels, static_cast<uint64_t>(i));
    if (i == 5) {
      const std::vector<uint16_t> samples(photo.values.begin(), photo.values.end());
      return testing::EncodePng(photo.width, photo.height, samples, {}, {.colour_type = 2});
    }
    if (i == 7) return testing::EncodeWebp(photo, 90, /*lossless=*/false);
    return EncodeJpeg(photo, {.progressive = i % 4 == 3});
  }

  std::string MakeFolder(int pictures, const std::string& name = "pictures") const {
    for (int i = 0; i < pictures; ++i)
      PutFile(absl::StrCat(dir_.path(), "/", name, "/", KeyName(i), ".jpg"), PictureBytes(i));
    return dir_ / name;
  }
  // The same samples, in shards that name their sets.
  std::string MakeTars(int pictures, int held_out) const {
    std::string train, validation;
    for (int i = 0; i < pictures; ++i) {
      std::string& tar = i < pictures - held_out ? train : validation;
      absl::StrAppend(&tar, testing::TarFile(KeyName(i) + ".jpg", PictureBytes(i)),
                      testing::TarFile(KeyName(i) + ".cls", absl::StrCat(i % kClassCount)));
    }
    PutFile(dir_ / "tars/train-0.tar", train + testing::TarEnd());
    if (held_out > 0) PutFile(dir_ / "tars/val-0.tar", validation + testing::TarEnd());
    return dir_ / "tars";
  }
  std::string MakeTfRecords(int pictures) const {
    std::string records;
    for (int i = 0; i < pictures; ++i) {
      records += testing::TfRecordBytes(testing::TfExampleBytes(
          {{"image/encoded", testing::BytesFeature(PictureBytes(i))},
           {"image/class/label", testing::IntegerFeature(i % kClassCount)},
           {"image/filename", testing::BytesFeature(KeyName(i) + ".jpg")}}));
    }
    PutFile(dir_ / "records/train.tfrecord", records);
    return dir_ / "records/train.tfrecord";
  }

  absl::StatusOr<DataIndexes> OpenAll(const std::string& path) {
    IndexOptions options;
    options.path = path;
    return OpenOrMakeIndexes(data_, fs_, options);
  }

  FileSystem& fs_ = PosixFileSystem();
  AnyFileSystem data_{fs_};
  testing::TempDir dir_;
};

}  // namespace muster::worker
