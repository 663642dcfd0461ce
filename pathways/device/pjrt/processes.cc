#include "pathways/device/pjrt/processes.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace pw::device::pjrt {
namespace {

template <class Args>
PJRT_Error* Answer(const absl::StatusOr<std::string>& value, Args* args) {
  if (!value.ok()) {
    const std::string message(value.status().message());
    return (*args->callback_error)(static_cast<PJRT_Error_Code>(value.status().code()), message.data(), message.size());
  }
  args->value = static_cast<char*>(std::malloc(value->size() + 1));
  std::memcpy(args->value, value->data(), value->size());
  args->value_size = value->size();
  args->value_deleter_callback = [](char* bytes) { std::free(bytes); };
  return nullptr;
}

}  // namespace

std::string Processes::own_address() const {
  absl::MutexLock lock(&mu_);
  return own_;
}

absl::StatusOr<int> Processes::NumberOf(const std::string& address) {
  if (address.empty()) return 0;
  absl::MutexLock lock(&mu_);
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

int Processes::Forget(const std::string& address) {
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

void Processes::Offer(PJRT_Client_Create_Args* args) {
  args->kv_get_callback = Get;
  args->kv_get_user_arg = this;
  args->kv_try_get_callback = TryGet;
  args->kv_try_get_user_arg = this;
  args->kv_put_callback = Put;
  args->kv_put_user_arg = this;
}

// Keys end in "/" and the process number.
absl::StatusOr<std::string> Processes::Find(const std::string& key) const {
  int number = 0;
  const bool parsed = absl::SimpleAtoi(key.substr(key.rfind('/') + 1), &number);
  absl::MutexLock lock(&mu_);
  if (parsed && number == 0 && !own_.empty()) return own_;
  if (parsed && number > 0 && number <= static_cast<int>(addresses_.size())) {
    if (!addresses_[number - 1].empty()) return addresses_[number - 1];
    return absl::UnavailableError(absl::StrCat("process ", gone_[number - 1], " of the computation is gone"));
  }
  return absl::NotFoundError(absl::StrCat("nothing is known under the key '", key, "'"));
}

PJRT_Error* Processes::Get(PJRT_KeyValueGetCallback_Args* args) {
  return Answer(static_cast<Processes*>(args->user_arg)->Find(std::string(args->key, args->key_size)), args);
}

PJRT_Error* Processes::TryGet(PJRT_KeyValueTryGetCallback_Args* args) {
  return Answer(static_cast<Processes*>(args->user_arg)->Find(std::string(args->key, args->key_size)), args);
}

PJRT_Error* Processes::Put(PJRT_KeyValuePutCallback_Args* args) {
  auto* self = static_cast<Processes*>(args->user_arg);
  absl::MutexLock lock(&self->mu_);
  self->own_.assign(args->value, args->value_size);
  return nullptr;
}

}  // namespace pw::device::pjrt
