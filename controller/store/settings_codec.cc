#include "controller/store/settings_codec.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace muster::controller {
namespace {

using Json = nlohmann::json;

// Writes one JSON object. Durations are milliseconds, times Unix milliseconds; null: infinite. What
// is zero, empty or false is left out where that is also what a reader finds without the key.
class Writer {
 public:
  explicit Writer(std::string& out) : out_(out) { out_ += '{'; }
  ~Writer() { out_ += '}'; }

  void Number(absl::string_view key, int64_t value) { absl::StrAppend(&Key(key), value); }
  void NumberUnlessZero(absl::string_view key, int64_t value) {
    if (value != 0) Number(key, value);
  }
  void Bool(absl::string_view key, bool value) { Key(key) += value ? "true" : "false"; }
  void BoolIf(absl::string_view key, bool value) {
    if (value) Bool(key, value);
  }
  void Text(absl::string_view key, const std::string& text) { Key(key) += Quoted(text); }
  void TextUnlessEmpty(absl::string_view key, const std::string& text) {
    if (!text.empty()) Text(key, text);
  }
  void Time(absl::string_view key, absl::Duration value) { Key(key) += TimeText(value); }
  void TimeUnlessInfinite(absl::string_view key, absl::Time value) {
    const bool infinite = value == absl::InfiniteFuture() || value == absl::InfinitePast();
    if (!infinite) Number(key, absl::ToUnixMillis(value));
  }
  // Nothing when the list is empty; `text` writes one element.
  template <typename List, typename F>
  void ListUnlessEmpty(absl::string_view key, const List& list, F&& text) {
    if (list.empty()) return;
    const auto element = [&text](std::string* out, const auto& value) { *out += text(value); };
    absl::StrAppend(&Key(key), "[", absl::StrJoin(list, ",", element), "]");
  }
  // A key from outside.
  void Label(const std::string& key, const std::string& text) {
    if (out_.back() != '{') out_ += ',';
    absl::StrAppend(&out_, Quoted(key), ":", Quoted(text));
  }
  // To be written by a Writer of its own.
  std::string& Object(absl::string_view key) { return Key(key); }

  static std::string TimeText(absl::Duration value) {
    return value == absl::InfiniteDuration() ? "null"
                                             : absl::StrCat(absl::ToInt64Milliseconds(value));
  }
  static std::string Quoted(const std::string& text) {
    const bool plain = std::all_of(text.begin(), text.end(), [](char c) {
      return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
    });
    if (plain) return absl::StrCat("\"", text, "\"");
    return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
  }

 private:
  std::string& Key(absl::string_view key) {
    if (out_.back() != '{') out_ += ',';
    absl::StrAppend(&out_, "\"", key, "\":");
    return out_;
  }

