// Runs a fuzz target without a fuzzer: every file of its corpus, then so many inputs that follow
// from a fixed seed, half of them mutations of the corpus. The same inputs in every run; what they
// find aborts. clang's libFuzzer runs the same targets for longer (preset `fuzz`, scripts/fuzz).
//
// MUSTER_FUZZ_RUNS sets another number.
#include <gtest/gtest.h>
#include <stdint.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include "common/base/rng.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace muster::testing {
namespace {

constexpr size_t kMostBytes = 2048;

void RunOne(const std::string& input) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(input.data()), input.size());
}

std::vector<std::string> ReadCorpus() {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(FUZZ_CORPUS)) {
    paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> corpus;
  for (const auto& path : paths) {
    std::ifstream in(path, std::ios::binary);
    corpus.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  return corpus;
}

// Bytes that follow from a seed.
class Bytes {
 public:
  explicit Bytes(uint64_t seed) : state_(seed) {}
  uint64_t Next() { return SplitMix64(state_++ * 0x9E3779B97F4A7C15u); }
  size_t Below(size_t count) { return count == 0 ? 0 : Next() % count; }

 private:
  uint64_t state_;
};

std::string MakeInput(Bytes& bytes, const std::vector<std::string>& corpus) {
  std::string input;
  if (!corpus.empty() && bytes.Below(2) == 0) {
    input = corpus[bytes.Below(corpus.size())];
    for (size_t i = 0; i <= bytes.Below(8); ++i) {
      const size_t at = bytes.Below(input.size() + 1);
      switch (bytes.Below(3)) {
        case 0:
          if (at < input.size()) input[at] = static_cast<char>(bytes.Next());
          break;
        case 1:
          input.insert(at, 1, static_cast<char>(bytes.Next()));
          break;
        default:
          input.erase(at, bytes.Below(8));
      }
    }
    return input;
  }
  input.resize(bytes.Below(kMostBytes));
  for (char& c : input) c = static_cast<char>(bytes.Next());
  return input;
}

TEST(Fuzz, CorpusAndSeededInputsBreakNothing) {
  const std::vector<std::string> corpus = ReadCorpus();
  for (const std::string& input : corpus) RunOne(input);
  const char* wanted = ::getenv("MUSTER_FUZZ_RUNS");
  const int runs = wanted == nullptr ? FUZZ_RUNS : ::atoi(wanted);
  for (int run = 0; run < runs; ++run) {
    Bytes bytes(static_cast<uint64_t>(run));
    RunOne(MakeInput(bytes, corpus));
  }
  std::cout << "[ inputs   ] " << corpus.size() << " of the corpus, " << runs << " from seeds"
            << std::endl;
}

}  // namespace
}  // namespace muster::testing
