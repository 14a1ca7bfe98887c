// What is known of those who join: plain data.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/time/time.h"

namespace muster::controller {

struct JoinTokenRow {
  std::string id;             // public
  std::string secret_sha256;  // hex; the secret itself is nowhere
  std::string name_prefix;
  bool may_replace = false;
  uint32_t max_uses = 0;
  uint32_t uses = 0;
  absl::Time created;
  absl::Time expires;
  std::string created_by;
  bool revoked = false;
};

// A machine that came by a token: who repeats what he did is known again.
struct TokenUse {
  std::string token_id;
  std::string name;
  std::string key_sha256;
};

// The certificate that holds a name: the newest that was made or shown.
struct HolderRow {
  std::string name;
  std::string key_sha256;
  std::string serial;
  absl::Time issued;
  absl::Time not_after;
  std::string token_id;  // empty: not by a token
};

struct RevocationRow {
  std::string name;
  absl::Time at;  // certificates of that name made by then are refused
};

// A certificate that is to be handed out.
struct CertificateIssue {
  HolderRow holder;
  std::optional<TokenUse> use;  // counted; nothing: no new one
  std::string lost_key;         // refused from now on; empty: none
};

}  // namespace muster::controller
