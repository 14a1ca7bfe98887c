#include "common/ckpt/block_hasher.h"

#include <gtest/gtest.h>

namespace muster {
namespace {

TEST(BlockHasherTest, GivesThePublishedXxh3OfNothing) {
  BlockHasher hasher;
  const BlockHasher::Result result = hasher.Finish();
  EXPECT_EQ(HashToHex(result.whole), "99aa06d3014798d86001c324468d497f");
  EXPECT_EQ(result.size_bytes, 0u);
  EXPECT_TRUE(result.blocks.empty());
}

TEST(BlockHasherTest, HowTheBytesArriveDoesNotMatter) {
  std::string bytes(kHashBlockBytes + 12345, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 31 + i / 7);
  BlockHasher once;
  once.Update(bytes);
  const BlockHasher::Result a = once.Finish();
  BlockHasher pieces;
  for (size_t i = 0; i < bytes.size(); i += 99991) {
    pieces.Update(absl::string_view(bytes).substr(i, 99991));
  }
  const BlockHasher::Result b = pieces.Finish();
  EXPECT_EQ(a.whole, b.whole);
  EXPECT_EQ(a.blocks, b.blocks);
  ASSERT_EQ(a.blocks.size(), 2u);
  EXPECT_EQ(a.size_bytes, bytes.size());
}

TEST(BlockHasherTest, ExactlyOneBlockIsOneBlock) {
  BlockHasher hasher;
  hasher.Update(std::string(kHashBlockBytes, 'x'));
  const BlockHasher::Result result = hasher.Finish();
  ASSERT_EQ(result.blocks.size(), 1u);
  EXPECT_EQ(result.blocks[0], result.whole);
}

TEST(BlockHasherTest, StartsAnewAfterFinish) {
  BlockHasher hasher;
  hasher.Update("abc");
  const BlockHasher::Result first = hasher.Finish();
  hasher.Update("abc");
  const BlockHasher::Result second = hasher.Finish();
  EXPECT_EQ(first.whole, second.whole);
  EXPECT_EQ(second.size_bytes, 3u);
  EXPECT_EQ(second.blocks.size(), 1u);
}

TEST(BlockHasherTest, OnlyExactHexIsAHash) {
  const std::string hex = "99aa06d3014798d86001c324468d497f";
  ASSERT_TRUE(HashFromHex(hex).has_value());
  EXPECT_EQ(HashToHex(*HashFromHex(hex)), hex);
  EXPECT_FALSE(HashFromHex("").has_value());
  EXPECT_FALSE(HashFromHex(hex.substr(1)).has_value());
  EXPECT_FALSE(HashFromHex("99AA06d3014798d86001c324468d497f").has_value());
  EXPECT_FALSE(HashFromHex("g9aa06d3014798d86001c324468d497f").has_value());
}

}  // namespace
}  // namespace muster
