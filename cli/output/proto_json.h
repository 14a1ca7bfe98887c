// Any message of our protocol as JSON, by reflection. Pure.
//
// Every field stands in it, under its proto name, so that scripts find the same keys always: an
// absent optional or message is null, an empty list []. Numbers are numbers (protobuf's own JSON
// makes 64-bit ones text), an enum is its name and null when unspecified, NaN and infinity are
// null, bytes that are not UTF-8 have their bad bytes replaced when printed.
#pragma once

#include <google/protobuf/message.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace muster::cli {

using Json = nlohmann::ordered_json;

Json ToJson(const google::protobuf::Message& message);

template <typename Messages>
std::vector<Json> ToJsonList(const Messages& messages) {
  std::vector<Json> list;
  for (const auto& message : messages) list.push_back(ToJson(message));
  return list;
}

}  // namespace muster::cli
