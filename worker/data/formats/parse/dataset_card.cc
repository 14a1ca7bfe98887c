#include "worker/data/formats/parse/dataset_card.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"

namespace muster::worker {
namespace {

constexpr int kMostCardLevels = 8;
constexpr absl::string_view kFence = "---";

struct CardLine {
  size_t number = 0;  // from 1 on
  size_t indent = 0;
  absl::string_view text;
};

// A word, a list or a map; of the last two the empty one is a word without letters.
struct CardNode {
  size_t line = 0;
  std::string key;  // of a field
  std::string word;
  std::vector<CardNode> items, fields;

  const CardNode* Find(absl::string_view name) const {
    for (const CardNode& field : fields)
      if (field.key == name) return &field;
    return nullptr;
  }
};

absl::Status BadCard(size_t line, absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("line ", line, ": ", what,
                   "; name the files by a pattern instead, such as data/train-*.parquet"));
}

bool IsItem(absl::string_view text) { return text == "-" || absl::StartsWith(text, "- "); }

// Where a key ends; npos: the text is no field.
size_t EndOfKey(absl::string_view text) {
  if (text.empty() || text[0] == '"' || text[0] == '\'') return absl::string_view::npos;
  for (size_t at = text.find(':'); at != absl::string_view::npos; at = text.find(':', at + 1))
    if (at + 1 == text.size() || text[at + 1] == ' ') return at;
  return absl::string_view::npos;
}

absl::StatusOr<std::string> CardWord(size_t line, absl::string_view text) {
  text = absl::StripAsciiWhitespace(text);
  if (!text.empty() && (text[0] == '"' || text[0] == '\'')) {
    const size_t end = text.find(text[0], 1);
    const absl::string_view rest =
        end == absl::string_view::npos ? "" : absl::StripAsciiWhitespace(text.substr(end + 1));
    if (end == absl::string_view::npos || (!rest.empty() && rest[0] != '#') ||
        absl::StrContains(text.substr(0, end), '\\')) {
      return BadCard(line, "has quotes that are not understood");
    }
    return std::string(text.substr(1, end - 1));
  }
  text = absl::StripAsciiWhitespace(text.substr(0, text.find(" #")));
  if (!text.empty() && absl::StrContains("[{&|>!%@`", text[0]))
    return BadCard(line, "is written in a way that is not understood");
  return std::string(text);
}

class CardParser {
 public:
  explicit CardParser(std::vector<CardLine> lines) : lines_(std::move(lines)) {}

  absl::StatusOr<CardNode> Run() {
    if (lines_.empty()) return CardNode();
    MUSTER_ASSIGN_OR_RETURN(CardNode node, Block(lines_[0].indent, 0));
    if (at_ < lines_.size()) return BadCard(lines_[at_].number, "is indented in another way");
    return node;
  }

 private:
  bool IsAt(size_t indent) const { return at_ < lines_.size() && lines_[at_].indent == indent; }

  absl::StatusOr<CardNode> Block(size_t indent, int level) {
    if (level > kMostCardLevels) return BadCard(lines_[at_].number, "stands too deep");
    return IsItem(lines_[at_].text) ? List(indent, level) : Map(indent, level);
  }

  absl::StatusOr<CardNode> List(size_t indent, int level) {
    CardNode list;
    list.line = lines_[at_].number;
    while (IsAt(indent) && IsItem(lines_[at_].text)) {
      CardLine& line = lines_[at_];
      const size_t first = line.text.find_first_not_of(' ', 1);
      if (first == absl::string_view::npos) {
        ++at_;
        MUSTER_ASSIGN_OR_RETURN(CardNode item, Below(line, indent + 1, level));
        list.items.push_back(std::move(item));
        continue;
      }
      // What stands behind the dash is a block of its own, as if it stood alone in its line.
      line.text.remove_prefix(first);
      line.indent += first;
      if (IsItem(line.text) || EndOfKey(line.text) != absl::string_view::npos) {
        MUSTER_ASSIGN_OR_RETURN(CardNode item, Block(line.indent, level + 1));
        list.items.push_back(std::move(item));
      } else {
        MUSTER_ASSIGN_OR_RETURN(CardNode item, Value(line.number, line.text));
        list.items.push_back(std::move(item));
        ++at_;
      }
    }
    return list;
  }

