// A job file of any bytes, as YAML and as JSON: it is read or refused, and what is accepted comes
// back the same from the text that ranks get.
#include <google/protobuf/util/message_differencer.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <string>

#include "common/spec/read/spec_reader.h"
#include "common/spec/spec_writer.h"
#include "common/spec/validate/spec_defaults.h"
#include "common/spec/validate/spec_validate.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  muster::ReadSpecResult reading = muster::ReadSpec(text);
  if (!reading.faults.empty()) return 0;
  muster::FillDefaults(reading.spec);
  if (!muster::ValidateSpec(reading.spec).empty()) return 0;
  const std::string json = muster::SpecToJson(reading.spec);
  const muster::ReadSpecResult again = muster::ReadSpec(json);
  if (!again.faults.empty() ||
      !google::protobuf::util::MessageDifferencer::Equals(reading.spec, again.spec)) {
    ::fprintf(stderr, "BROKEN: not the same after writing and reading:\n%s\n", json.c_str());
    ::abort();
  }
  return 0;
}
