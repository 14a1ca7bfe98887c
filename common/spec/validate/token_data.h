// Data whose samples are rows of tokens, wherever a spec has them. Used by defaults and validators.
// Pure.
#pragma once

#include <cstdint>
#include <optional>

#include "muster/v1/job_spec.pb.h"

namespace muster {

struct TokenData {
  bool is_text = false;  // as bytes
  uint64_t context = 0;
  uint64_t vocabulary = 0;
};

// Nothing for data of another kind, or none. Of a mixture its first source of tokens: the sources
// must be alike.
std::optional<TokenData> TokenDataOf(const v1::Data& data);

}  // namespace muster
