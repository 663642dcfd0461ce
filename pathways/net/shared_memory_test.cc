#include "pathways/net/shared_memory.h"

#include <gtest/gtest.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <string>

#include "pathways/net/loans.h"
#include "pathways/net/shared_pass_on.h"

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
  // The number means another file now.
  const Bytes other = Filled(factory, "others' contents");
  SharedName wrong = *NameOf(other);
  wrong.inode = name.inode;
  EXPECT_EQ(OpenShared(wrong, false).status().code(), absl::StatusCode::kUnavailable);
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

TEST(Loans, CountsWhatIsOutAndAnswersOnce) {
  Loans loans;
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
