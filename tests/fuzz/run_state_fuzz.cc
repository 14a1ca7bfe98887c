// A checkpoint's state.json of any bytes: it is read or refused, what is read encodes to a text
// that reads the same, and two runs can always be compared.
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <string>

#include "worker/train/run/run_state.h"

namespace {

[[noreturn]] void Broken(const char* what, const std::string& text) {
  ::fprintf(stderr, "BROKEN: %s:\n%s\n", what, text.c_str());
  ::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  // Specs come from outside as well.
  muster::worker::ChangedRecipe(text, text);
  const auto decoded = muster::worker::DecodeRunState(text);
  if (!decoded.ok()) {
    if (!absl::IsDataLoss(decoded.status()) && !absl::IsFailedPrecondition(decoded.status()))
      Broken("refused with a code that nobody expects", decoded.status().ToString());
    return 0;
  }
  const std::string once = muster::worker::EncodeRunState(decoded->state, decoded->identity);
  const auto again = muster::worker::DecodeRunState(once);
  if (!again.ok()) Broken("what was written cannot be read", once);
  const std::string twice = muster::worker::EncodeRunState(again->state, again->identity);
  if (twice != once) Broken("not the same after another round", once + "\n" + twice);
  if (!muster::worker::ChangesOfBits(decoded->identity, again->identity).empty())
    Broken("a run differs from itself", once);
  return 0;
}
