#include "pathways/device/pjrt/key_value_callbacks.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>

#include "absl/strings/string_view.h"

namespace pw::device::pjrt {
namespace {

// Makes an error of the plugin's own type, or null for OK.
PJRT_Error* ToPluginError(const absl::Status& status, PJRT_CallbackError* make_error) {
  if (status.ok()) return nullptr;
  const std::string message(status.message());
  return (*make_error)(static_cast<PJRT_Error_Code>(status.code()), message.data(), message.size());
}

template <class Args>
PJRT_Error* AnswerWith(const absl::StatusOr<std::string>& value, Args* args) {
  if (!value.ok()) return ToPluginError(value.status(), args->callback_error);
  args->value = static_cast<char*>(std::malloc(value->size() + 1));
  if (args->value == nullptr) return ToPluginError(absl::ResourceExhaustedError("no memory for a value"), args->callback_error);
  std::memcpy(args->value, value->data(), value->size());
  args->value_size = value->size();
  args->value_deleter_callback = [](char* bytes) { std::free(bytes); };
  return nullptr;
}

template <class Args>
KeyValues& StoreOf(const Args* args) {
  return *static_cast<KeyValues*>(args->user_arg);
}

template <class Args>
absl::string_view KeyOf(const Args* args) {
  return absl::string_view(args->key, args->key_size);
}

PJRT_Error* GetValue(PJRT_KeyValueGetCallback_Args* args) {
  return AnswerWith(StoreOf(args).Get(KeyOf(args), absl::Milliseconds(std::max(args->timeout_in_ms, 0))), args);
}

PJRT_Error* TryGetValue(PJRT_KeyValueTryGetCallback_Args* args) { return AnswerWith(StoreOf(args).TryGet(KeyOf(args)), args); }

PJRT_Error* PutValue(PJRT_KeyValuePutCallback_Args* args) {
  return ToPluginError(StoreOf(args).Put(KeyOf(args), absl::string_view(args->value, args->value_size)), args->callback_error);
}

}  // namespace

void OfferKeyValues(KeyValues* store, PJRT_Client_Create_Args* args) {
  args->kv_get_callback = GetValue;
  args->kv_get_user_arg = store;
  args->kv_try_get_callback = TryGetValue;
  args->kv_try_get_user_arg = store;
  args->kv_put_callback = PutValue;
  args->kv_put_user_arg = store;
}

}  // namespace pw::device::pjrt
