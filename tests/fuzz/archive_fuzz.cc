// An uploaded folder of any entries: whatever they are, nothing is written outside of the folder,
// and no link in it leads out.
#include <google/protobuf/util/delimited_message_util.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "common/upload/unpack_folder.h"
#include "muster/v1/upload_service.pb.h"
#include "tests/fuzz/fuzz_input.h"

namespace {

namespace files = std::filesystem;
using ::muster::testing::FuzzInput;

[[noreturn]] void Broken(const std::string& what) {
  ::fprintf(stderr, "BROKEN: %s\n", what.c_str());
  ::abort();
}

// Paths that meet one another, and that try to leave.
std::string SomePath(FuzzInput& input) {
  static const char* const kParts[] = {"a", "b", "c", "..", ".", "", "a b", "\xff"};
  std::string path = input.Chance(16) ? "/" : "";
  const uint32_t parts = 1 + input.Below(4);
  for (uint32_t i = 0; i < parts; ++i) {
    // Mostly parts that are good.
    const char* part = input.Chance(200) ? kParts[input.Below(3)] : kParts[input.Below(8)];
    path += (i > 0 ? "/" : "") + std::string(part);
  }
  return path;
}

std::string SomeArchive(FuzzInput& input) {
  std::vector<muster::v1::FolderEntry> entries;
  const uint32_t count = input.Below(10);
  for (uint32_t i = 0; i < count; ++i) {
    muster::v1::FolderEntry& entry = entries.emplace_back();
    entry.set_path(SomePath(input));
    entry.set_kind(static_cast<muster::v1::FolderEntry::Kind>(input.Below(5)));
    entry.set_target(SomePath(input));
    entry.set_content("x");
  }
  if (input.Chance(240)) {
    std::sort(entries.begin(), entries.end(),
              [](const auto& a, const auto& b) { return a.path() < b.path(); });
  }
  std::ostringstream out;
  for (const auto& entry : entries) {
    google::protobuf::util::SerializeDelimitedToOstream(entry, &out);
  }
  std::string archive = out.str();
  if (input.Chance(32) && !archive.empty()) archive[input.Byte() % archive.size()] ^= 0x55;
  if (input.Chance(16)) archive += std::string(input.Rest());
  return archive;
}

class Playground {
 public:
  Playground() {
    std::string pattern = files::temp_directory_path() / "muster-fuzz-XXXXXX";
    path_ = ::mkdtemp(pattern.data());
  }
  ~Playground() {
    std::error_code ignored;
    files::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

void CheckInside(const files::path& root) {
  for (const auto& entry : files::recursive_directory_iterator(root)) {
    const files::file_type type = entry.symlink_status().type();
    if (type != files::file_type::regular && type != files::file_type::directory &&
        type != files::file_type::symlink) {
      Broken("something that is no file: " + entry.path().string());
    }
    if (type != files::file_type::symlink) continue;
    std::error_code ends_nowhere;
    const files::path target = files::canonical(entry.path(), ends_nowhere);
    if (ends_nowhere) continue;
    const std::string relative = target.lexically_relative(files::canonical(root)).string();
    if (relative == ".." || relative.rfind("../", 0) == 0) {
      Broken(entry.path().string() + " leads to " + target.string());
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Playground playground;
  FuzzInput input(data, size);
  const std::string archive = SomeArchive(input);
  const std::string into = playground.path() + "/out";
  // Whether it is taken or refused is not looked at here.
  muster::UnpackFolder(archive, into).IgnoreError();
  CheckInside(into);
  files::remove_all(into);
  if (!files::is_empty(playground.path())) Broken("something was written beside the folder");
  return 0;
}
