#include "controller/store/settings_codec.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"

namespace muster::controller {
namespace {

using Json = nlohmann::json;

// Durations are milliseconds, times Unix milliseconds; null: infinite.
Json Encode(absl::Duration duration) {
  return duration == absl::InfiniteDuration() ? Json() : Json(absl::ToInt64Milliseconds(duration));
}
Json Encode(absl::Time time) {
  const bool infinite = time == absl::InfiniteFuture() || time == absl::InfinitePast();
  return infinite ? Json() : Json(absl::ToUnixMillis(time));
}

Json EncodeNeeds(const JobNeeds& needs) {
  Json pools = Json::array();
  for (const JobNeeds::Pool& pool : needs.pools) pools.push_back({pool.name, Encode(pool.after)});
  return {{"min_ranks", needs.min_ranks},
          {"max_ranks", needs.max_ranks},
          {"slot_kind", static_cast<int>(needs.slot_kind)},
          {"slots_per_rank", needs.slots_per_rank},
          {"gpu_type", needs.gpu_type},
          {"cpus_per_rank", needs.cpus_per_rank},
          {"memory_per_rank", needs.memory_per_rank},
          {"pools", pools},
          {"selector", needs.selector},
          {"exclude", needs.exclude},
          {"wait_for_capacity", needs.wait_for_capacity},
          {"commands", needs.commands}};
}

Json EncodeScheduling(const SchedulingSettings& scheduling) {
  Json after = Json::array();
  Json tasks = Json::array();  // by the place in `after`
  for (const auto& other : scheduling.after) {
    if (other.task.has_value()) tasks.push_back({after.size(), *other.task});
    after.push_back({other.job_id, static_cast<int>(other.on)});
  }
  return {{"preemptible", scheduling.preemptible},
          {"max_run_time", Encode(scheduling.max_run_time)},
          {"expected_run_time", Encode(scheduling.expected_run_time)},
          {"deadline", Encode(scheduling.deadline)},
          {"begin", Encode(scheduling.begin)},
          {"after", after},
          {"after_tasks", tasks},
          {"hold", scheduling.hold}};
}

Json EncodeRestart(const RestartSettings& restart) {
  Json budgets = Json::array();
  for (const auto& [kind, count] : restart.budgets) {
    budgets.push_back({static_cast<int>(kind), count});
  }
  return {{"max_restarts", restart.max_restarts},
          {"budgets", budgets},
          {"backoff", Encode(restart.backoff)},
          {"max_backoff", Encode(restart.max_backoff)},
          {"progress_timeout", Encode(restart.progress_timeout)}};
}

// Reads the keys of one object; the first fault is kept.
class Reader {
 public:
  Reader(const Json& object, bool& broken) : object_(object), broken_(broken) {
    if (!object.is_object()) broken_ = true;
  }

  const Json* Find(const char* key) const {
    if (!object_.is_object()) return nullptr;
    const auto it = object_.find(key);
    return it == object_.end() ? nullptr : &*it;
  }
  template <typename T>
  void Number(const char* key, T& out) {
    const Json* value = Find(key);
    if (value == nullptr) return;
    if (value->is_number_integer()) {
      out = static_cast<T>(value->get<int64_t>());
    } else {
      broken_ = true;
    }
  }
  void Bool(const char* key, bool& out) {
    const Json* value = Find(key);
    if (value == nullptr) return;
    if (value->is_boolean()) {
      out = value->get<bool>();
    } else {
      broken_ = true;
    }
  }
  void Text(const char* key, std::string& out) {
    if (const Json* value = Find(key)) out = TextOf(*value);
  }
  void Time(const char* key, absl::Duration& out) {
    if (const Json* value = Find(key)) out = DurationOf(*value);
  }
  void Time(const char* key, absl::Time& out) {
    const Json* value = Find(key);
    if (value == nullptr || value->is_null()) return;  // the default is the infinite one
    if (value->is_number_integer()) {
      out = absl::FromUnixMillis(value->get<int64_t>());
    } else {
      broken_ = true;
    }
  }
  // Calls visit(element) for each element of a list.
  template <typename F>
  void List(const char* key, F&& visit) {
    const Json* value = Find(key);
    if (value == nullptr) return;
    if (!value->is_array()) {
      broken_ = true;
      return;
    }
    for (const Json& element : *value) visit(element);
  }
  // A pair, as the lists hold them; null and broken when it is none.
  bool IsPair(const Json& element) {
    const bool pair = element.is_array() && element.size() == 2;
    if (!pair) broken_ = true;
    return pair;
  }
  int64_t IntOf(const Json& value) {
    if (value.is_number_integer()) return value.get<int64_t>();
    broken_ = true;
    return 0;
  }
  std::string TextOf(const Json& value) {
    if (value.is_string()) return value.get<std::string>();
    broken_ = true;
    return "";
  }
  absl::Duration DurationOf(const Json& value) {
    return value.is_null() ? absl::InfiniteDuration() : absl::Milliseconds(IntOf(value));
  }

