#include "common/object_store/cache/block_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "common/base/unique_fd.h"
#include "common/object_store/cache/block_key.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace muster::testing {
namespace {

const std::string kKey(64, 'a');

class BlockFileTest : public ::testing::TestWithParam<size_t> {
 protected:
  UniqueFd Open(const std::string& bytes) {
    std::ofstream(folder_ / "b", std::ios::binary) << bytes;
    return UniqueFd(::open((folder_ / "b").c_str(), O_RDONLY | O_CLOEXEC));
  }
  TempDir folder_;
};

TEST_P(BlockFileTest, AnyRangeIsRead) {
  std::string block(GetParam(), '\0');
  for (size_t i = 0; i < block.size(); ++i) block[i] = static_cast<char>(i * 7 >> 3);
  const std::string header = EncodeBlockHeader(kKey, block);
  EXPECT_EQ(header.size(), BlockHeaderBytes(block.size()));
  const UniqueFd fd = Open(header + block);
  for (const size_t offset :
       {size_t{0}, size_t{1}, size_t{65535}, size_t{65536}, size_t{100'000}}) {
    for (const size_t bytes : {size_t{0}, size_t{1}, size_t{65536}, size_t{65537}, GetParam()}) {
      if (offset > block.size() || bytes > block.size() - offset) continue;
      std::string read(bytes, 'x');
      ASSERT_OK(ReadBlock(fd.get(), kKey, block.size(), offset, read.data(), bytes));
      EXPECT_TRUE(read == block.substr(offset, bytes)) << offset << " " << bytes;
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Sizes, BlockFileTest,
                         ::testing::Values(0, 1, 65535, 65536, 65537, 200'000));

TEST_F(BlockFileTest, EveryFlippedBitIsFound) {
  const std::string block(70'000, 'b');
  const std::string whole = EncodeBlockHeader(kKey, block) + block;
  std::string read(block.size(), '\0');
  for (size_t at = 0; at < whole.size(); at += at < 200 ? 1 : 997) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 4);
    const UniqueFd fd = Open(damaged);
    EXPECT_THAT(ReadBlock(fd.get(), kKey, block.size(), 0, read.data(), read.size()),
                StatusIs(absl::StatusCode::kDataLoss))
        << at;
  }
}

TEST_F(BlockFileTest, AnotherBlockOrAPartOfItIsRefused) {
  const std::string block(1000, 'b');
  const std::string whole = EncodeBlockHeader(kKey, block) + block;
  std::string read(block.size(), '\0');
  constexpr auto kDataLoss = absl::StatusCode::kDataLoss;
  {
    const UniqueFd fd = Open(whole);
    EXPECT_THAT(ReadBlock(fd.get(), std::string(64, 'c'), 1000, 0, read.data(), 1000),
                StatusIs(kDataLoss));
    EXPECT_THAT(ReadBlock(fd.get(), kKey, 999, 0, read.data(), 999), StatusIs(kDataLoss));
    EXPECT_THAT(ReadBlock(fd.get(), kKey, 1001, 0, read.data(), 1000), StatusIs(kDataLoss));
  }
  for (const size_t size : {size_t{0}, size_t{10}, size_t{95}, whole.size() - 1}) {
    const UniqueFd fd = Open(whole.substr(0, size));
    EXPECT_THAT(ReadBlock(fd.get(), kKey, 1000, 0, read.data(), 1000), StatusIs(kDataLoss)) << size;
  }
}

TEST(BlockKey, DiffersInEachOfItsParts) {
  const FileVersion version = {100, "t"};
  const std::string key = BlockKeyOf("s3://a/b", version, 1, 8);
  EXPECT_EQ(key.size(), 64u);
  EXPECT_EQ(key, BlockKeyOf("s3://a/b", version, 1, 8));
  EXPECT_NE(key, BlockKeyOf("s3://a/c", version, 1, 8));
  EXPECT_NE(key, BlockKeyOf("s3://a/bt", {100, ""}, 1, 8));
  EXPECT_NE(key, BlockKeyOf("s3://a/b", {101, "t"}, 1, 8));
  EXPECT_NE(key, BlockKeyOf("s3://a/b", {100, "u"}, 1, 8));
  EXPECT_NE(key, BlockKeyOf("s3://a/b", version, 2, 8));
  EXPECT_NE(key, BlockKeyOf("s3://a/b", version, 1, 9));
}

}  // namespace
}  // namespace muster::testing
