// A job file of any bytes, as YAML and as JSON: it is read or refused, the same by tables and by
// reflection, and what is accepted comes back the same from the text that ranks get.
#include <google/protobuf/util/message_differencer.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <map>
#include <string>
#include <vector>

#include "common/spec/read/spec_reader.h"
#include "common/spec/read/table_reader.h"
#include "common/spec/spec_writer.h"
#include "common/spec/tree/spec_text.h"
#include "common/spec/tree/spec_tree.h"
#include "common/spec/validate/spec_defaults.h"
#include "common/spec/validate/spec_validate.h"

namespace {

using google::protobuf::util::MessageDifferencer;

[[noreturn]] void Broken(const char* what, const std::string& text) {
  ::fprintf(stderr, "BROKEN: %s:\n%s\n", what, text.c_str());
  ::abort();
}

void CheckTables(const std::string& text) {
  std::vector<muster::SpecFault> faults;
  const muster::SpecNode root = muster::ParseSpecTree(text, faults);
  if (!faults.empty()) return;
  muster::ReadSpecResult told;
  muster::ReadSpecTree(root, told);
  muster::v1::JobSpec spec;
  std::map<std::string, int> lines;
  if (muster::ReadByTable(root, spec, lines) != told.faults.empty()) {
    Broken("only one of table and reflection reads it", text);
  }
  if (told.faults.empty() &&
      (lines != told.lines || !MessageDifferencer::Equals(spec, told.spec))) {
    Broken("not the same by table and by reflection", text);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  CheckTables(text);
  muster::ReadSpecResult reading = muster::ReadSpec(text);
  if (!reading.faults.empty()) return 0;
  muster::FillDefaults(reading.spec);
  if (!muster::ValidateSpec(reading.spec).empty()) return 0;
  const std::string json = muster::SpecToJson(reading.spec);
  const muster::ReadSpecResult again = muster::ReadSpec(json);
  if (!again.faults.empty() || !MessageDifferencer::Equals(reading.spec, again.spec)) {
    Broken("not the same after writing and reading", json);
  }
  return 0;
}
