#include "controller/api/calls/data_key.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>

#include "common/os/sha256.h"

namespace muster::controller {
namespace {

// As PreflightSource has it (worker/data_tool/check/preflight.cc).
template <typename Source>
bool IsLookedAt(const Source& source) {
  return source.has_images() || source.has_tokens() || source.has_text() || source.has_csv() ||
         source.has_numpy();
}

bool AreLookedAt(const v1::Data& data) {
  if (!data.has_mixture()) return IsLookedAt(data);
  const auto& sources = data.mixture().sources();
  return std::all_of(sources.begin(), sources.end(),
                     [](const v1::MixtureSource& source) { return IsLookedAt(source); });
}

// The same bytes for equal messages, within one program; maps are sorted.
std::string Bytes(const google::protobuf::Message& message) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    message.SerializeToCodedStream(&coded);
  }
  return bytes;
}

}  // namespace

std::string DataKeyOf(const v1::Train& train) {
  if (!train.has_data() || !AreLookedAt(train.data())) return "";
  // What decides how ranks read the data, and not what is there, is left out.
  v1::Train looked_at;
  *looked_at.mutable_data() = train.data();
  v1::Data& data = *looked_at.mutable_data();
  data.clear_threads();
  data.clear_memory_limit();
  // Ranks that read in windows compare the order in storage too (PictureSetFingerprint).
  const bool in_windows = data.shuffle_window() > 0;
  data.clear_shuffle_window();
  if (in_windows) data.set_shuffle_window(1);
  if (data.has_mixture()) {
    data.mutable_mixture()->clear_phases();
    for (v1::MixtureSource& source : *data.mutable_mixture()->mutable_sources()) {
      source.clear_name();
      source.clear_weight();
    }
  }
  if (train.has_validate_samples()) looked_at.set_validate_samples(train.validate_samples());
  return Sha256Hex(Bytes(looked_at));
}

}  // namespace muster::controller
