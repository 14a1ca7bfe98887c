#include "worker/agent/identity/identity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "absl/strings/str_cat.h"
#include "tests/support/faulty_file_system.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "worker/agent/identity/identity_file.h"
#include "worker/agent/identity/surroundings.h"

namespace muster::worker {
namespace {

using ::muster::testing::StatusIs;
using ::muster::testing::TempDir;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::string Bytes(char byte) { return std::string(kIdentityBytes, byte); }

const KnownController kController = {.id = Bytes('c'), .term = 7};
const Surroundings kHere = {.machine = "machine", .place = "boot-1/namespace/folder"};

TEST(Identity, AFirstLifeHasAFreshIdentityAndNoPredecessor) {
  const BegunLife begun = BeginLife(std::nullopt, kHere, Bytes('a'), Bytes('i'));
  EXPECT_TRUE(begun.is_new_identity);
  EXPECT_EQ(begun.record.identity, Bytes('i'));
  EXPECT_THAT(begun.predecessors, IsEmpty());
  EXPECT_THAT(begun.record.lives,
              ElementsAre(IdentityRecord::Life{Bytes('a'), "boot-1/namespace/folder"}));
}

TEST(Identity, TheNextLifeInTheSamePlaceShowsThatTheFormerOnesAreOver) {
  IdentityRecord record = BeginLife(std::nullopt, kHere, Bytes('a'), Bytes('i')).record;
  record = BeginLife(record, kHere, Bytes('b'), Bytes('j')).record;
  const BegunLife third = BeginLife(record, kHere, Bytes('c'), Bytes('j'));
  EXPECT_FALSE(third.is_new_identity);
  EXPECT_EQ(third.record.identity, Bytes('i'));
  // The second one may never have said hello: the controller may still know the first.
  EXPECT_THAT(third.predecessors, ElementsAre(Bytes('b'), Bytes('a')));
  record = third.record;
  NoteWelcome(kController, record);
  EXPECT_EQ(record.controller, kController);
  EXPECT_THAT(BeginLife(record, kHere, Bytes('d'), Bytes('j')).predecessors,
              ElementsAre(Bytes('c')));
}

TEST(Identity, AnotherBootNamespaceOrFolderShowsNothing) {
  const IdentityRecord record = BeginLife(std::nullopt, kHere, Bytes('a'), Bytes('i')).record;
  for (const char* place :
       {"boot-2/namespace/folder", "boot-1/another/folder", "boot-1/namespace/copy"}) {
    const BegunLife begun =
        BeginLife(record, {.machine = "machine", .place = place}, Bytes('b'), Bytes('j'));
    EXPECT_THAT(begun.predecessors, IsEmpty()) << place;
    EXPECT_FALSE(begun.is_new_identity);
  }
}

TEST(Identity, ACopyOnAnotherMachineIsSomebodyElse) {
  IdentityRecord record = BeginLife(std::nullopt, kHere, Bytes('a'), Bytes('i')).record;
  NoteWelcome(kController, record);
  // Resumed from a picture of its memory it even has the same boot.
  const BegunLife begun =
      BeginLife(record, {.machine = "clone", .place = kHere.place}, Bytes('b'), Bytes('j'));
  EXPECT_TRUE(begun.is_new_identity);
  EXPECT_EQ(begun.record.identity, Bytes('j'));
  EXPECT_THAT(begun.predecessors, IsEmpty());
  EXPECT_EQ(begun.record.controller, KnownController()) << "it may be meant for another one";
}

TEST(Identity, SoManyLivesAreKept) {
  IdentityRecord record;
  for (int i = 0; i < 20; ++i) {
    record = BeginLife(record, kHere, Bytes(static_cast<char>('a' + i)), Bytes('i')).record;
  }
  EXPECT_EQ(record.lives.size(), IdentityRecord::kMaxLives);
  EXPECT_EQ(record.lives.front().incarnation, Bytes('t'));
}

TEST(Identity, ARecordIsReadAsItWasWritten) {
  IdentityRecord record = BeginLife(std::nullopt, kHere, Bytes('\x01'), Bytes('\xff')).record;
  NoteWelcome(kController, record);
  const auto read = DecodeIdentity(EncodeIdentity(record));
  ASSERT_OK(read);
  EXPECT_EQ(*read, record);
  for (const char* broken : {"", "{}", "[1]", R"({"lives": [], "controller_term": 1})",
                             R"({"identity": "aa", "lives": [], "controller_term": 1})",
                             R"({"identity": 5, "lives": [5], "controller_term": -1})"}) {
    EXPECT_THAT(DecodeIdentity(broken), StatusIs(absl::StatusCode::kDataLoss)) << broken;
  }
}

TEST(Identity, ATermWithoutItsControllerIsNoTerm) {
  const std::string identity(2 * kIdentityBytes, 'a');
  for (const char* controller : {"", R"("controller": "", )"}) {
    const auto read =
        DecodeIdentity(absl::StrCat(R"({"identity": ")", identity, R"(", )", controller,
                                    R"("lives": [], "controller_term": 7})"));
    ASSERT_OK(read);
    EXPECT_EQ(read->controller, KnownController());
  }
}

TEST(Identity, WhatIsKnownOfAControllerGoesWithIt) {
  IdentityRecord record;
  NoteWelcome(kController, record);
  const KnownController other{.id = Bytes('d'), .term = 2};
  NoteWelcome(other, record);
  EXPECT_EQ(record.controller, other);
}

TEST(IdentityFile, KeepsIdentityAndTermOverLives) {
  const TempDir dir;
  FileSystem& fs = PosixFileSystem();
  IdentityFile first = IdentityFile::Begin(fs, dir.path(), kHere, Bytes('a'), Bytes('i'));
  first.OnWelcome(kController);
  const IdentityFile second = IdentityFile::Begin(fs, dir.path(), kHere, Bytes('b'), Bytes('j'));
  EXPECT_EQ(second.identity(), Bytes('i'));
  EXPECT_EQ(second.controller(), kController);
  EXPECT_THAT(second.predecessors(), ElementsAre(Bytes('a')));
}

TEST(IdentityFile, WhatCannotBeReadCountsAsNothing) {
  const TempDir dir;
  std::ofstream(dir / "identity.json") << "half a rec";
  FileSystem& fs = PosixFileSystem();
  const IdentityFile file = IdentityFile::Begin(fs, dir.path(), kHere, Bytes('a'), Bytes('i'));
  EXPECT_EQ(file.identity(), Bytes('i'));
  EXPECT_THAT(IdentityFile::Begin(fs, dir.path(), kHere, Bytes('b'), Bytes('j')).predecessors(),
              ElementsAre(Bytes('a')));
}

TEST(Surroundings, AreTheSameForOneFolderAndOthersForACopy) {
  const TempDir one;
  const TempDir other;
  const Surroundings here = ReadSurroundings(one.path());
  EXPECT_EQ(ReadSurroundings(one.path()).place, here.place);
  EXPECT_EQ(ReadSurroundings(one.path()).machine, here.machine);
  EXPECT_NE(ReadSurroundings(other.path()).place, here.place);
  EXPECT_EQ(ReadSurroundings(other.path()).machine, here.machine);
}

}  // namespace
}  // namespace muster::worker
