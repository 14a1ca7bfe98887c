#include "controller/autoscale/autoscale_file.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/base/status_macros.h"
#include "common/base/units.h"
#include "common/protocol/name_rule.h"
#include "common/spec/tree/spec_tree.h"

namespace muster::controller {
namespace {

constexpr absl::Duration kLeastEvery = absl::Milliseconds(100);
constexpr absl::Duration kLongest = absl::Hours(24);
constexpr uint32_t kMaxSlots = 1024;
// Linux takes 128 KiB of one variable of an environment: so many names of 63 bytes.
constexpr uint32_t kMaxCommandWorkers = 2000;
constexpr uint32_t kPlentyOfCpus = 1 << 20;
constexpr uint64_t kPlentyOfMemory = uint64_t{1} << 60;
constexpr size_t kMaxWords = 64;
constexpr size_t kMaxLabels = 32;
constexpr size_t kMaxPools = 64;

// Reads mappings of known keys, and collects what is wrong with them.
class AutoscaleReader {
 public:
  using Keys = std::map<std::string, std::function<void(const SpecNode&, const std::string&)>>;

  std::vector<SpecFault>& faults() { return faults_; }

  void Fault(const SpecNode& node, const std::string& path, std::string message) {
    faults_.push_back({path, node.line, std::move(message)});
  }

  void Mapping(const SpecNode& node, const std::string& path, const Keys& keys) {
    if (node.kind != SpecNode::Kind::kMapping) return Fault(node, path, "must be a mapping");
    std::set<std::string> seen;
    for (const SpecNode::Entry& entry : node.entries) {
      const std::string here = path.empty() ? entry.key : absl::StrCat(path, ".", entry.key);
      const auto key = keys.find(entry.key);
      if (!seen.insert(entry.key).second) {
        faults_.push_back({here, entry.line, "is there twice"});
      } else if (key == keys.end()) {
        const std::string known = absl::StrJoin(
            keys, ", ", [](std::string* out, const auto& one) { out->append(one.first); });
        faults_.push_back({here, entry.line, absl::StrCat("is no key; there are ", known)});
      } else {
        key->second(entry.value, here);
      }
    }
  }

  void Number(const SpecNode& node, const std::string& path, uint32_t most, uint32_t* out) {
    if (node.kind != SpecNode::Kind::kScalar || !absl::SimpleAtoi(node.text, out) || *out > most) {
      Fault(node, path, absl::StrCat("must be a number from 0 to ", most));
    }
  }
  void Duration(const SpecNode& node, const std::string& path, absl::Duration least,
                absl::Duration* out) {
    const auto parsed = ParseDuration(node.text);
    if (node.kind != SpecNode::Kind::kScalar || !parsed.ok() || *parsed < least ||
        *parsed > kLongest) {
      Fault(node, path,
            absl::StrCat("must be a duration from ", HumanDuration(least), " to ",
                         HumanDuration(kLongest), ", such as 10m"));
    } else {
      *out = *parsed;
    }
  }
  void Bytes(const SpecNode& node, const std::string& path, uint64_t* out) {
    const auto parsed = ParseBytes(node.text);
    if (node.kind != SpecNode::Kind::kScalar || !parsed.ok()) {
      Fault(node, path, "must be a size, such as 64GiB");
    } else {
      *out = *parsed;
    }
  }
  void Bool(const SpecNode& node, const std::string& path, bool* out) {
    if (node.kind != SpecNode::Kind::kScalar || (node.text != "true" && node.text != "false")) {
      Fault(node, path, "must be true or false");
    } else {
      *out = node.text == "true";
    }
  }
  void Text(const SpecNode& node, const std::string& path, std::string* out) {
    if (node.kind != SpecNode::Kind::kScalar || node.text.empty()) {
      Fault(node, path, "must be plain text");
    } else {
      *out = node.text;
    }
  }
  void Words(const SpecNode& node, const std::string& path, std::vector<std::string>* out) {
    const bool good =
        node.kind == SpecNode::Kind::kSequence && !node.items.empty() &&
        node.items.size() <= kMaxWords &&
        std::all_of(node.items.begin(), node.items.end(), [](const SpecNode& item) {
          return item.kind == SpecNode::Kind::kScalar && item.text.find('\0') == std::string::npos;
        });
    if (!good) {
      return Fault(node, path, absl::StrCat("must be a list of 1 to ", kMaxWords, " words"));
    }
    for (const SpecNode& item : node.items) out->push_back(item.text);
  }

