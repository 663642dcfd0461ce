#include "pathways/device/pjrt/processes.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "pathways/base/status_macros.h"

namespace pw::device::pjrt {
namespace {

constexpr absl::string_view kOfWorld = " of world ";

}  // namespace

std::string NamedProcesses::own_address() const {
  absl::MutexLock lock(&mu_);
  return own_;
}

absl::StatusOr<std::vector<int>> NamedProcesses::NumbersOf(absl::Span<const std::string> addresses) {
  absl::MutexLock lock(&mu_);
  std::vector<int> numbers;
  for (const std::string& address : addresses) {
    PW_ASSIGN_OR_RETURN(const int number, NumberOf(address));
    numbers.push_back(number);
  }
  return numbers;
}

absl::StatusOr<int> NamedProcesses::NumberOf(const std::string& address) {
  if (address.empty()) return 0;
  if (auto it = numbers_.find(address); it != numbers_.end()) return it->second;
  auto free = std::find(addresses_.begin(), addresses_.end(), "");
  if (free == addresses_.end() && static_cast<int>(addresses_.size()) >= others_) {
    return absl::ResourceExhaustedError(absl::StrCat("a program spans yet another process, but this one was told of ", others_,
                                                     " others at most: start the workers with a larger --most-hosts"));
  }
  if (free == addresses_.end()) free = addresses_.insert(free, "");
  *free = address;
  return numbers_[address] = static_cast<int>(free - addresses_.begin()) + 1;
}

int NamedProcesses::Forget(const std::string& address) {
  absl::MutexLock lock(&mu_);
  auto it = numbers_.find(address);
  if (it == numbers_.end()) return -1;
  const int number = it->second;
  numbers_.erase(it);
  gone_.resize(addresses_.size());
  gone_[number - 1] = address.substr(0, address.find(' '));
  addresses_[number - 1].clear();
  return number;
}

absl::Status NamedProcesses::Put(absl::string_view key, absl::string_view value) {
  if (key != absl::StrCat(kProcessKey, node())) {
    return absl::InvalidArgumentError(
        absl::StrCat("named processes have no store for the key '", key, "': only a fixed world has one (--island-hosts)"));
  }
  absl::MutexLock lock(&mu_);
  own_ = std::string(value);
  return absl::OkStatus();
}

absl::StatusOr<std::string> NamedProcesses::TryGet(absl::string_view key) {
  absl::string_view digits = key;
  int number = -1;
  const bool parsed = absl::ConsumePrefix(&digits, kProcessKey) && absl::SimpleAtoi(digits, &number);
  absl::MutexLock lock(&mu_);
  if (parsed && number == 0 && !own_.empty()) return own_;
  if (parsed && number > 0 && number <= static_cast<int>(addresses_.size())) {
    if (!addresses_[number - 1].empty()) return addresses_[number - 1];
    return absl::UnavailableError(absl::StrCat("process ", gone_[number - 1], " of the computation is gone"));
  }
  return absl::NotFoundError(absl::StrCat("nothing is known under the key '", key, "'"));
}

std::string WorldProcesses::own_address() const { return absl::StrCat(world_.node, kOfWorld, world_.name); }

absl::StatusOr<int> WorldProcesses::NumberIn(const std::string& address) const {
  if (address.empty()) return world_.node;
  const std::pair<std::string, std::string> parts = absl::StrSplit(address, absl::MaxSplits(kOfWorld, 1));
  int number = -1;
  if (parts.second.empty() || !absl::SimpleAtoi(parts.first, &number)) return -1;
  if (parts.second != world_.name) {
    return absl::FailedPreconditionError(
        "one computation over hosts of several worlds: the device runtimes of different islands do not know each other. Use a "
        "mesh over the devices of one island, one mesh for each island, and jax.device_put between their arrays");
  }
  if (number >= 0 && number < world_.nodes) return number;
  return absl::InvalidArgumentError(absl::StrCat("this world has no process ", number, "; it has ", world_.nodes));
}

absl::StatusOr<std::vector<int>> WorldProcesses::NumbersOf(absl::Span<const std::string> addresses) {
  std::vector<int> numbers;
  std::set<int> free;
  for (int number = 0; number < world_.nodes; ++number) free.insert(number);
  for (const std::string& address : addresses) {
    PW_ASSIGN_OR_RETURN(const int number, NumberIn(address));
    numbers.push_back(number);
    free.erase(number);
  }
  std::map<std::string, int> stand_ins;
  for (size_t i = 0; i < addresses.size(); ++i) {
    if (numbers[i] >= 0) continue;
    const auto [it, is_new] = stand_ins.try_emplace(addresses[i], -1);
    if (is_new && free.empty()) {
      return absl::FailedPreconditionError(
          absl::StrCat("a program spans ", addresses[i], ", which is no process of this world of ", world_.nodes));
    }
    if (is_new) it->second = free.extract(free.begin()).value();
    numbers[i] = it->second;
  }
  return numbers;
}

int WorldProcesses::Forget(const std::string& address) {
  const absl::StatusOr<int> number = NumberIn(address);
  if (!number.ok() || *number < 0 || *number == world_.node) return -1;
  absl::MutexLock lock(&mu_);
  gone_[*number] = true;
  return *number;
}

std::vector<bool> WorldProcesses::Gone() const {
  absl::MutexLock lock(&mu_);
  return gone_;
}

}  // namespace pw::device::pjrt
