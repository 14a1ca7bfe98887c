#include "common/upload/sha256.h"

#include <openssl/evp.h>

#include "absl/strings/escaping.h"
#include "common/base/check.h"

namespace muster {

Sha256::Sha256() : context_(::EVP_MD_CTX_new()) {
  MUSTER_CHECK(context_ != nullptr && ::EVP_DigestInit_ex(context_, ::EVP_sha256(), nullptr) == 1,
               "OpenSSL has SHA-256");
}

Sha256::~Sha256() { ::EVP_MD_CTX_free(context_); }

void Sha256::Update(absl::string_view bytes) {
  MUSTER_CHECK(::EVP_DigestUpdate(context_, bytes.data(), bytes.size()) == 1, "bytes are hashed");
}

std::string Sha256::FinishHex() {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  MUSTER_CHECK(::EVP_DigestFinal_ex(context_, digest, &size) == 1, "a hash is finished once");
  return absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(digest), size));
}

bool IsSha256Hex(absl::string_view text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == absl::string_view::npos;
}

}  // namespace muster
