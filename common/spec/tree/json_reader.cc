#include "common/spec/tree/json_reader.h"

#include <cstddef>
#include <iterator>
#include <nlohmann/json.hpp>

#include "common/spec/tree/tree_builder.h"

namespace muster {
namespace {

// Walks the text and counts lines; nlohmann tells no positions.
struct LineCountingIterator {
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  const char* at;
  int* line;

  reference operator*() const { return *at; }
  LineCountingIterator& operator++() {
    if (*at == '\n') ++*line;
    ++at;
    return *this;
  }
  bool operator==(const LineCountingIterator& other) const { return at == other.at; }
  bool operator!=(const LineCountingIterator& other) const { return at != other.at; }
};

class Handler final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit Handler(const int* line) : line_(line) {}

  bool null() override { return Add(SpecNode::Kind::kNull, "", false); }
  bool boolean(bool value) override { return Scalar(value ? "true" : "false"); }
  bool number_integer(number_integer_t value) override { return Scalar(std::to_string(value)); }
  bool number_unsigned(number_unsigned_t value) override { return Scalar(std::to_string(value)); }
  bool number_float(number_float_t, const string_t& text) override { return Scalar(text); }
  bool string(string_t& value) override { return Add(SpecNode::Kind::kScalar, value, true); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override {
    return Keep(tree_.Open(SpecNode::Kind::kMapping, Line()));
  }
  bool start_array(std::size_t) override {
    return Keep(tree_.Open(SpecNode::Kind::kSequence, Line()));
  }
  bool key(string_t& value) override {
    tree_.Key(value, *line_);
    return true;
  }
  bool end_object() override { return tree_.Close(), true; }
  bool end_array() override { return tree_.Close(), true; }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override {
    if (fault_.empty()) fault_ = "is not valid JSON";
    return false;
  }

  const std::string& fault() const { return fault_; }
  TreeBuilder& tree() { return tree_; }

 private:
  // The reader looks one character ahead of a number, so the key's line is the surer one.
  int Line() const { return tree_.KeyLine() > 0 ? tree_.KeyLine() : *line_; }
  bool Scalar(const std::string& text) { return Add(SpecNode::Kind::kScalar, text, false); }
  bool Add(SpecNode::Kind kind, const std::string& text, bool quoted) {
    SpecNode node;
    node.kind = kind;
    node.text = text;
    node.quoted = quoted;
    node.line = Line();
    return Keep(tree_.Add(std::move(node)));
  }
  bool Keep(std::string broken) {
    fault_ = std::move(broken);
    return fault_.empty();
  }

  const int* line_;
  std::string fault_;
  TreeBuilder tree_;
};

}  // namespace

bool IsJson(absl::string_view text) { return nlohmann::json::accept(text.begin(), text.end()); }

SpecNode ReadJsonTree(absl::string_view text, std::vector<SpecFault>& faults) {
  int line = 1;
  Handler handler(&line);
  const LineCountingIterator begin{text.data(), &line};
  const LineCountingIterator end{text.data() + text.size(), &line};
  if (nlohmann::json::sax_parse(begin, end, &handler)) return handler.tree().TakeRoot();
  faults.push_back({"", line, handler.fault()});
  return {};
}

}  // namespace muster
