#include "plugins/pjrt_cpu/net/network.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "plugins/pjrt_cpu/status.h"

namespace pw::pjrt_cpu {
namespace {

constexpr int kGetTimeoutMs = 60000;

std::string KeyOf(int process) { return absl::StrCat("pathways-cpu/process/", process); }

PJRT_Error* MakeCallbackError(PJRT_Error_Code code, const char* message, size_t size) {
  return MakeError(MakeStatus(code, message, size));
}

absl::Status Take(PJRT_Error* error) {
  if (error == nullptr) return absl::OkStatus();
  std::unique_ptr<Error> owned(c_table::Own(error));
  return owned->status;
}

}  // namespace

absl::StatusOr<std::shared_ptr<Network>> Network::Join(const Options& options, const PJRT_Client_Create_Args& args) {
  if (args.kv_get_callback == nullptr || args.kv_put_callback == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("num_nodes is ", options.num_nodes,
                     ", but the host gave no key-value callbacks through which processes find each other"));
  }
  absl::StatusOr<std::shared_ptr<Wire>> wire = Wire::Open(options.network_address, options.island);
  if (!wire.ok()) return wire.status();
  const std::string key = KeyOf(options.node_id), value = (*wire)->self().ToString();
  PJRT_CallbackError make_error = MakeCallbackError;
  PJRT_KeyValuePutCallback_Args put{};
  put.struct_size = PJRT_KeyValuePutCallback_Args_STRUCT_SIZE;
  put.key = key.data();
  put.key_size = key.size();
  put.value = value.data();
  put.value_size = value.size();
  put.callback_error = &make_error;
  put.user_arg = args.kv_put_user_arg;
  if (absl::Status status = Take(args.kv_put_callback(&put)); !status.ok()) return status;
  return std::shared_ptr<Network>(new Network(options.node_id, *std::move(wire), args));
}

absl::StatusOr<ProcessAddress> Network::AddressOf(int process) {
  const std::string key = KeyOf(process);
  PJRT_CallbackError make_error = MakeCallbackError;
  PJRT_KeyValueGetCallback_Args get{};
  get.struct_size = PJRT_KeyValueGetCallback_Args_STRUCT_SIZE;
  get.key = key.data();
  get.key_size = key.size();
  get.timeout_in_ms = kGetTimeoutMs;
  get.callback_error = &make_error;
  get.user_arg = get_arg_;
  if (absl::Status status = Take(get_(&get)); !status.ok()) return status;
  absl::StatusOr<ProcessAddress> address = ProcessAddress::Parse(absl::string_view(get.value, get.value_size));
  if (get.value_deleter_callback != nullptr) get.value_deleter_callback(get.value);
  if (!address.ok()) return address;
  absl::MutexLock lock(&mu_);
  uid_of_[process] = address->uid;
  return address;
}

void Network::Lose(int process, const std::string& why) {
  uint64_t uid = 0;
  {
    absl::MutexLock lock(&mu_);
    auto it = uid_of_.find(process);
    if (it == uid_of_.end()) return;  // no messages are expected from it
    uid = it->second;
  }
  wire_->Lose(uid, why);
}

}  // namespace pw::pjrt_cpu
