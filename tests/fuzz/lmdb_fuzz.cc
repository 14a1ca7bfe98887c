// An LMDB file of any bytes, and one of pages that are mostly right: read or refused, and the same
// through any window.
#include <stddef.h>
#include <stdint.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/fuzz/checked_sink.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/memory_file_system.h"
#include "tests/worker/data/formats/support/format_bytes.h"
#include "worker/data/formats/lmdb.h"

namespace {

using ::muster::testing::CheckedSink;
using ::muster::testing::FuzzInput;
using ::muster::testing::LittleEndianBytes;
using ::muster::testing::MemoryFileSystem;

constexpr size_t kPage = 256;
constexpr size_t kPageHead = 16;

std::string Walk(MemoryFileSystem& files, muster::worker::ReadWindow window) {
  CheckedSink sink;
  muster::worker::LmdbOptions options;
  options.window = window;
  const auto index = muster::worker::IndexLmdb(files, "/data.mdb", options, sink);
  return sink.Outcome(index.status(), index.ok() ? index->report : muster::worker::IndexReport());
}

void ReadAsLmdb(const std::string& bytes) {
  MemoryFileSystem files;
  files.files()["/data.mdb"] = bytes;
  if (Walk(files, {1, 1}) != Walk(files, {})) CheckedSink::Broken("a window that matters");
}

std::string PageHead(uint64_t number, uint64_t flags, uint64_t lower, uint64_t upper) {
  return LittleEndianBytes(number, 8) + LittleEndianBytes(0, 2) + LittleEndianBytes(flags, 2) +
         LittleEndianBytes(lower, 2) + LittleEndianBytes(upper, 2);
}

struct Tree {
  uint64_t depth = 1, branches = 0, leaves = 1, entries = 0, root = 2;
};

std::string MetaPage(uint64_t number, uint64_t transaction, const Tree& tree) {
  std::string page = PageHead(number, 0x08, 0, 0) + LittleEndianBytes(0xbeefc0de, 4) +
                     LittleEndianBytes(1, 4) + LittleEndianBytes(0, 16);
  page += LittleEndianBytes(kPage, 4) + std::string(44, '\0');
  page += LittleEndianBytes(0, 4) + LittleEndianBytes(0, 2) + LittleEndianBytes(tree.depth, 2);
  for (const uint64_t word : {tree.branches, tree.leaves, uint64_t{0}, tree.entries, tree.root}) {
    page += LittleEndianBytes(word, 8);
  }
  page += LittleEndianBytes(0, 8) + LittleEndianBytes(transaction, 8);
  page.resize(kPage);
  return page;
}

// A page of the nodes given, from its end on backwards.
std::string PageOf(uint64_t number, uint64_t flags, const std::vector<std::string>& nodes) {
  std::string page(kPage, '\0');
  size_t end = kPage, count = 0;
  std::string places;
  for (const std::string& node : nodes) {
    if (end < kPageHead + 2 * (count + 1) + node.size()) break;
    end -= node.size();
    page.replace(end, node.size(), node);
    places += LittleEndianBytes(end, 2);
    ++count;
  }
  const std::string head = PageHead(number, flags, kPageHead + 2 * count, end) + places;
  return page.replace(0, head.size(), head);
}

std::string SomeValue(FuzzInput& input) {
  switch (input.Below(4)) {
    case 0:
      return "\xff\xd8\xff" + input.Bytes(input.Below(20));
    case 1:
      return input.Bytes(input.Below(20));
    default:
      return muster::testing::DatumBytes(input.Byte(), input.Bytes(input.Below(20)),
                                         !input.Chance(8));
  }
}

// Two levels at most: a root, some leaves, a page of a large value.
std::string SomeFile(FuzzInput& input) {
  Tree tree;
  const uint32_t leaves = 1 + input.Below(4);
  const uint64_t big = 2 + leaves + (leaves > 1 ? 1 : 0);
  std::string pages;
  uint64_t number = 2;
  for (uint32_t leaf = 0; leaf < leaves; ++leaf, ++number) {
    std::vector<std::string> nodes;
    for (uint32_t i = input.Below(5); i > 0; --i) {
      const std::string key = "c" + std::to_string(input.Below(3)) + "/" + input.Bytes(3);
      const bool is_big = input.Chance(40);
      const std::string value =
          is_big ? LittleEndianBytes(input.Chance(16) ? input.Word() : big, 8) : SomeValue(input);
      const uint64_t size = is_big ? 1 + input.Below(240) : value.size();
      nodes.push_back(LittleEndianBytes(size, 4) + LittleEndianBytes(is_big ? 1 : 0, 2) +
                      LittleEndianBytes(key.size(), 2) + key + value);
    }
    tree.entries += nodes.size();
    pages += PageOf(number, 0x02, nodes);
  }
  tree.leaves = leaves;
  if (leaves > 1) {
    std::vector<std::string> nodes;
    for (uint32_t leaf = 0; leaf < leaves; ++leaf) {
      const uint64_t below = input.Chance(8) ? input.Byte() : 2 + leaf;
      nodes.push_back(LittleEndianBytes(below, 6) + LittleEndianBytes(0, 2));
    }
    tree.branches = 1;
    tree.depth = 2;
    tree.root = number;
    pages += PageOf(number++, 0x01, nodes);
  }
  std::string value = PageHead(big, 0x04, 1, 0) + "\xff\xd8\xff";
  value.resize(kPage, 'x');
  if (tree.entries == 0) tree.depth = input.Chance(128) ? 0 : 1;
  std::string file = MetaPage(0, 1, tree) + MetaPage(1, 2, tree) + pages + value;
  for (uint32_t i = input.Below(4); i > 1; --i) {
    file[input.Word() % file.size()] = static_cast<char>(input.Byte());
  }
  return file;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  ReadAsLmdb(bytes);
  Tree tree;
  tree.entries = 3;
  ReadAsLmdb(MetaPage(0, 1, tree) + MetaPage(1, 0, tree) + LittleEndianBytes(2, 8) + bytes);
  FuzzInput input(data, size);
  ReadAsLmdb(SomeFile(input));
  return 0;
}
