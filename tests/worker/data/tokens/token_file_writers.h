// Files of tokens as their writers make them, for the tests of this folder.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace muster::testing {

template <typename T>
std::string BytesOfNumbers(const std::vector<T>& values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

// llm.c's header of 256 numbers, then the tokens.
template <typename T>
std::string LlmcShard(const std::vector<T>& tokens, int32_t magic = 20240520, int32_t version = 1) {
  std::vector<int32_t> header(256, 0);
  header[0] = magic;
  header[1] = version;
  header[2] = static_cast<int32_t>(tokens.size());
  return BytesOfNumbers(header) + BytesOfNumbers(tokens);
}

// Megatron's index over sequences of these lengths, one behind the other.
inline std::string MegatronIndex(const std::vector<int32_t>& lengths, uint8_t code,
                                 int64_t token_bytes) {
  std::string index("MMIDIDX\0\0", 9);
  index += BytesOfNumbers(std::vector<uint64_t>{1});
  index += static_cast<char>(code);
  index += BytesOfNumbers(std::vector<uint64_t>{lengths.size(), 2});
  index += BytesOfNumbers(lengths);
  std::vector<int64_t> pointers;
  int64_t at = 0;
  for (const int32_t length : lengths) {
    pointers.push_back(at);
    at += length * token_bytes;
  }
  index += BytesOfNumbers(pointers);
  return index + BytesOfNumbers(std::vector<int64_t>{0, static_cast<int64_t>(lengths.size())});
}

}  // namespace muster::testing
