#include "worker/data/formats/parse/crc32c.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace muster::worker {
namespace {

TEST(Crc32c, GivesTheKnownSums) {
  // RFC 3720, appendix B.4.
  std::string rising, falling;
  for (int i = 0; i < 32; ++i) rising += static_cast<char>(i);
  for (int i = 31; i >= 0; --i) falling += static_cast<char>(i);
  for (auto* sum : {&Crc32c, &PortableCrc32c}) {
    EXPECT_EQ(sum("123456789", 0), 0xe3069283u);
    EXPECT_EQ(sum(std::string(32, '\0'), 0), 0x8a9136aau);
    EXPECT_EQ(sum(std::string(32, '\xff'), 0), 0x62a8ab43u);
    EXPECT_EQ(sum(rising, 0), 0x46dd794eu);
    EXPECT_EQ(sum(falling, 0), 0x113fdb5cu);
    EXPECT_EQ(sum("", 0), 0u);
  }
}

TEST(Crc32c, IsTheSameInPartsAndWithoutTheInstruction) {
  std::mt19937 random(3);
  std::string bytes(3000, '\0');
  for (char& c : bytes) c = static_cast<char>(random());
  for (int i = 0; i < 200; ++i) {
    const absl::string_view some = absl::string_view(bytes).substr(random() % 9, random() % 3000);
    const size_t cut = random() % (some.size() + 1);
    const uint32_t whole = Crc32c(some);
    EXPECT_EQ(PortableCrc32c(some), whole);
    EXPECT_EQ(Crc32c(some.substr(cut), Crc32c(some.substr(0, cut))), whole);
    EXPECT_EQ(PortableCrc32c(some.substr(cut), Crc32c(some.substr(0, cut))), whole);
  }
}

}  // namespace
}  // namespace muster::worker
