#include "worker/agent/identity/identity.h"

#include "absl/strings/escaping.h"
#include "nlohmann/json.hpp"

namespace muster::worker {
namespace {

using nlohmann::json;

std::string TextOf(const json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_string() ? it->get<std::string>() : std::string();
}

}  // namespace

std::string EncodeIdentity(const IdentityRecord& record) {
  json lives = json::array();
  for (const IdentityRecord::Life& life : record.lives) {
    lives.push_back(
        {{"incarnation", absl::BytesToHexString(life.incarnation)}, {"place", life.place}});
  }
  const json object = {{"identity", absl::BytesToHexString(record.identity)},
                       {"machine", record.machine},
                       {"lives", lives},
                       {"controller", absl::BytesToHexString(record.controller.id)},
                       {"controller_term", record.controller.term}};
  return object.dump(2) + "\n";
}

absl::StatusOr<IdentityRecord> DecodeIdentity(absl::string_view text) {
  const json object = json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  const auto broken = [] { return absl::DataLossError("not the record of an agent's identity"); };
  if (object.is_discarded() || !object.is_object()) return broken();
  const auto lives = object.find("lives");
  const auto term = object.find("controller_term");
  if (lives == object.end() || !lives->is_array() || term == object.end() ||
      !term->is_number_unsigned()) {
    return broken();
  }
  IdentityRecord record;
  record.identity = absl::HexStringToBytes(TextOf(object, "identity"));
  record.machine = TextOf(object, "machine");
  record.controller.id = absl::HexStringToBytes(TextOf(object, "controller"));
  if (!record.controller.id.empty()) record.controller.term = term->get<uint64_t>();
  if (record.identity.size() != kIdentityBytes || lives->size() > IdentityRecord::kMaxLives) {
    return broken();
  }
  for (const json& life : *lives) {
    if (!life.is_object()) return broken();
    record.lives.push_back(
        {absl::HexStringToBytes(TextOf(life, "incarnation")), TextOf(life, "place")});
    if (record.lives.back().incarnation.size() != kIdentityBytes) return broken();
  }
  return record;
}

BegunLife BeginLife(const std::optional<IdentityRecord>& before, const Surroundings& here,
                    const std::string& incarnation, const std::string& fresh) {
  BegunLife begun;
  if (before.has_value()) begun.record = *before;
  begun.is_new_identity = !before.has_value() || before->machine != here.machine;
  if (begun.is_new_identity) {
    begun.record.identity = fresh;
    begun.record.machine = here.machine;
    begun.record.lives.clear();
    begun.record.controller = {};
  }
  for (const IdentityRecord::Life& life : begun.record.lives) {
    if (life.place == here.place) begun.predecessors.push_back(life.incarnation);
  }
  std::vector<IdentityRecord::Life>& lives = begun.record.lives;
  lives.insert(lives.begin(), {incarnation, here.place});
  if (lives.size() > IdentityRecord::kMaxLives) lives.resize(IdentityRecord::kMaxLives);
  return begun;
}

void NoteWelcome(const KnownController& controller, IdentityRecord& record) {
  if (record.lives.size() > 1) record.lives.resize(1);
  record.controller = controller;
}

}  // namespace muster::worker