  std::string& out_;
};

void Write(const JobNeeds& needs, std::string& out) {
  Writer writer(out);
  writer.Number("min_ranks", needs.min_ranks);
  writer.Number("max_ranks", needs.max_ranks);
  writer.Number("slot_kind", static_cast<int>(needs.slot_kind));
  writer.Number("slots_per_rank", needs.slots_per_rank);
  writer.TextUnlessEmpty("gpu_type", needs.gpu_type);
  writer.NumberUnlessZero("cpus_per_rank", needs.cpus_per_rank);
  writer.NumberUnlessZero("memory_per_rank", static_cast<int64_t>(needs.memory_per_rank));
  writer.ListUnlessEmpty("pools", needs.pools, [](const JobNeeds::Pool& pool) {
    return absl::StrCat("[", Writer::Quoted(pool.name), ",", Writer::TimeText(pool.after), "]");
  });
  if (!needs.selector.empty()) {
    Writer selector(writer.Object("selector"));
    for (const auto& [key, value] : needs.selector) selector.Label(key, value);
  }
  writer.ListUnlessEmpty("exclude", needs.exclude, Writer::Quoted);
  writer.BoolIf("wait_for_capacity", needs.wait_for_capacity);
  writer.BoolIf("commands", needs.commands);
  writer.NumberUnlessZero("image", static_cast<int>(needs.image));
  writer.TextUnlessEmpty("root", needs.root);
  writer.TextUnlessEmpty("data", needs.data);
}

void Write(const SchedulingSettings& scheduling, std::string& out) {
  Writer writer(out);
  writer.Bool("preemptible", scheduling.preemptible);
  writer.Time("max_run_time", scheduling.max_run_time);
  if (scheduling.expected_run_time != absl::ZeroDuration()) {
    writer.Time("expected_run_time", scheduling.expected_run_time);
  }
  writer.TimeUnlessInfinite("deadline", scheduling.deadline);
  writer.TimeUnlessInfinite("begin", scheduling.begin);
  writer.ListUnlessEmpty(
      "after", scheduling.after, [](const SchedulingSettings::Dependency& other) {
        return absl::StrCat("[", other.job_id, ",", static_cast<int>(other.on), "]");
      });
  std::vector<std::string> tasks;  // of an array, by the place in `after`
  for (size_t i = 0; i < scheduling.after.size(); ++i) {
    const auto& task = scheduling.after[i].task;
    if (task.has_value()) tasks.push_back(absl::StrCat("[", i, ",", *task, "]"));
  }
  writer.ListUnlessEmpty("after_tasks", tasks, [](const std::string& task) { return task; });
  writer.BoolIf("hold", scheduling.hold);
}

void Write(const RestartSettings& restart, std::string& out) {
  Writer writer(out);
  writer.Number("max_restarts", restart.max_restarts);
  writer.ListUnlessEmpty("budgets", restart.budgets, [](const auto& budget) {
    return absl::StrCat("[", static_cast<int>(budget.first), ",", budget.second, "]");
  });
  writer.Time("backoff", restart.backoff);
  writer.Time("max_backoff", restart.max_backoff);
  writer.Time("progress_timeout", restart.progress_timeout);
}

constexpr uint64_t kLargest = std::numeric_limits<int64_t>::max();

// Reads the keys of one object; a fault is noted.
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
    if (const Json* value = Find(key)) out = NumberOf<T>(*value);
  }
  // An enum's, from `first` to `last`.
  template <typename Enum>
  void Choice(const char* key, Enum& out, Enum first, Enum last) {
    if (const Json* value = Find(key)) out = ChoiceOf(*value, first, last);
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
    out = absl::FromUnixMillis(NumberOf<int64_t>(*value));
  }
  // Texts by names from outside.
  void Labels(const char* key, std::map<std::string, std::string>& out) {
    const Json* value = Find(key);
    if (value == nullptr) return;
    if (!value->is_object()) {
      broken_ = true;
      return;
    }
    for (const auto& [name, text] : value->items()) out[name] = TextOf(text);
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
  void Break() { broken_ = true; }
  // A pair, as the lists hold them; broken when it is none.
  bool IsPair(const Json& element) {
    const bool pair = element.is_array() && element.size() == 2;
    if (!pair) broken_ = true;
    return pair;
  }
  // As the writer has it: what is unsigned may stand there as the same bits with a sign.
  template <typename T>
  T NumberOf(const Json& value) {
    if (!value.is_number_integer() ||
        (value.is_number_unsigned() && value.get<uint64_t>() > kLargest)) {
      broken_ = true;
      return T();
    }
    const int64_t number = value.get<int64_t>();
    const T out = static_cast<T>(number);
    if (static_cast<int64_t>(out) != number) broken_ = true;
    return out;
  }
  template <typename Enum>
  Enum ChoiceOf(const Json& value, Enum first, Enum last) {
    const int64_t number = NumberOf<int64_t>(value);
    if (number < static_cast<int64_t>(first) || number > static_cast<int64_t>(last)) {
      broken_ = true;
      return first;
    }
    return static_cast<Enum>(number);
  }
  std::string TextOf(const Json& value) {
    if (value.is_string()) return value.get<std::string>();
    broken_ = true;
    return "";
  }
  absl::Duration DurationOf(const Json& value) {
    return value.is_null() ? absl::InfiniteDuration()
                           : absl::Milliseconds(NumberOf<int64_t>(value));
  }

 private:
  const Json& object_;
  bool& broken_;
};

