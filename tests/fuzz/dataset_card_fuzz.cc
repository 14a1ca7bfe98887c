// The README.md of a dataset, of any bytes: read or refused.
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "tests/fuzz/fuzz_input.h"
#include "worker/data/formats/parse/dataset_card.h"

namespace {

void Read(const std::string& text) {
  const auto configs = muster::worker::ParseDatasetCard(text);
  if (!configs.ok()) return;
  for (const muster::worker::CardConfig& config : *configs) {
    for (const muster::worker::CardSplit& split : config.splits) {
      if (!split.name.empty()) continue;
      ::fprintf(stderr, "BROKEN: a split without a name\n");
      ::abort();
    }
  }
}

// Words that such headers are made of.
std::string SomeHeader(muster::testing::FuzzInput& input) {
  static const char* const kWords[] = {
      "- ",   "config_name: ", "data_files:", "split: ",  "path: ", "\n", "\n  ", "\n    ",
      "\n- ", "default: true", "\"a\"",       "[a, 'b']", "a/*",    "#",  "'",    "x: "};
  std::string text = "---\nconfigs:\n";
  while (!input.empty()) {
    text += input.Chance(8) ? input.Bytes(3) : std::string(kWords[input.Below(16)]);
  }
  return text + "\n---\n";
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Read(std::string(reinterpret_cast<const char*>(data), size));
  muster::testing::FuzzInput input(data, size);
  Read(SomeHeader(input));
  return 0;
}
