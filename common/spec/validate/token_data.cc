#include "common/spec/validate/token_data.h"

namespace muster {
namespace {

constexpr uint64_t kByteVocabulary = 256;

// `data` is a v1::Data, or a source of a mixture.
template <typename Data>
std::optional<TokenData> TokensOfSource(const Data& data) {
  if (data.has_text()) return TokenData{true, data.text().context(), kByteVocabulary};
  if (data.has_tokens())
    return TokenData{false, data.tokens().context(), data.tokens().vocabulary()};
  return std::nullopt;
}

}  // namespace

std::optional<TokenData> TokenDataOf(const v1::Data& data) {
  for (const v1::MixtureSource& source : data.mixture().sources()) {
    const std::optional<TokenData> tokens = TokensOfSource(source);
    if (tokens.has_value()) return tokens;
  }
  return TokensOfSource(data);
}

}  // namespace muster