 private:
  const Json& object_;
  bool& broken_;
};

void DecodeNeeds(Reader reader, JobNeeds& out) {
  int kind = static_cast<int>(out.slot_kind);
  reader.Number("min_ranks", out.min_ranks);
  reader.Number("max_ranks", out.max_ranks);
  reader.Number("slot_kind", kind);
  out.slot_kind = static_cast<SlotKind>(kind);
  reader.Number("slots_per_rank", out.slots_per_rank);
  reader.Text("gpu_type", out.gpu_type);
  reader.Number("cpus_per_rank", out.cpus_per_rank);
  reader.Number("memory_per_rank", out.memory_per_rank);
  reader.List("pools", [&](const Json& pool) {
    if (!reader.IsPair(pool)) return;
    out.pools.push_back({.name = reader.TextOf(pool[0]), .after = reader.DurationOf(pool[1])});
  });
  if (const Json* selector = reader.Find("selector");
      selector != nullptr && selector->is_object()) {
    for (const auto& [key, value] : selector->items()) out.selector[key] = reader.TextOf(value);
  }
  reader.List("exclude", [&](const Json& name) { out.exclude.push_back(reader.TextOf(name)); });
  reader.Bool("wait_for_capacity", out.wait_for_capacity);
  reader.Bool("commands", out.commands);
}

void DecodeScheduling(Reader reader, SchedulingSettings& out) {
  reader.Bool("preemptible", out.preemptible);
  reader.Time("max_run_time", out.max_run_time);
  reader.Time("expected_run_time", out.expected_run_time);
  reader.Time("deadline", out.deadline);
  reader.Time("begin", out.begin);
  reader.List("after", [&](const Json& other) {
    if (!reader.IsPair(other)) return;
    out.after.push_back({.job_id = static_cast<uint64_t>(reader.IntOf(other[0])),
                         .on = static_cast<SchedulingSettings::On>(reader.IntOf(other[1]))});
  });
  reader.List("after_tasks", [&](const Json& task) {
    if (!reader.IsPair(task)) return;
    const auto at = static_cast<size_t>(reader.IntOf(task[0]));
    if (at < out.after.size()) out.after[at].task = static_cast<uint32_t>(reader.IntOf(task[1]));
  });
  reader.Bool("hold", out.hold);
}

void DecodeRestart(Reader reader, RestartSettings& out) {
  reader.Number("max_restarts", out.max_restarts);
  reader.List("budgets", [&](const Json& budget) {
    if (!reader.IsPair(budget)) return;
    out.budgets[static_cast<FailureClass>(reader.IntOf(budget[0]))] =
        static_cast<uint32_t>(reader.IntOf(budget[1]));
  });
  reader.Time("backoff", out.backoff);
  reader.Time("max_backoff", out.max_backoff);
  reader.Time("progress_timeout", out.progress_timeout);
}

}  // namespace

std::string EncodeSettings(const JobSettings& settings) {
  const Json json = {{"name", settings.name},
                     {"project", settings.project},
                     {"priority", settings.priority},
                     {"keep_last", settings.keep_last},
                     {"upload", settings.upload},
                     {"needs", EncodeNeeds(settings.needs)},
                     {"scheduling", EncodeScheduling(settings.scheduling)},
                     {"restart", EncodeRestart(settings.restart)}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

absl::StatusOr<JobSettings> DecodeSettings(absl::string_view text) {
  const Json json = Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  bool broken = json.is_discarded();
  JobSettings out;
  if (!broken) {
    Reader reader(json, broken);
    reader.Text("name", out.name);
    reader.Text("project", out.project);
    reader.Number("priority", out.priority);
    reader.Number("keep_last", out.keep_last);
    reader.Text("upload", out.upload);
    if (const Json* needs = reader.Find("needs")) DecodeNeeds(Reader(*needs, broken), out.needs);
    if (const Json* scheduling = reader.Find("scheduling")) {
      DecodeScheduling(Reader(*scheduling, broken), out.scheduling);
    }
    if (const Json* restart = reader.Find("restart")) {
      DecodeRestart(Reader(*restart, broken), out.restart);
    }
  }
  if (broken) return absl::DataLossError(absl::StrCat("state.db holds a broken value: ", text));
  return out;
}

}  // namespace muster::controller
