#include "worker/data/formats/sample_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fuzz/memory_file_system.h"
#include "tests/support/status_matchers.h"
#include "worker/data/formats/sample_names.h"

namespace muster::worker {
namespace {

using ::muster::testing::MemoryFileSystem;
using ::muster::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(SampleReader, FillsTheBuffer) {
  MemoryFileSystem files;
  files.files()["/f"] = "0123456789";
  std::string buffer(4, '?');
  ASSERT_OK(ReadSample(files, "/f", 3, 4, buffer.data()));
  EXPECT_EQ(buffer, "3456");
  EXPECT_OK(ReadSample(files, "/f", 10, 0, buffer.data()));
}

TEST(SampleReader, SaysWhatAFileThatShrankLacks) {
  MemoryFileSystem files;
  files.files()["/f"] = "012345";
  std::string buffer(10, '?');
  EXPECT_THAT(ReadSample(files, "/f", 3, 4, buffer.data()),
              StatusIs(absl::StatusCode::kDataLoss,
                       AllOf(HasSubstr("/f"), HasSubstr("wanted 4"), HasSubstr("got 3"))));
  EXPECT_THAT(ReadSample(files, "/f", 100, 4, buffer.data()),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("got 0")));
  EXPECT_THAT(ReadSample(files, "/none", 0, 4, buffer.data()),
              StatusIs(absl::StatusCode::kNotFound));
}

TEST(SampleNames, EndAtTheFirstDotOfTheBaseName) {
  const auto name = [](absl::string_view path) {
    const SampleName name = NameOf(path);
    return absl::StrCat(name.key, "|", name.extension);
  };
  EXPECT_EQ(name("a/b.c/img_7.seg.PNG"), "a/b.c/img_7|seg.PNG");
  EXPECT_EQ(name("./././img.jpg"), "img|jpg");
  EXPECT_EQ(name("img"), "img|");
  EXPECT_EQ(name("a.b/img"), "a.b/img|");
  for (const char* hidden : {"", "a/", ".img", "a/.img.jpg", "./", "/"}) {
    EXPECT_EQ(name(hidden), "|") << hidden;
  }
}

TEST(SampleNames, NumberRecordsInByteOrder) {
  EXPECT_EQ(NumberedKey("a.rec", 12), "a.rec:00000012");
  EXPECT_EQ(NumberedKey("a.rec", 123456789), "a.rec:123456789");
}

}  // namespace
}  // namespace muster::worker
