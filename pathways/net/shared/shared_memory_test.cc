#include "pathways/net/shared/shared_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <limits>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "pathways/net/shared/shared_pass_on.h"
#include "pathways/net/shared/unopened_shared_memory.h"

namespace pw::net {
namespace {

Bytes Filled(SharedMemoryFactory& factory, const std::string& text) {
  SharedMemory memory = *factory.Create(text.size());
  std::string first = text.substr(0, 3), rest = text.substr(3);
  const iovec pieces[] = {{first.data(), first.size()}, {rest.data(), rest.size()}};
  EXPECT_TRUE(memory.Write(0, pieces).ok());
  return std::move(memory).Freeze();
}

TEST(SharedMemory, IsFoundByItsNameAndWrittenAloneUnlessExclusive) {
  SharedMemoryFactory factory;
  const Bytes bytes = Filled(factory, "some contents");
  EXPECT_EQ(bytes.view(), "some contents");
  const SharedName name = *NameOf(bytes.Slice(5, 8));
  const Bytes alone = *OpenShared(name, false);
  EXPECT_EQ(alone.view(), "contents");
  const_cast<uint8_t*>(alone.data())[0] = 'X';
  EXPECT_EQ(bytes.view(), "some contents");
  const Bytes same = *OpenShared(name, true);
  const_cast<uint8_t*>(same.data())[0] = 'X';
  EXPECT_EQ(bytes.view(), "some Xontents");
  EXPECT_FALSE(NameOf(same).has_value()) << "what belongs to somebody else is not passed on";
  EXPECT_FALSE(NameOf(Bytes::Copy("ordinary")).has_value());
}

TEST(SharedMemory, WhatWasOpenedToBePassedOnHasANameWhileDescriptorsAreFew) {
  SharedMemoryFactory maker;
  Bytes made = Filled(maker, "some contents");
  const SharedName name = *NameOf(made.Slice(5, 8));
  const Bytes kept = *OpenToPassOn(name), over = *OpenToPassOn(name, 3);
  made = Bytes();
  EXPECT_EQ(OpenShared(name, false).status().code(), absl::StatusCode::kUnavailable);
  ASSERT_TRUE(NameOf(kept).has_value());
  EXPECT_EQ(OpenShared(*NameOf(kept), false)->view(), "contents");
  EXPECT_FALSE(NameOf(over).has_value());
  EXPECT_EQ(over.view(), "contents");
}

TEST(SharedMemory, OutlivesItsMakerWhereItIsMappedAndLeavesNothing) {
  SharedMemoryFactory factory(2);
  Bytes taken;
  SharedName name;
  {
    const Bytes bytes = Filled(factory, "some contents");
    name = *NameOf(bytes);
    taken = *OpenShared(name, true);
    EXPECT_EQ(factory.live(), 1);
  }
  EXPECT_EQ(factory.live(), 0);
  EXPECT_EQ(taken.view(), "some contents");
  EXPECT_EQ(OpenShared(name, true).status().code(), absl::StatusCode::kUnavailable);
  // The descriptor number now refers to another file.
  const Bytes other = Filled(factory, "others' contents");
  SharedName wrong = *NameOf(other);
  wrong.inode = name.inode;
  EXPECT_EQ(OpenShared(wrong, false).status().code(), absl::StatusCode::kUnavailable);
}

constexpr size_t kKept = 1 << 20;

// Makes memory with `factory` that has been lent through UnopenedSharedMemory, opened and acknowledged.
Bytes Given(SharedMemoryFactory& factory, const std::string& text) {
  UnopenedSharedMemory loans;
  Bytes made = Filled(factory, text);
  loans.Add(1, SessionId(1), made);
  Bytes taken = *OpenShared(*NameOf(made), false);
  made = Bytes();
  loans.Return(1);
  return taken;
}

TEST(SharedMemory, IsFilledAnewOnceNobodyLooksAtIt) {
  SharedMemoryFactory factory(SharedMemoryFactory::kDefaultLimit, {.always = kKept});
  Bytes taken = Given(factory, "first contents");
  const uint8_t* const place = Filled(factory, "other contents").data();  // not lent: kept at once
  Bytes second = Filled(factory, "second content");
  EXPECT_EQ(second.data(), place);
  EXPECT_EQ(taken.view(), "first contents") << "somebody looks at it";
  const uint64_t inode = NameOf(second)->inode;
  second = Bytes();
  taken = Bytes();
  const Bytes third = Filled(factory, "third contents"), fourth = Filled(factory, "fourth content");
  EXPECT_EQ(third.view(), "third contents");
  EXPECT_EQ(fourth.view(), "fourth content");
  EXPECT_TRUE(NameOf(third)->inode == inode || NameOf(fourth)->inode == inode);
}

TEST(SharedMemory, OfWhichSomebodyMayStillOpenTheNameIsNeverFilledAnew) {
  SharedMemoryFactory factory(SharedMemoryFactory::kDefaultLimit, {.always = kKept});
  SharedName name;
  {
    UnopenedSharedMemory loans;
    const Bytes made = Filled(factory, "some contents");
    name = *NameOf(made);
    EXPECT_TRUE(name.leased);
    loans.Add(1, SessionId(1), made);
    loans.DropSession(SessionId(1));  // not returned
  }
  const Bytes other = Filled(factory, "some contents");
  EXPECT_NE(NameOf(other)->inode, name.inode);
  EXPECT_EQ(OpenShared(name, false).status().code(), absl::StatusCode::kUnavailable);
}

TEST(SharedMemory, OfATransferThatIsLentAgainIsCountedOnce) {
  SharedMemoryFactory factory(SharedMemoryFactory::kDefaultLimit, {.always = kKept});
  UnopenedSharedMemory loans;
  int first = 0, second = 0;
  loans.Add(1, SessionId(1), Filled(factory, "first contents"), [&first] { ++first; });
  EXPECT_EQ(first, 0);
  loans.Add(1, SessionId(1), Filled(factory, "second"), [&second] { ++second; });
  EXPECT_EQ(first, 1) << "it no longer counts";
  EXPECT_EQ(loans.bytes(), std::string("second").size());
  loans.Return(1);
  loans.Return(1);
  EXPECT_EQ(first + second, 2);
  EXPECT_EQ(loans.bytes(), 0u);
}

TEST(SharedMemory, OfAProcessThatWasKilledIsFilledAnew) {
  SharedMemoryFactory factory(SharedMemoryFactory::kDefaultLimit, {.always = kKept});
  UnopenedSharedMemory loans;
  Bytes made = Filled(factory, "some contents");
  const SharedName name = *NameOf(made);
  loans.Add(1, SessionId(1), std::move(made));
  int opened[2];
  ASSERT_EQ(::pipe(opened), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const absl::StatusOr<Bytes> taken = OpenShared(name, false);
    const char answer = taken.ok() ? 'y' : 'n';
    (void)!::write(opened[1], &answer, 1);
    for (;;) ::pause();
  }
  char answer = 0;
  ASSERT_EQ(::read(opened[0], &answer, 1), 1);
  EXPECT_EQ(answer, 'y');
  loans.Return(1);
  EXPECT_NE(NameOf(Filled(factory, "some contents"))->inode, name.inode);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  const Bytes one = Filled(factory, "some contents"), two = Filled(factory, "some contents");
  EXPECT_TRUE(NameOf(one)->inode == name.inode || NameOf(two)->inode == name.inode);
  ::close(opened[0]);
  ::close(opened[1]);
}

TEST(SharedMemory, IsNeverMoreThanItsLimitAlsoFromManyThreads) {
  constexpr int kLimit = 5;
  SharedMemoryFactory factory(kLimit);
  std::mutex mu;
  std::vector<SharedMemory> made;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < 50; ++k) {
        absl::StatusOr<SharedMemory> memory = factory.Create(64);
        if (!memory.ok()) continue;
        std::lock_guard<std::mutex> lock(mu);
        made.push_back(*std::move(memory));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(made.size(), static_cast<size_t>(kLimit));
  EXPECT_EQ(factory.live(), kLimit) << "those that were refused count no more";
  made.clear();
  EXPECT_EQ(factory.live(), 0);
  EXPECT_TRUE(factory.Create(64).ok());
}

TEST(SharedPool, KeepsNoMoreThanItsLimit) {
  SharedMemoryFactory factory(SharedMemoryFactory::kDefaultLimit, {.always = 100});
  uint64_t first;
  {
    const Bytes a = Filled(factory, std::string(60, 'a')), b = Filled(factory, std::string(60, 'b'));
    first = NameOf(a)->inode;
  }  // b is released, then a, which evicts b
  const Bytes shorter = Filled(factory, std::string(59, 's'));
  EXPECT_NE(NameOf(shorter)->inode, first) << "the rest of it could be read";
  const Bytes c = Filled(factory, std::string(60, 'c')), d = Filled(factory, std::string(60, 'd'));
  EXPECT_EQ(NameOf(c)->inode, first);
  EXPECT_NE(NameOf(d)->inode, first);
}

TEST(SharedPool, WhereMemoryIsShortGivesUpWhatIsIdleFromOneSweepToTheNext) {
  SharedMemoryFactory factory(SharedMemoryFactory::kDefaultLimit,
                              {.always = kKept, .reserve = std::numeric_limits<size_t>::max()});
  Bytes looked_at = Given(factory, "first contents");
  const SharedName name = *NameOf(Filled(factory, "other contents"));
  factory.Sweep();
  EXPECT_EQ(NameOf(Filled(factory, "third contents"))->inode, name.inode) << "used since";
  factory.Sweep();
  factory.Sweep();
  EXPECT_NE(NameOf(Filled(factory, "fourth content"))->inode, name.inode);
  EXPECT_EQ(looked_at.view(), "first contents");
}

TEST(SharedPool, GivesUpWhatIsIdleForLong) {
  SharedMemoryFactory factory(SharedMemoryFactory::kDefaultLimit, {.always = kKept});
  const uint64_t inode = NameOf(Filled(factory, "some contents"))->inode;
  for (int sweep = 1; sweep < SharedPool::kPatientSweeps; ++sweep) factory.Sweep();
  EXPECT_EQ(NameOf(Filled(factory, "other content"))->inode, inode) << "used, and idle again";
  for (int sweep = 1; sweep < SharedPool::kPatientSweeps; ++sweep) factory.Sweep();
  EXPECT_EQ(NameOf(Filled(factory, "third content"))->inode, inode);
  for (int sweep = 0; sweep < SharedPool::kPatientSweeps; ++sweep) factory.Sweep();
  EXPECT_NE(NameOf(Filled(factory, "no more of it"))->inode, inode);
}

TEST(SharedPool, KeepsMoreWhileTheMachineHasMemory) {
  for (const size_t reserve : {size_t{0}, std::numeric_limits<size_t>::max()}) {
    SharedMemoryFactory factory(SharedMemoryFactory::kDefaultLimit, {.always = 100, .at_most = 200, .reserve = reserve});
    uint64_t first;
    {
      const Bytes a = Filled(factory, std::string(60, 'a')), b = Filled(factory, std::string(60, 'b'));
      first = NameOf(b)->inode;  // released before a
    }
    const Bytes c = Filled(factory, std::string(60, 'c')), d = Filled(factory, std::string(60, 'd'));
    EXPECT_EQ(NameOf(c)->inode == first || NameOf(d)->inode == first, reserve == 0) << reserve;
  }
}

TEST(SharedPool, KeepsNothingOfWhomItServedWhenTheyAreGone) {
  SharedMemoryFactory factory(SharedMemoryFactory::kDefaultLimit, {.always = kKept});
  const uint64_t kept = NameOf(Filled(factory, "some contents"))->inode;
  Bytes in_use = Filled(factory, "other content");
  EXPECT_EQ(NameOf(in_use)->inode, kept);
  factory.Forget(0);
  in_use = Bytes();
  EXPECT_NE(NameOf(Filled(factory, "third content"))->inode, kept);
}

TEST(SharedPool, GivesWhatOneOwnerHadToNoOther) {
  SharedPool pool({.always = kKept});
  const auto made = [] {
    SharedPages pages;
    pages.fd = Fd(::memfd_create("test", MFD_CLOEXEC));
    pages.size = 10;
    return pages;
  };
  pool.Keep(made(), 1);
  EXPECT_FALSE(pool.Take(10, 2).has_value());
  EXPECT_TRUE(pool.Take(10, 1).has_value());
  pool.Keep(made(), 1);
  pool.Keep(made(), 2);
  pool.BeginUse(1);
  pool.Forget(1);
  pool.Keep(made(), 1);
  pool.EndUse(1);
  EXPECT_EQ(pool.bytes(), 10u);
  EXPECT_FALSE(pool.Take(10, 1).has_value());
  EXPECT_TRUE(pool.Take(10, 2).has_value());
}

TEST(SharedPool, RemembersOnlyThoseOwnersThatAreGoneWhoseMemoryIsInUse) {
  SharedPool pool({.always = kKept});
  for (uint64_t owner = 1; owner <= 100; ++owner) {
    pool.BeginUse(owner);
    if (owner % 2 == 0) pool.EndUse(owner);
    pool.Forget(owner);
  }
  EXPECT_EQ(pool.owners_gone(), 50u);
  for (uint64_t owner = 1; owner <= 100; owner += 2) pool.EndUse(owner);
  EXPECT_EQ(pool.owners_gone(), 0u);
}

TEST(SharedMemory, IsRefusedWhereItDoesNotReachOrIsNotAFile) {
  SharedMemoryFactory factory(1);
  const Bytes bytes = Filled(factory, "some contents");
  SharedName name = *NameOf(bytes);
  name.size = 14;
  EXPECT_EQ(OpenShared(name, false).status().code(), absl::StatusCode::kInvalidArgument);
  name.size = 2;
  name.offset = ~uint64_t{0};
  EXPECT_EQ(OpenShared(name, false).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(OpenShared({getpid(), 0, 0, 0, 0, 1}, false).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(factory.Create(1).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(SharedMemory, ComesFromAnotherProcessAndGoesWithIt) {
  int pipe_fds[2];
  ASSERT_EQ(pipe(pipe_fds), 0);
  const pid_t child = fork();
  if (child == 0) {
    SharedMemoryFactory factory;
    const Bytes bytes = Filled(factory, "from the child");
    const SharedName name = *NameOf(bytes);
    if (write(pipe_fds[1], &name, sizeof(name)) != sizeof(name)) _exit(1);
    pause();
  }
  SharedName name;
  ASSERT_EQ(read(pipe_fds[0], &name, sizeof(name)), static_cast<ssize_t>(sizeof(name)));
  const Bytes taken = *OpenShared(name, true);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_EQ(taken.view(), "from the child");
  EXPECT_EQ(OpenShared(name, true).status().code(), absl::StatusCode::kUnavailable);
  close(pipe_fds[0]);
  close(pipe_fds[1]);
}

TEST(Probe, IsVerifiedByItsContentsOnly) {
  const Probe probe;
  ASSERT_TRUE(probe.valid());
  EXPECT_TRUE(VerifyProbe(probe.name(), probe.secret()));
  EXPECT_FALSE(VerifyProbe(probe.name(), std::string(probe.secret().size(), 'x')));
  EXPECT_FALSE(VerifyProbe(probe.name(), ""));
  EXPECT_FALSE(VerifyProbe({1 << 30, 3, 0, 0, 0, 32}, probe.secret()));
}

TEST(UnopenedSharedMemory, CountsWhatIsOutAndAnswersOnce) {
  UnopenedSharedMemory loans;
  int returned = 0;
  loans.Add(1, SessionId(7), Bytes::Copy("abc"), [&] { ++returned; });
  loans.Add(2, SessionId(8), Bytes::Copy("de"));
  EXPECT_EQ(loans.bytes(), 5u);
  EXPECT_EQ(loans.bytes_of(SessionId(7)), 3u);
  loans.Return(1);
  loans.Return(1);
  EXPECT_EQ(returned, 1);
  loans.DropSession(SessionId(8));
  EXPECT_EQ(loans.bytes(), 0u);
  EXPECT_EQ(loans.size(), 0u);
}

}  // namespace
}  // namespace pw::net
