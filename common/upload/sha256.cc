#include "common/upload/sha256.h"

// EVP, which is what OpenSSL 3 wishes for, links every algorithm that there is: 84 pages of tables
// to relocate at each start of the CLI. These functions are the same code without the tables.
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/sha.h>

#include <array>

#include "absl/strings/escaping.h"
#include "common/base/check.h"

namespace muster {

Sha256::Sha256() : context_(std::make_unique<SHA256_CTX>()) {
  MUSTER_CHECK(::SHA256_Init(context_.get()) == 1, "a hash can be begun");
}

Sha256::~Sha256() = default;

void Sha256::Update(absl::string_view bytes) {
  MUSTER_CHECK(::SHA256_Update(context_.get(), bytes.data(), bytes.size()) == 1,
               "bytes are hashed");
}

std::string Sha256::FinishHex() {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest;
  MUSTER_CHECK(::SHA256_Final(digest.data(), context_.get()) == 1, "a hash is finished once");
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(digest.data()), digest.size()));
}

bool IsSha256Hex(absl::string_view text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == absl::string_view::npos;
}

}  // namespace muster
