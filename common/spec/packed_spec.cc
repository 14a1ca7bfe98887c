#include "common/spec/packed_spec.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include "absl/strings/match.h"
#include "common/spec/read/spec_reader.h"
#include "common/spec/spec_writer.h"

namespace muster {
namespace {

// No packed message begins so: it would be the start of a group.
bool IsJson(absl::string_view packed) { return absl::StartsWith(packed, "{"); }

}  // namespace

std::string PackSpec(const v1::JobSpec& spec) {
  std::string packed;
  {
    google::protobuf::io::StringOutputStream out(&packed);
    google::protobuf::io::CodedOutputStream coded(&out);
    coded.SetSerializationDeterministic(true);  // else maps have any order
    spec.SerializePartialToCodedStream(&coded);
  }
  return packed;
}

v1::JobSpec UnpackSpec(absl::string_view packed) {
  if (IsJson(packed)) return ReadSpec(packed).spec;
  v1::JobSpec spec;
  spec.ParsePartialFromArray(packed.data(), static_cast<int>(packed.size()));
  return spec;
}

std::string PackedSpecToJson(absl::string_view packed) {
  return IsJson(packed) ? std::string(packed) : SpecToJson(UnpackSpec(packed));
}

}  // namespace muster
