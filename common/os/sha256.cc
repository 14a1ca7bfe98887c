#include "common/os/sha256.h"

#include <openssl/evp.h>

#include <array>

#include "absl/strings/escaping.h"
#include "common/base/check.h"

namespace muster {

Sha256::Sha256() : context_(::EVP_MD_CTX_new(), ::EVP_MD_CTX_free) {
  MUSTER_CHECK(::EVP_DigestInit_ex(context_.get(), ::EVP_sha256(), nullptr) == 1,
               "a hash can be begun");
}

void Sha256::Update(absl::string_view bytes) {
  MUSTER_CHECK(::EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1,
               "bytes are hashed");
}

std::string Sha256::FinishHex() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned size = 0;
  MUSTER_CHECK(::EVP_DigestFinal_ex(context_.get(), digest.data(), &size) == 1,
               "a hash is finished once");
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(digest.data()), size));
}

std::string Sha256Hex(absl::string_view text) {
  Sha256 hash;
  hash.Update(text);
  return hash.FinishHex();
}

bool IsSha256Hex(absl::string_view text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == absl::string_view::npos;
}

}  // namespace muster