 private:
  std::vector<SpecFault> faults_;
};

struct ShapeText {
  uint32_t slots = 0;
  std::string kind = "cpu";
  std::string gpu_type;
};

void ReadWorker(AutoscaleReader& reader, const SpecNode& node, const std::string& path,
                WorkerFacts& facts) {
  ShapeText shape;
  // Where they are not given no job lacks them, until the first worker has come.
  facts.cpus = kPlentyOfCpus;
  facts.memory_bytes = kPlentyOfMemory;
  reader.Mapping(
      node, path,
      {{"slots", [&](const SpecNode& v,
                     const std::string& p) { reader.Number(v, p, kMaxSlots, &shape.slots); }},
       {"kind",
        [&](const SpecNode& v, const std::string& p) {
          reader.Text(v, p, &shape.kind);
          if (shape.kind != "cpu" && shape.kind != "gpu") reader.Fault(v, p, "must be cpu or gpu");
        }},
       {"gpu-type",
        [&](const SpecNode& v, const std::string& p) { reader.Text(v, p, &shape.gpu_type); }},
       {"cpus",
        [&](const SpecNode& v, const std::string& p) { reader.Number(v, p, 65'536, &facts.cpus); }},
       {"memory",
        [&](const SpecNode& v, const std::string& p) { reader.Bytes(v, p, &facts.memory_bytes); }},
       {"commands", [&](const SpecNode& v,
                        const std::string& p) { reader.Bool(v, p, &facts.allows_commands); }},
       {"container-runtimes",
        [&](const SpecNode& v, const std::string& p) {
          reader.Words(v, p, &facts.container_runtimes);
        }},
       {"labels", [&](const SpecNode& v, const std::string& p) {
          if (v.kind != SpecNode::Kind::kMapping || v.entries.size() > kMaxLabels) {
            return reader.Fault(
                v, p, absl::StrCat("must be at most ", kMaxLabels, " labels, KEY: VALUE"));
          }
          for (const SpecNode::Entry& label : v.entries) {
            reader.Text(label.value, absl::StrCat(p, ".", label.key), &facts.labels[label.key]);
          }
        }}});
  if (shape.slots == 0) reader.Fault(node, absl::StrCat(path, ".slots"), "must be at least 1");
  for (uint32_t i = 0; i < shape.slots; ++i) {
    facts.slots.push_back({.index = i,
                           .kind = shape.kind == "gpu" ? SlotKind::kGpu : SlotKind::kCpu,
                           .device = shape.gpu_type,
                           .uuid = "",
                           .memory_bytes = 0});
  }
}

void ReadTarget(AutoscaleReader& reader, const SpecNode& node, const std::string& path,
                KubernetesTarget::Kind kind, KubernetesTarget& target) {
  std::string text;
  reader.Text(node, path, &text);
  const std::vector<std::string> parts = absl::StrSplit(text, '/');
  if (parts.size() != 2 || !IsName(parts[0]) || !IsName(parts[1])) {
    return reader.Fault(node, path, "must be NAMESPACE/NAME");
  }
  target = {kind, parts[0], parts[1]};
}

void ReadPool(AutoscaleReader& reader, const SpecNode& node, const std::string& path,
              ScaledPool& pool) {
  using Kind = KubernetesTarget::Kind;
  PoolScaling& scaling = pool.scaling;
  bool has_worker = false;
  const auto duration = [&](absl::Duration least, absl::Duration* out) {
    return [&reader, least, out](const SpecNode& v, const std::string& p) {
      reader.Duration(v, p, least, out);
    };
  };
  const auto target = [&](Kind kind) {
    return [&reader, &pool, kind](const SpecNode& v, const std::string& p) {
      ReadTarget(reader, v, p, kind, pool.target);
    };
  };
  reader.Mapping(
      node, path,
      {{"min", [&](const SpecNode& v,
                   const std::string& p) { reader.Number(v, p, kMaxPoolWorkers, &scaling.min); }},
       {"max", [&](const SpecNode& v,
                   const std::string& p) { reader.Number(v, p, kMaxPoolWorkers, &scaling.max); }},
       {"worker",
        [&](const SpecNode& v, const std::string& p) {
          has_worker = true;
          ReadWorker(reader, v, p, scaling.facts);
        }},
       {"patience", duration(absl::ZeroDuration(), &scaling.patience)},
       {"idle-after", duration(absl::ZeroDuration(), &scaling.idle_after)},
       {"cooldown", duration(absl::ZeroDuration(), &scaling.cooldown)},
       {"start-within", duration(absl::Seconds(1), &scaling.start_within)},
       {"statefulset", target(Kind::kStatefulSet)},
       {"deployment", target(Kind::kDeployment)},
       {"scale-command",
        [&](const SpecNode& v, const std::string& p) { reader.Words(v, p, &pool.command); }},
       {"scale-timeout", duration(absl::Seconds(1), &pool.command_timeout)}});
  const auto given = [&](const char* key) { return node.Find(key) != nullptr; };
  if (given("statefulset") + given("deployment") + given("scale-command") != 1) {
    reader.Fault(node, path, "needs one of statefulset, deployment and scale-command");
  }
  if (scaling.max == 0) reader.Fault(node, absl::StrCat(path, ".max"), "must be at least 1");
  if (scaling.min > scaling.max) reader.Fault(node, absl::StrCat(path, ".min"), "is more than max");
  if (!has_worker) {
    reader.Fault(node, absl::StrCat(path, ".worker"),
                 "is missing: what one worker has, as {slots: 8, kind: gpu}");
  }
  if (!pool.command.empty() && !absl::StartsWith(pool.command[0], "/")) {
    reader.Fault(node, absl::StrCat(path, ".scale-command"), "must begin with an absolute path");
  }
  if (!pool.command.empty() && scaling.max > kMaxCommandWorkers) {
    reader.Fault(node, absl::StrCat(path, ".max"),
                 absl::StrCat("is more than ", kMaxCommandWorkers,
                              " workers, whose names a scale-command can be told"));
  }
  scaling.by_number = given("statefulset");
}

}  // namespace

absl::StatusOr<AutoscaleSettings> ParseAutoscale(absl::string_view text, absl::string_view source) {
  AutoscaleReader reader;
  const SpecNode root = ParseSpecTree(text, reader.faults());
  AutoscaleSettings settings;
  if (!reader.faults().empty()) return FaultStatus(source, reader.faults());
  const auto read_kubernetes = [&](const SpecNode& v, const std::string& p) {
    KubernetesAccess& access = settings.kubernetes;
    reader.Mapping(
        v, p,
        {{"url", [&](const SpecNode& w, const std::string& q) { reader.Text(w, q, &access.url); }},
         {"token-file",
          [&](const SpecNode& w, const std::string& q) { reader.Text(w, q, &access.token_file); }},
         {"ca-file",
          [&](const SpecNode& w, const std::string& q) { reader.Text(w, q, &access.ca_file); }}});
    // The token goes over it.
    if (!absl::StartsWith(access.url, "https://") || absl::EndsWith(access.url, "/")) {
      reader.Fault(v, absl::StrCat(p, ".url"), "must be https://HOST[:PORT]");
    }
  };
  const auto read_pools = [&](const SpecNode& v, const std::string& p) {
    if (v.kind == SpecNode::Kind::kNull) return;
    if (v.kind != SpecNode::Kind::kMapping || v.entries.size() > kMaxPools) {
      return reader.Fault(v, p, absl::StrCat("must be at most ", kMaxPools, " pools by name"));
    }
    std::set<std::string> names;
    for (const SpecNode::Entry& entry : v.entries) {
      const std::string here = absl::StrCat(p, ".", entry.key);
      if (!names.insert(entry.key).second) reader.Fault(entry.value, here, "is there twice");
      if (!IsName(entry.key)) reader.Fault(entry.value, here, "is no pool's name");
      ScaledPool pool;
      pool.scaling.pool = pool.scaling.facts.pool = entry.key;
      pool.command_timeout = absl::Minutes(1);
      ReadPool(reader, entry.value, here, pool);
      settings.pools.push_back(std::move(pool));
    }
  };
  reader.Mapping(root, "",
                 {{"every",
                   [&](const SpecNode& v, const std::string& p) {
                     reader.Duration(v, p, kLeastEvery, &settings.every);
                   }},
                  {"kubernetes", read_kubernetes},
                  {"pools", read_pools}});
  if (!reader.faults().empty()) return FaultStatus(source, reader.faults());
  return settings;
}

absl::StatusOr<AutoscaleSettings> LoadAutoscale(FileSystem& fs, const std::string& path) {
  const absl::StatusOr<std::string> text = fs.ReadFile(path, kMaxSpecBytes);
  if (!text.ok()) {
    return absl::Status(text.status().code(),
                        absl::StrCat("--autoscale: ", text.status().message()));
  }
  return ParseAutoscale(*text, absl::StrCat("--autoscale ", path));
}

}  // namespace muster::controller
