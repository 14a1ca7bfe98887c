// SHA-256 of a stream of bytes. Not thread-safe.
#pragma once

#include <memory>
#include <string>

#include "absl/strings/string_view.h"

struct evp_md_ctx_st;  // OpenSSL's EVP_MD_CTX

namespace muster {

class Sha256 {
 public:
  Sha256();

  void Update(absl::string_view bytes);
  // 64 lower-case hex digits; the hasher is used up.
  std::string FinishHex();

 private:
  const std::unique_ptr<evp_md_ctx_st, void (*)(evp_md_ctx_st*)> context_;
};

// Of the text, in 64 lower-case hex digits.
std::string Sha256Hex(absl::string_view text);
// Whether the text is one.
bool IsSha256Hex(absl::string_view text);

}  // namespace muster
