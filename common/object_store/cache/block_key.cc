#include "common/object_store/cache/block_key.h"

#include <openssl/evp.h>

#include <array>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"

namespace muster {

std::string BlockKeyOf(absl::string_view path, const FileVersion& version, uint64_t block,
                       uint64_t block_bytes) {
  // Lengths first: no two lists of fields give the same text.
  const std::string fields =
      absl::StrCat("muster block 1\n", path.size(), " ", version.tag.size(), " ",
                   version.size_bytes, " ", block, " ", block_bytes, "\n", path, version.tag);
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned size = 0;
  MUSTER_CHECK(::EVP_Digest(fields.data(), fields.size(), digest.data(), &size, ::EVP_sha256(),
                            nullptr) == 1,
               "a key is hashed");
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(digest.data()), size));
}

}  // namespace muster
