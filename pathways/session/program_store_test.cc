#include "pathways/session/program_store.h"

#include "gtest/gtest.h"
#include "pathways/base/sha256.h"

namespace pw::session {
namespace {

Bytes Program(char c, size_t size = kLeastStoredProgramBytes) { return Bytes::FromString(std::string(size, c)); }
std::string Hash(const Bytes& program) { return Sha256(program.view()); }

TEST(ProgramStoreTest, AProgramIsFoundByItsHash) {
  ProgramStore store;
  const Bytes a = Program('a'), b = Program('b');
  store.Add(a);
  EXPECT_EQ(store.Find(Hash(a)).view(), a.view());
  EXPECT_TRUE(store.Find(Hash(b)).empty());
  EXPECT_TRUE(store.Find("").empty());
  store.Add(a);
  EXPECT_EQ(store.bytes(), a.size()) << "it is kept once";
}

TEST(ProgramStoreTest, TheOneUsedLongestAgoGoesFirst) {
  ProgramStore store(2 * kLeastStoredProgramBytes);
  const Bytes a = Program('a'), b = Program('b'), c = Program('c');
  store.Add(a);
  store.Add(b);
  EXPECT_FALSE(store.Find(Hash(a)).empty());
  store.Add(c);
  EXPECT_TRUE(store.Find(Hash(b)).empty());
  EXPECT_FALSE(store.Find(Hash(a)).empty());
  EXPECT_FALSE(store.Find(Hash(c)).empty());
  EXPECT_EQ(store.bytes(), 2 * kLeastStoredProgramBytes);
}

TEST(ProgramStoreTest, SmallAndHugeProgramsAreNotKept) {
  ProgramStore store;
  store.Add(Program('a', kLeastStoredProgramBytes - 1));
  store.Add(Program('a', kMostStoredProgramBytes + 1));
  EXPECT_EQ(store.bytes(), 0);
}

}  // namespace
}  // namespace pw::session
