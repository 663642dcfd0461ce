#include "pathways/controller/cluster/worlds/key_value_store.h"

#include <iterator>
#include <string_view>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "pathways/base/status_macros.h"

namespace pw::controller {
namespace {

constexpr size_t kShownBytes = 120;

// Returns the key for an error's text: a device runtime chooses it, and it may be long or binary.
std::string Shown(absl::string_view key) {
  const std::string shown = absl::CHexEscape(key.substr(0, kShownBytes));
  return key.size() <= kShownBytes ? shown : absl::StrCat(shown, "...");
}

absl::Status WaitedInVain(absl::string_view key) {
  return absl::DeadlineExceededError(absl::StrCat("no host has put a value under the key '", Shown(key), "' in time"));
}

absl::Status WaitEnded(absl::string_view key, const absl::Status& why) {
  return absl::Status(why.code(), absl::StrCat("the key '", Shown(key), "' gets no value any more: ", why.message()));
}

}  // namespace

absl::Status KeyValueStore::CheckKey(absl::string_view key) const {
  if (key.size() <= limits_.key_bytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the key '", Shown(key), "' has ", key.size(), " bytes; the limit is ", limits_.key_bytes));
}

absl::Status KeyValueStore::Put(absl::string_view key, absl::string_view value) {
  PW_RETURN_IF_ERROR(CheckKey(key));
  if (value.size() > limits_.value_bytes) {
    return absl::InvalidArgumentError(absl::StrCat("the value for the key '", Shown(key), "' has ", value.size(),
                                                   " bytes; the limit is ", limits_.value_bytes));
  }
  if (const auto it = values_.find(key); it != values_.end()) {
    if (it->second.view() == std::string_view(value.data(), value.size())) return absl::OkStatus();
    return absl::AlreadyExistsError(absl::StrCat("the key '", Shown(key), "' has another value already"));
  }
  const size_t bytes = key.size() + value.size();
  if (values_.size() >= limits_.keys || bytes > limits_.total_bytes - bytes_) {
    return absl::ResourceExhaustedError(absl::StrCat("there is no room for the key '", Shown(key), "': this world's store has ",
                                                     values_.size(), " keys and ", bytes_, " bytes; the limits are ",
                                                     limits_.keys, " and ", limits_.total_bytes));
  }
  bytes_ += bytes;
  const Bytes stored = Bytes::FromString(std::string(value));
  values_.emplace(std::string(key), stored);
  std::vector<Waits::node_type> ended;
  for (auto it = waits_.find(key); it != waits_.end() && it->first == key; it = waits_.find(key)) ended.push_back(TakeOut(it));
  for (Waits::node_type& wait : ended) std::move(wait.mapped().done)(stored);
  return absl::OkStatus();
}

absl::StatusOr<Bytes> KeyValueStore::TryGet(absl::string_view key) const {
  if (const auto it = values_.find(key); it != values_.end()) return it->second;
  return absl::NotFoundError(absl::StrCat("the key '", Shown(key), "' has no value"));
}

void KeyValueStore::Get(Owner owner, absl::string_view key, absl::Time deadline, Done done) {
  if (absl::Status status = CheckKey(key); !status.ok()) return std::move(done)(std::move(status));
  if (absl::StatusOr<Bytes> value = TryGet(key); value.ok()) return std::move(done)(std::move(value));
  if (!ended_.ok()) return std::move(done)(WaitEnded(key, ended_));
  if (waits_.size() >= limits_.waits || key.size() > limits_.total_bytes - awaited_bytes_) {
    return std::move(done)(absl::ResourceExhaustedError(
        absl::StrCat("the key '", Shown(key), "' cannot be waited for: ", waits_.size(), " requests wait already")));
  }
  awaited_bytes_ += key.size();
  const DeadlineKey number(deadline, next_wait_++);
  deadlines_.emplace(number, waits_.emplace(std::string(key), Wait{owner, number, std::move(done)}));
}

KeyValueStore::Waits::node_type KeyValueStore::TakeOut(Waits::iterator wait) {
  awaited_bytes_ -= wait->first.size();
  deadlines_.erase(wait->second.deadline);
  return waits_.extract(wait);
}

template <class F>
std::vector<KeyValueStore::Waits::node_type> KeyValueStore::Take(F which) {
  std::vector<Waits::node_type> taken;
  for (auto it = waits_.begin(); it != waits_.end();) {
    const auto next = std::next(it);
    if (which(it->second)) taken.push_back(TakeOut(it));
    it = next;
  }
  return taken;
}

void KeyValueStore::Expire(absl::Time now) {
  std::vector<Waits::node_type> late;
  while (next_deadline() <= now && !deadlines_.empty()) late.push_back(TakeOut(deadlines_.begin()->second));
  for (Waits::node_type& wait : late) std::move(wait.mapped().done)(WaitedInVain(wait.key()));
}

void KeyValueStore::Forget(Owner owner) {
  Take([owner](const Wait& one) { return one.owner == owner; });
}

void KeyValueStore::End(const absl::Status& why) {
  ended_ = why;
  for (Waits::node_type& wait : Take([](const Wait&) { return true; })) std::move(wait.mapped().done)(WaitEnded(wait.key(), why));
}

}  // namespace pw::controller