void DecodeNeeds(Reader reader, JobNeeds& out) {
  reader.Number("min_ranks", out.min_ranks);
  reader.Number("max_ranks", out.max_ranks);
  reader.Choice("slot_kind", out.slot_kind, SlotKind::kCpu, SlotKind::kGpu);
  reader.Number("slots_per_rank", out.slots_per_rank);
  reader.Text("gpu_type", out.gpu_type);
  reader.Number("cpus_per_rank", out.cpus_per_rank);
  reader.Number("memory_per_rank", out.memory_per_rank);
  reader.List("pools", [&](const Json& pool) {
    if (!reader.IsPair(pool)) return;
    out.pools.push_back({.name = reader.TextOf(pool[0]), .after = reader.DurationOf(pool[1])});
  });
  reader.Labels("selector", out.selector);
  reader.List("exclude", [&](const Json& name) { out.exclude.push_back(reader.TextOf(name)); });
  reader.Bool("wait_for_capacity", out.wait_for_capacity);
  reader.Bool("commands", out.commands);
  reader.Choice("image", out.image, JobNeeds::Image::kNone, JobNeeds::Image::kFile);
  reader.Text("root", out.root);
  reader.Text("data", out.data);
}

void DecodeScheduling(Reader reader, SchedulingSettings& out) {
  reader.Bool("preemptible", out.preemptible);
  reader.Time("max_run_time", out.max_run_time);
  reader.Time("expected_run_time", out.expected_run_time);
  reader.Time("deadline", out.deadline);
  reader.Time("begin", out.begin);
  reader.List("after", [&](const Json& other) {
    if (!reader.IsPair(other)) return;
    using On = SchedulingSettings::On;
    out.after.push_back({.job_id = reader.NumberOf<uint64_t>(other[0]),
                         .on = reader.ChoiceOf(other[1], On::kSuccess, On::kEnd)});
  });
  reader.List("after_tasks", [&](const Json& task) {
    if (!reader.IsPair(task)) return;
    const auto at = reader.NumberOf<size_t>(task[0]);
    const auto number = reader.NumberOf<uint32_t>(task[1]);
    if (at < out.after.size() && !out.after[at].task.has_value()) {
      out.after[at].task = number;
    } else {
      reader.Break();
    }
  });
  reader.Bool("hold", out.hold);
}

void DecodeRestart(Reader reader, RestartSettings& out) {
  reader.Number("max_restarts", out.max_restarts);
  reader.List("budgets", [&](const Json& budget) {
    if (!reader.IsPair(budget)) return;
    const auto kind = reader.ChoiceOf(budget[0], FailureClass::kNone, FailureClass::kTimeLimit);
    // In their order, each once.
    if (!out.budgets.empty() && out.budgets.rbegin()->first >= kind) reader.Break();
    out.budgets[kind] = reader.NumberOf<uint32_t>(budget[1]);
  });
  reader.Time("backoff", out.backoff);
  reader.Time("max_backoff", out.max_backoff);
  reader.Time("progress_timeout", out.progress_timeout);
}

}  // namespace

std::string EncodeSettings(const JobSettings& settings) {
  std::string out;
  out.reserve(512);
  {
    Writer writer(out);
    writer.Text("name", settings.name);
    writer.Text("project", settings.project);
    writer.Number("priority", settings.priority);
    writer.Number("keep_last", settings.keep_last);
    if (!settings.tags.empty()) {
      Writer tags(writer.Object("tags"));
      for (const auto& [name, value] : settings.tags) tags.Label(name, value);
    }
    writer.TextUnlessEmpty("upload", settings.upload);
    // With a sign, as all numbers here: that is how they are read.
    writer.ListUnlessEmpty("resume_from", settings.resume_from,
                           [](uint64_t id) { return absl::StrCat(static_cast<int64_t>(id)); });
    Write(settings.needs, writer.Object("needs"));
    Write(settings.scheduling, writer.Object("scheduling"));
    Write(settings.restart, writer.Object("restart"));
  }
  return out;
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
    reader.Labels("tags", out.tags);
    reader.Text("upload", out.upload);
    reader.List("resume_from",
                [&](const Json& id) { out.resume_from.push_back(reader.NumberOf<uint64_t>(id)); });
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
