#include "pathways/controller/cluster/worlds/key_value_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace pw::controller {
namespace {

using ::testing::HasSubstr;

const absl::Time kStart = absl::FromUnixSeconds(1000);

absl::StatusOr<std::string> TextOf(const absl::StatusOr<Bytes>& value) {
  return value.ok() ? absl::StatusOr<std::string>(value->view()) : value.status();
}

// The answer to a Get, once it is there.
using Answer = std::shared_ptr<std::optional<absl::StatusOr<std::string>>>;

Answer GetFrom(KeyValueStore& store, absl::string_view key, absl::Time deadline = absl::InfiniteFuture(),
               KeyValueStore::Owner owner = 1) {
  auto answer = std::make_shared<std::optional<absl::StatusOr<std::string>>>();
  store.Get(owner, key, deadline, [answer](const absl::StatusOr<Bytes>& value) {
    EXPECT_FALSE(answer->has_value()) << "a wait ended twice";
    answer->emplace(TextOf(value));
  });
  return answer;
}

absl::StatusCode CodeOf(const Answer& answer) { return answer->has_value() ? (*answer)->status().code() : absl::StatusCode::kOk; }
std::string TextOf(const Answer& answer) { return answer->has_value() ? std::string((*answer)->status().message()) : "it waits"; }

TEST(KeyValueStoreTest, AWaitEndsWithTheValue) {
  KeyValueStore store;
  const Answer first = GetFrom(store, "a"), second = GetFrom(store, "a"), other = GetFrom(store, "b");
  EXPECT_EQ(store.TryGet("a").status().code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(store.Put("a", std::string("1\0", 2)).ok());
  EXPECT_EQ(***first, std::string("1\0", 2));
  EXPECT_EQ(***second, std::string("1\0", 2));
  EXPECT_FALSE(other->has_value());
  EXPECT_EQ(store.TryGet("a")->view(), std::string("1\0", 2));
  EXPECT_EQ(***GetFrom(store, "a"), std::string("1\0", 2));
  EXPECT_EQ(store.waits(), 1u);
}

TEST(KeyValueStoreTest, AKeyKeepsItsFirstValue) {
  KeyValueStore store;
  ASSERT_TRUE(store.Put("a", "1").ok());
  EXPECT_TRUE(store.Put("a", "1").ok()) << "a repeated request";
  EXPECT_EQ(store.Put("a", "2").code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(store.TryGet("a")->view(), "1");
}

TEST(KeyValueStoreTest, AWaitEndsAtItsDeadlineAndNamesTheKey) {
  KeyValueStore store;
  const Answer soon = GetFrom(store, "nccl\n1", kStart + absl::Seconds(1)),
               later = GetFrom(store, "b", kStart + absl::Seconds(2));
  EXPECT_EQ(store.next_deadline(), kStart + absl::Seconds(1));
  store.Expire(kStart);
  EXPECT_FALSE(soon->has_value());
  store.Expire(kStart + absl::Seconds(1));
  EXPECT_EQ(CodeOf(soon), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(TextOf(soon), HasSubstr("no host has put a value under the key 'nccl\\n1'"));
  EXPECT_FALSE(later->has_value());
  EXPECT_EQ(store.next_deadline(), kStart + absl::Seconds(2));
  store.Forget(1);
  EXPECT_EQ(store.next_deadline(), absl::InfiniteFuture());
}

TEST(KeyValueStoreTest, AllWhoGetAValueShareItsMemory) {
  KeyValueStore store;
  std::vector<const void*> got;
  const auto take = [&](const absl::StatusOr<Bytes>& value) { got.push_back(value->data()); };
  store.Get(1, "a", absl::InfiniteFuture(), take);
  store.Get(2, "a", absl::InfiniteFuture(), take);
  ASSERT_TRUE(store.Put("a", std::string(1000, 'x')).ok());
  store.Get(1, "a", absl::InfiniteFuture(), take);
  ASSERT_EQ(got.size(), 3u);
  EXPECT_EQ(got[0], got[1]);
  EXPECT_EQ(got[1], got[2]);
}

TEST(KeyValueStoreTest, AfterTheEndOnlyKeysWithAValueAreAnswered) {
  KeyValueStore store;
  ASSERT_TRUE(store.Put("a", "1").ok());
  const Answer waiting = GetFrom(store, "b");
  store.End(absl::UnavailableError("host 'w' is lost"));
  EXPECT_EQ(CodeOf(waiting), absl::StatusCode::kUnavailable);
  EXPECT_EQ(TextOf(waiting), "the key 'b' gets no value any more: host 'w' is lost");
  EXPECT_THAT(TextOf(GetFrom(store, "c")), HasSubstr("the key 'c'"));
  EXPECT_EQ(***GetFrom(store, "a"), "1");
}

TEST(KeyValueStoreTest, AForgottenWaitIsNotAnswered) {
  KeyValueStore store;
  const Answer gone = GetFrom(store, "a", kStart, 1), stays = GetFrom(store, "a", kStart, 2);
  store.Forget(1);
  ASSERT_TRUE(store.Put("a", "1").ok());
  EXPECT_FALSE(gone->has_value());
  EXPECT_EQ(***stays, "1");
}

TEST(KeyValueStoreTest, ACallbackMayCallTheStore) {
  KeyValueStore store;
  std::string copied;
  store.Get(1, "a", kStart, [&](const absl::StatusOr<Bytes>& value) {
    ASSERT_TRUE(store.Put("copy", std::string(value->view())).ok());
    store.Get(1, "copy", kStart, [&](const absl::StatusOr<Bytes>& copy) { copied = copy->view(); });
    store.Forget(1);
  });
  ASSERT_TRUE(store.Put("a", "1").ok());
  EXPECT_EQ(copied, "1");
}

TEST(KeyValueStoreTest, NothingIsStoredBeyondTheLimits) {
  KeyValueStore store({.key_bytes = 4, .value_bytes = 10, .total_bytes = 20, .keys = 3, .waits = 2});
  EXPECT_EQ(store.Put("12345", "").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(store.Put("a", "12345678901").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(CodeOf(GetFrom(store, "12345")), absl::StatusCode::kInvalidArgument);
  ASSERT_TRUE(store.Put("a", "1234567890").ok());
  EXPECT_EQ(store.Put("b", "123456789").code(), absl::StatusCode::kResourceExhausted);
  ASSERT_TRUE(store.Put("b", "12345678").ok());
  EXPECT_EQ(store.bytes(), 20u);
  EXPECT_EQ(store.Put("", "1").code(), absl::StatusCode::kResourceExhausted);
  ASSERT_TRUE(store.Put("", "").ok());
  EXPECT_EQ(store.Put("c", "").code(), absl::StatusCode::kResourceExhausted);
  const Answer first = GetFrom(store, "x"), second = GetFrom(store, "y");
  EXPECT_EQ(CodeOf(GetFrom(store, "z")), absl::StatusCode::kResourceExhausted);
  store.Forget(1);
  EXPECT_FALSE(GetFrom(store, "z")->has_value());
}

TEST(KeyValueStoreTest, TheKeysThatAreWaitedForAreLimitedToo) {
  KeyValueStore store({.key_bytes = 10, .total_bytes = 20});
  GetFrom(store, "1234567890");
  GetFrom(store, "1234567890");
  EXPECT_EQ(CodeOf(GetFrom(store, "1")), absl::StatusCode::kResourceExhausted);
  ASSERT_TRUE(store.Put("1234567890", "").ok());
  EXPECT_FALSE(GetFrom(store, "1")->has_value());
}

// A model of the store: a map, and a list of waits.
struct Model {
  struct Wait {
    std::string key;
    absl::Time deadline;
    KeyValueStore::Owner owner;
    Answer answer;
    std::optional<absl::StatusOr<std::string>> expected = std::nullopt;
    bool forgotten = false;
    bool open() const { return !forgotten && !expected.has_value(); }
  };
  std::map<std::string, std::string> values;
  std::vector<Wait> waits;
  bool ended = false;
};

void CheckAnswers(const Model& model) {
  for (const Model::Wait& wait : model.waits) {
    RC_ASSERT(wait.answer->has_value() == wait.expected.has_value());
    if (!wait.expected.has_value()) continue;
    RC_ASSERT((*wait.answer)->status().code() == wait.expected->status().code());
    if (wait.expected->ok()) RC_ASSERT(***wait.answer == **wait.expected);
    if (!wait.expected->ok()) RC_ASSERT(TextOf(wait.answer).find(absl::StrCat("'", wait.key, "'")) != std::string::npos);
  }
}

void PutSome(KeyValueStore& store, Model& model, const std::string& key) {
  const std::string value = absl::StrCat(*rc::gen::inRange(0, 3));
  const auto [it, is_new] = model.values.try_emplace(key, value);
  const absl::Status status = store.Put(key, value);
  RC_ASSERT(status.ok() == (it->second == value));
  for (Model::Wait& wait : model.waits) {
    if (is_new && wait.open() && wait.key == key) wait.expected = value;
  }
}

void GetSome(KeyValueStore& store, Model& model, const std::string& key, absl::Time now) {
  Model::Wait wait{key, now + absl::Seconds(*rc::gen::inRange(0, 10)), *rc::gen::inRange<KeyValueStore::Owner>(1, 4), nullptr};
  wait.answer = GetFrom(store, key, wait.deadline, wait.owner);
  if (const auto it = model.values.find(key); it != model.values.end()) {
    wait.expected = it->second;
  } else if (model.ended) {
    wait.expected = absl::UnavailableError("");
  }
  model.waits.push_back(std::move(wait));
}

void LetTimePass(KeyValueStore& store, Model& model, absl::Time now) {
  store.Expire(now);
  for (Model::Wait& wait : model.waits) {
    if (wait.open() && wait.deadline <= now) wait.expected = absl::DeadlineExceededError("");
  }
}

void ForgetSome(KeyValueStore& store, Model& model) {
  const auto owner = *rc::gen::inRange<KeyValueStore::Owner>(1, 4);
  store.Forget(owner);
  for (Model::Wait& wait : model.waits) wait.forgotten = wait.forgotten || (wait.open() && wait.owner == owner);
}

void EndAll(KeyValueStore& store, Model& model) {
  store.End(absl::UnavailableError("a host is lost"));
  model.ended = true;
  for (Model::Wait& wait : model.waits) {
    if (wait.open()) wait.expected = absl::UnavailableError("");
  }
}

TEST(KeyValueStoreProperty, ItIsAMapWithWaits) {
  EXPECT_TRUE(rc::check([] {
    KeyValueStore store;
    Model model;
    absl::Time now = kStart;
    const int steps = *rc::gen::inRange(1, 80);
    for (int i = 0; i < steps; ++i) {
      const std::string key = absl::StrCat("k", *rc::gen::inRange(0, 8));
      const int what = *rc::gen::inRange(0, 40);
      if (what < 10) {
        PutSome(store, model, key);
      } else if (what < 25) {
        GetSome(store, model, key, now);
      } else if (what < 30) {
        RC_ASSERT(store.TryGet(key).ok() == model.values.contains(key));
      } else if (what < 37) {
        now += absl::Seconds(*rc::gen::inRange(0, 4));
        LetTimePass(store, model, now);
      } else if (what < 39) {
        ForgetSome(store, model);
      } else {
        EndAll(store, model);
      }
      CheckAnswers(model);
    }
    RC_ASSERT(store.waits() == static_cast<size_t>(std::count_if(model.waits.begin(), model.waits.end(),
                                                                 [](const Model::Wait& wait) { return wait.open(); })));
  }));
}

}  // namespace
}  // namespace pw::controller
