// The bounds that every part of a spec is checked by: each check adds a fault, with the path of the
// key, when the value is out of bounds. Used by the validators alone. Pure.
#pragma once

#include <google/protobuf/descriptor.h>
#include <google/protobuf/duration.pb.h>
#include <google/protobuf/map.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/spec/tree/spec_fault.h"

namespace muster {

// The members of a oneof as people write them: "a, b, c".
std::string MembersOf(const google::protobuf::Descriptor& message, const char* oneof);

class SpecChecks {
 public:
  static constexpr uint64_t kMostSteps = 1'000'000'000'000;
  static constexpr uint64_t kMostEpochs = 1'000'000;
  static constexpr uint64_t kMostContext = 1 << 20;  // tokens in a sample
  static constexpr uint64_t kMostVocabulary = 1 << 24;
  static constexpr size_t kMostValueBytes = 128;
  static constexpr size_t kMostPathBytes = 4096;
  using Strings = google::protobuf::Map<std::string, std::string>;

  // `faults` outlives the checks.
  explicit SpecChecks(std::vector<SpecFault>& faults) : faults_(faults) {}

 protected:
  static bool HasControlBytes(absl::string_view text);
  std::vector<SpecFault>& faults() { return faults_; }

  void Fault(absl::string_view path, std::string message);
  void Whole(absl::string_view path, uint64_t value, uint64_t least, uint64_t most);
  void Range(absl::string_view path, double value, double least, double most);
  // least <= value < below
  void Below(absl::string_view path, double value, double least, double below);
  // above < value <= most
  void Above(absl::string_view path, double value, double above, double most);
  void Time(absl::string_view path, const google::protobuf::Duration& value, absl::Duration least,
            absl::Duration most);
  void Name(absl::string_view path, const std::string& value);
  void Status(absl::string_view path, const absl::Status& status);
  void Count(absl::string_view path, int given, int most);
  void Text(absl::string_view path, const std::string& value);
  void Pairs(absl::string_view path, const Strings& pairs);
  void Path(absl::string_view path, const std::string& value);
  // A path that must be there; `what` says what lies at it.
  void Given(absl::string_view path, absl::string_view what, bool given, const std::string& value);

 private:
  std::vector<SpecFault>& faults_;
};

}  // namespace muster
