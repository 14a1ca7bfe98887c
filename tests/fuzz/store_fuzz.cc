// Columns of the controller's databases of any text: they decode or are refused as lost, nothing
// is changed on the way in, and what decodes encodes to a text that decodes to the same.
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "controller/store/ledger_codec.h"
#include "controller/store/metrics/points/point_codec.h"
#include "controller/store/row_codec.h"
#include "controller/store/settings_codec.h"
#include "tests/fuzz/fuzz_input.h"

namespace {

namespace mc = ::muster::controller;
using Json = ::nlohmann::json;
using ::muster::testing::FuzzInput;

[[noreturn]] void Broken(const std::string& what, const std::string& text) {
  ::fprintf(stderr, "BROKEN: %s:\n%s\n", what.c_str(), text.c_str());
  ::abort();
}

// What stands in both says the same in both; a key that is only in one had its default there.
bool SayTheSame(const Json& one, const Json& other) {
  if (!one.is_object() || !other.is_object()) return one == other;
  for (const auto& [key, value] : one.items()) {
    const auto found = other.find(key);
    if (found != other.end() && !SayTheSame(value, *found)) return false;
  }
  return true;
}

template <typename Decode, typename Encode>
void Round(const char* name, const std::string& text, const Decode& decode, const Encode& encode) {
  const auto value = decode(text);
  if (!value.ok()) {
    if (!absl::IsDataLoss(value.status())) Broken("refused, but not as lost", text);
    return;
  }
  const std::string once = encode(*value);
  const auto again = decode(once);
  if (!again.ok()) Broken(absl::StrCat(name, ": what was written cannot be read"), once);
  if (encode(*again) != once) Broken(absl::StrCat(name, ": not the same after a round"), once);
  const Json before = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  const Json after = Json::parse(once, nullptr, /*allow_exceptions=*/false);
  if (!before.is_discarded() && !after.is_discarded() && !SayTheSame(before, after))
    Broken(absl::StrCat(name, ": another value was read"), absl::StrCat(text, "\n", once));
}

void RoundAll(const std::string& text) {
  Round("texts", text, mc::DecodeTexts, mc::EncodeTexts);
  Round("numbers", text, mc::DecodeNumbers, mc::EncodeNumbers);
  Round("ids", text, mc::DecodeIds, mc::EncodeIds);
  Round("hex", text, mc::DecodeHexList, mc::EncodeHexList);
  Round("slots", text, mc::DecodeSlots, mc::EncodeSlots);
  Round("failures", text, mc::DecodeWorkerFailures, mc::EncodeWorkerFailures);
  Round("charged", text, mc::DecodeCharged, mc::EncodeCharged);
  Round("settings", text, mc::DecodeSettings, mc::EncodeSettings);
  const auto ledger = mc::DecodeLedger(text);
  if (ledger.ok() && mc::EncodeLedger(*ledger) != text)
    Broken("ledger: another one was read", text);
}

std::string SomeNumber(FuzzInput& input) {
  static const char* const kSpecial[] = {"-1",
                                         "0.5",
                                         "4294967295",
                                         "4294967296",
                                         "9223372036854775807",
                                         "-9223372036854775808",
                                         "9223372036854775808",
                                         "18446744073709551615",
                                         "1e300",
                                         "null"};
  return input.Chance(96) ? kSpecial[input.Below(10)] : absl::StrCat(input.Byte());
}

std::string SomeValue(FuzzInput& input, int depth) {
  switch (input.Below(depth > 3 ? 4 : 7)) {
    case 0:
    case 1:
    case 2:
      return SomeNumber(input);
    case 3:
      return input.Chance(64) ? "\"zz\"" : absl::StrCat("\"", input.Below(100), "\"");
    case 4:
      return input.Chance(128) ? "true" : "{}";
    default: {
      // Of the lengths that the lists of a column have.
      std::vector<std::string> list(input.Chance(200) ? (input.Chance(128) ? 2 : 5)
                                                      : input.Below(4));
      for (std::string& element : list) element = SomeValue(input, depth + 1);
      return absl::StrCat("[", absl::StrJoin(list, ","), "]");
    }
  }
}

// The columns that are made of such rows, with values of the input.
std::string SomeColumn(FuzzInput& input) {
  const auto number = [&] { return SomeNumber(input); };
  switch (input.Below(7)) {
    case 0:
      return absl::StrCat("[[", number(), ",", number(), ",\"cpu\",\"\",", number(), "]]");
    case 1:
      return absl::StrCat("[[", number(), ",", number(), ",", number(), ",", number(),
                          ",\"fell\"]]");
    case 2:
      return absl::StrCat("[[", number(), ",", number(), "],[", number(), ",", number(), "]]");
    case 3:
      return absl::StrCat("{\"name\":\"a\",\"priority\":", number(),
                          ",\"needs\":{\"min_ranks\":", number(), ",\"slot_kind\":", number(),
                          ",\"pools\":[[\"p\",", number(), "]],\"image\":", number(), "}}");
    case 4:
      return absl::StrCat("{\"scheduling\":{\"deadline\":", number(), ",\"after\":[[", number(),
                          ",", number(), "]],\"after_tasks\":[[", number(), ",", number(),
                          "]]},\"restart\":{\"max_restarts\":", number(), ",\"budgets\":[[",
                          number(), ",", number(), "]],\"backoff\":", number(), "}}");
    case 5: {
      static const char* const kKeys[] = {"name",      "tags",   "needs",       "scheduling",
                                          "selector",  "pools",  "resume_from", "restart",
                                          "keep_last", "upload", "after",       "budgets"};
      std::string inner = SomeValue(input, 0);
      for (uint32_t i = 1 + input.Below(2); i > 0; --i)
        inner = absl::StrCat("{\"", kKeys[input.Below(12)], "\":", inner, "}");
      return inner;
    }
    default: {
      std::vector<std::string> words(11 + 2 * mc::kTimeLabelCount);
      for (std::string& word : words)
        word = input.Chance(32) ? SomeNumber(input) : absl::StrCat(input.Below(5));
      return absl::StrJoin(words, " ");
    }
  }
}

void UnpackAny(const std::string& bytes) {
  for (uint64_t name = 0; name < 3; ++name) {
    std::vector<mc::PackedPoint> points;
    mc::UnpackPoints(bytes, name, points).IgnoreError();
    // A point takes ten bytes at least: no blob makes more of them than it has room for.
    if (points.size() > bytes.size() / 10) Broken("points out of nothing", "");
  }
}

void PackSome(FuzzInput& input) {
  mc::PointsByName points;
  while (!input.empty() && points.size() < 4) {
    mc::PackedPoint point{static_cast<int64_t>(input.Word()), static_cast<int64_t>(input.Word()),
                          static_cast<double>(input.Byte())};
    points[input.Below(4)].push_back(point);
  }
  const std::string packed = mc::PackPoints(points);
  for (const auto& [name, series] : points) {
    std::vector<mc::PackedPoint> read;
    if (!mc::UnpackPoints(packed, name, read).ok() || read.size() != series.size())
      Broken("points cannot be read back", "");
    for (size_t i = 0; i < read.size(); ++i) {
      if (read[i].step != series[i].step || read[i].time_ms != series[i].time_ms ||
          read[i].value != series[i].value) {
        Broken("another point came back", "");
      }
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  RoundAll(text);
  UnpackAny(text);
  FuzzInput input(data, size);
  RoundAll(SomeColumn(input));
  RoundAll(SomeValue(input, 0));
  PackSome(input);
  return 0;
}
