// KeyValueStore: the keys and values of one world of device runtimes (world.proto), and the requests that wait for a key. Pure: the owner
// passes in the time.
//
// Invariants:
//   KV-1  a key gets one value, once; the same value again is no error, because a request may be repeated
//   KV-2  a wait ends once: with the value, at its deadline, by End, or, unanswered, by Forget. Callbacks run inside the call that ends the
//         wait, after the store has changed, so they may call the store
//   KV-3  no request takes more memory than the limits say. A value is in memory once, however many wait for it
//   KV-4  every error names the key
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "pathways/base/memory/bytes.h"

namespace pw::controller {

class KeyValueStore {
 public:
  struct Limits {
    size_t key_bytes = 256 << 10;  // XLA's keys name all devices of a group
    size_t value_bytes = 8 << 20;
    size_t total_bytes = 64 << 20;  // of all keys and values; and of all keys that are waited for
    size_t keys = 100'000;
    size_t waits = 100'000;
  };
  using Owner = uint64_t;  // of a wait
  using Done = absl::AnyInvocable<void(absl::StatusOr<Bytes>) &&>;

  KeyValueStore() : KeyValueStore(Limits()) {}
  explicit KeyValueStore(Limits limits) : limits_(limits) {}

  // ALREADY_EXISTS: the key has another value. INVALID_ARGUMENT, RESOURCE_EXHAUSTED: beyond a limit.
  absl::Status Put(absl::string_view key, absl::string_view value);
  // NOT_FOUND: the key has no value.
  absl::StatusOr<Bytes> TryGet(absl::string_view key) const;
  // Calls `done` with the value, now or once the key has one.
  void Get(Owner owner, absl::string_view key, absl::Time deadline, Done done);

  // Ends the waits whose deadline is not after `now`: DEADLINE_EXCEEDED.
  void Expire(absl::Time now);
  // Drops the waits of an owner without an answer.
  void Forget(Owner owner);
  // Ends all waits with this error, and from now on those for keys without a value as soon as they begin.
  void End(const absl::Status& why);

  // Returns the earliest deadline of a wait; infinite if there is none.
  absl::Time next_deadline() const { return deadlines_.empty() ? absl::InfiniteFuture() : deadlines_.begin()->first.first; }
  size_t waits() const { return waits_.size(); }
  size_t bytes() const { return bytes_; }

 private:
  using DeadlineKey = std::pair<absl::Time, uint64_t>;  // with a number of its own for each wait
  struct Wait {
    Owner owner;
    DeadlineKey deadline;
    Done done;
  };
  using Waits = std::multimap<std::string, Wait, std::less<>>;  // by key

  absl::Status CheckKey(absl::string_view key) const;
  Waits::node_type TakeOut(Waits::iterator wait);
  // Takes out the waits that `which` selects.
  template <class F>
  std::vector<Waits::node_type> Take(F which);

  const Limits limits_;
  std::map<std::string, Bytes, std::less<>> values_;
  size_t bytes_ = 0;
  Waits waits_;
  std::map<DeadlineKey, Waits::iterator> deadlines_;  // of all waits
  uint64_t next_wait_ = 1;
  size_t awaited_bytes_ = 0;
  absl::Status ended_;
};

}  // namespace pw::controller
