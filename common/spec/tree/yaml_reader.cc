#include "common/spec/tree/yaml_reader.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <map>
#include <sstream>
#include <string>

#include "common/spec/tree/tree_builder.h"

namespace muster {
namespace {

// Thrown through yaml-cpp's parser to leave it; never leaves this file.
struct GiveUp {
  int line;
  std::string message;
};

class Handler final : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnAnchor(const YAML::Mark&, const std::string&) override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    NoKey(mark);
    SpecNode node;
    node.line = Line(mark);
    Add(node, anchor, mark);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    // "?": plain; "!": quoted or block text.
    const bool plain = tag == "?" || tag.empty();
    if (!plain && tag != "!" && tag != kStringTag) RefuseTag(mark, tag);
    if (tree_.ExpectsKey()) {
      if (value == "<<" && plain)
        throw GiveUp{Line(mark), "merge keys (<<) are not read: write the keys out"};
      tree_.Key(value, Line(mark));
      return;
    }
    SpecNode node;
    node.kind = SpecNode::Kind::kScalar;
    node.text = value;
    node.quoted = !plain;
    node.line = Line(mark);
    Add(node, anchor, mark);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    NoKey(mark);
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end()) throw GiveUp{Line(mark), "an alias stands inside its own anchor"};
    Add(found->second, 0, mark);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    Open(SpecNode::Kind::kSequence, mark, tag, anchor);
  }
  void OnSequenceEnd() override { Close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    Open(SpecNode::Kind::kMapping, mark, tag, anchor);
  }
  void OnMapEnd() override { Close(); }

  TreeBuilder& tree() { return tree_; }

 private:
  static constexpr char kStringTag[] = "tag:yaml.org,2002:str";

  static int Line(const YAML::Mark& mark) { return mark.line + 1; }

  [[noreturn]] static void RefuseTag(const YAML::Mark& mark, const std::string& tag) {
    throw GiveUp{Line(mark), absl::StrCat("tags are not read: ", ShownValue(tag))};
  }

  void NoKey(const YAML::Mark& mark) const {
    if (tree_.ExpectsKey())
      throw GiveUp{Line(mark), "a key must be plain text (is a bracket or a quote left open?)"};
  }

  void Add(const SpecNode& node, YAML::anchor_t anchor, const YAML::Mark& mark) {
    if (const std::string broken = tree_.Add(node); !broken.empty())
      throw GiveUp{Line(mark), broken};
    if (anchor != 0) anchors_[anchor] = node;
  }

  void Open(SpecNode::Kind kind, const YAML::Mark& mark, const std::string& tag,
            YAML::anchor_t anchor) {
    if (!tag.empty() && tag != "?" && tag != "!") RefuseTag(mark, tag);
    NoKey(mark);
    if (const std::string broken = tree_.Open(kind, Line(mark)); !broken.empty()) {
      throw GiveUp{Line(mark), broken};
    }
    open_anchors_.push_back(anchor);
  }

  void Close() {
    const SpecNode& closed = tree_.Close();
    if (open_anchors_.back() != 0) anchors_[open_anchors_.back()] = closed;
    open_anchors_.pop_back();
  }

  TreeBuilder tree_;
  std::vector<YAML::anchor_t> open_anchors_;
  std::map<YAML::anchor_t, SpecNode> anchors_;
};

}  // namespace

SpecNode ReadYamlTree(absl::string_view text, std::vector<SpecFault>& faults) {
  std::istringstream in(std::string(text.data(), text.size()));
  Handler handler;
  try {
    YAML::Parser parser(in);
    if (!parser.HandleNextDocument(handler)) return {};
    SpecNode root = handler.tree().TakeRoot();
    Handler second;
    if (parser.HandleNextDocument(second)) {
      faults.push_back({"", 0, "holds more than one document (---); give one job a file"});
      return {};
    }
    return root;
  } catch (const GiveUp& reason) {
    faults.push_back({"", reason.line, reason.message});
  } catch (const YAML::Exception& error) {
    faults.push_back({"", error.mark.line + 1, absl::StrCat("is not valid YAML: ", error.msg)});
  }
  return {};
}

}  // namespace muster