  absl::StatusOr<CardNode> Map(size_t indent, int level) {
    CardNode map;
    map.line = lines_[at_].number;
    while (IsAt(indent) && !IsItem(lines_[at_].text)) {
      const CardLine line = lines_[at_];
      const size_t end = EndOfKey(line.text);
      if (end == absl::string_view::npos) return BadCard(line.number, "is no `key: value`");
      ++at_;
      const absl::string_view rest = absl::StripAsciiWhitespace(line.text.substr(end + 1));
      absl::StatusOr<CardNode> value;
      if (rest.empty() || rest[0] == '#') {
        // A list may stand as far left as its key.
        const bool is_list = IsAt(indent) && IsItem(lines_[at_].text);
        value = is_list ? Block(indent, level + 1) : Below(line, indent + 1, level);
      } else {
        value = Value(line.number, rest);
      }
      MUSTER_RETURN_IF_ERROR(value.status());
      map.fields.push_back(*std::move(value));
      map.fields.back().key = std::string(line.text.substr(0, end));
    }
    return map;
  }

  // What is indented more than its line; an empty word: nothing is.
  absl::StatusOr<CardNode> Below(const CardLine& line, size_t least_indent, int level) {
    if (at_ < lines_.size() && lines_[at_].indent >= least_indent)
      return Block(lines_[at_].indent, level + 1);
    CardNode none;
    none.line = line.number;
    return none;
  }

  // A word, or a list of words in brackets.
  static absl::StatusOr<CardNode> Value(size_t line, absl::string_view text) {
    CardNode node;
    node.line = line;
    absl::string_view inside = absl::StripAsciiWhitespace(text);
    if (absl::ConsumePrefix(&inside, "[") && absl::ConsumeSuffix(&inside, "]")) {
      for (const absl::string_view part : absl::StrSplit(inside, ',', absl::SkipWhitespace())) {
        CardNode item;
        item.line = line;
        MUSTER_ASSIGN_OR_RETURN(item.word, CardWord(line, part));
        node.items.push_back(std::move(item));
      }
      return node;
    }
    MUSTER_ASSIGN_OR_RETURN(node.word, CardWord(line, text));
    return node;
  }

  std::vector<CardLine> lines_;
  size_t at_ = 0;
};

// The lines of the header that belong to its field `configs`.
std::vector<CardLine> ConfigLines(absl::string_view text) {
  std::vector<CardLine> lines;
  size_t number = 0;
  bool is_inside = false;
  for (absl::string_view line : absl::StrSplit(text.substr(0, kMostCardBytes), '\n')) {
    ++number;
    line = absl::StripTrailingAsciiWhitespace(line);
    if (number == 1) {
      if (line != kFence) return {};
      continue;
    }
    if (line == kFence) return lines;
    const size_t indent = std::min(line.find_first_not_of(' '), line.size());
    const absl::string_view words = line.substr(indent);
    if (words.empty() || words[0] == '#') continue;
    if (indent == 0 && !IsItem(words)) {
      is_inside = words == "configs:";
    } else if (is_inside) {
      lines.push_back({number, indent, words});
    }
  }
  return {};  // a header without an end is none
}

std::vector<std::string> WordsOfNode(const CardNode& node) {
  if (node.items.empty())
    return node.word.empty() ? std::vector<std::string>() : std::vector{node.word};
  std::vector<std::string> words;
  for (const CardNode& item : node.items)
    if (!item.word.empty()) words.push_back(item.word);
  return words;
}

absl::StatusOr<std::vector<CardSplit>> SplitsOf(const CardNode& files) {
  const bool names_splits =
      std::any_of(files.items.begin(), files.items.end(),
                  [](const CardNode& item) { return item.Find("split") != nullptr; });
  // Patterns alone are for training.
  if (!names_splits) return std::vector<CardSplit>{{"train", WordsOfNode(files)}};
  std::vector<CardSplit> splits;
  for (const CardNode& item : files.items) {
    const CardNode *split = item.Find("split"), *path = item.Find("path");
    if (split == nullptr || path == nullptr || split->word.empty())
      return BadCard(item.line, "has no split and path");
    splits.push_back({split->word, WordsOfNode(*path)});
    if (splits.back().patterns.empty()) return BadCard(path->line, "has no path");
  }
  return splits;
}

}  // namespace

absl::StatusOr<std::vector<CardConfig>> ParseDatasetCard(absl::string_view text) {
  MUSTER_ASSIGN_OR_RETURN(const CardNode root, CardParser(ConfigLines(text)).Run());
  std::vector<CardConfig> configs;
  for (const CardNode& item : root.items) {
    const CardNode* files = item.Find("data_files");
    if (files == nullptr) continue;
    CardConfig config;
    const CardNode *name = item.Find("config_name"), *is_default = item.Find("default");
    config.name = name == nullptr ? "default" : name->word;
    config.is_default = is_default != nullptr && is_default->word == "true";
    MUSTER_ASSIGN_OR_RETURN(config.splits, SplitsOf(*files));
    configs.push_back(std::move(config));
  }
  return configs;
}

}  // namespace muster::worker
