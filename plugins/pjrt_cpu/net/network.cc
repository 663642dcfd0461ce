#include "plugins/pjrt_cpu/net/network.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "plugins/pjrt_cpu/status.h"

namespace pw::pjrt_cpu {
namespace {

constexpr int kGetTimeoutMs = 60000;
constexpr int kFormTimeoutMs = 300000;  // the other processes load their plugins and read their devices meanwhile

std::string KeyOf(int process) { return absl::StrCat("pathways-cpu/process/", process); }
std::string WorldKeyOf(int node) { return absl::StrCat("pathways-cpu/world/", node); }

// The value that a node of a key-value world publishes: "DEVICES ADDRESS".
std::string Published(int devices, const ProcessAddress& address) { return absl::StrCat(devices, " ", address.ToString()); }

absl::Status ReadPublished(absl::string_view text, int* devices, ProcessAddress* address) {
  const size_t blank = text.find(' ');
  if (blank == absl::string_view::npos || !absl::SimpleAtoi(text.substr(0, blank), devices) || *devices < 1 ||
      *devices > kMostDevices) {
    return absl::InvalidArgumentError("a value of the key-value store is not what a process of this plugin publishes");
  }
  absl::StatusOr<ProcessAddress> read = ProcessAddress::Parse(text.substr(blank + 1));
  if (!read.ok()) return read.status();
  *address = *std::move(read);
  return absl::OkStatus();
}

PJRT_Error* MakeCallbackError(PJRT_Error_Code code, const char* message, size_t size) {
  return MakeError(MakeStatus(code, message, size));
}

absl::Status Take(PJRT_Error* error) {
  if (error == nullptr) return absl::OkStatus();
  std::unique_ptr<Error> owned(c_table::Own(error));
  return owned->status;
}

absl::Status Put(const PJRT_Client_Create_Args& args, const std::string& key, const std::string& value) {
  PJRT_CallbackError make_error = MakeCallbackError;
  PJRT_KeyValuePutCallback_Args put{};
  put.struct_size = PJRT_KeyValuePutCallback_Args_STRUCT_SIZE;
  put.key = key.data();
  put.key_size = key.size();
  put.value = value.data();
  put.value_size = value.size();
  put.callback_error = &make_error;
  put.user_arg = args.kv_put_user_arg;
  return Take(args.kv_put_callback(&put));
}

}  // namespace

absl::StatusOr<std::shared_ptr<Network>> Network::Join(const Options& options, const PJRT_Client_Create_Args& args) {
  if (args.kv_get_callback == nullptr || args.kv_put_callback == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("num_nodes is ", options.num_nodes,
                     ", but the host gave no key-value callbacks through which processes find each other"));
  }
  if (options.node_id >= options.num_nodes)
    return absl::InvalidArgumentError(absl::StrCat("node_id is ", options.node_id, ", but num_nodes is ", options.num_nodes));
  absl::StatusOr<std::shared_ptr<Wire>> wire = Wire::Open(options.network_address, options.island);
  if (!wire.ok()) return wire.status();
  const ProcessAddress& self = (*wire)->self();
  std::shared_ptr<Network> network(new Network(options.node_id, *wire, args));
  if (!options.key_value_world) {
    if (absl::Status status = Put(args, KeyOf(options.node_id), self.ToString()); !status.ok()) return status;
    return network;
  }
  absl::Status status = Put(args, WorldKeyOf(options.node_id), Published(options.device_count.value_or(1), self));
  if (status.ok()) status = network->FormWorld(options);
  if (!status.ok()) return status;
  return network;
}

absl::Status Network::FormWorld(const Options& options) {
  devices_of_nodes_.resize(options.num_nodes);
  world_.resize(options.num_nodes);
  for (int node = 0; node < options.num_nodes; ++node) {
    if (node == node_id_) {
      devices_of_nodes_[node] = options.device_count.value_or(1);
      world_[node] = wire_->self();
      continue;
    }
    absl::StatusOr<std::string> published = Get(WorldKeyOf(node), kFormTimeoutMs);
    if (!published.ok()) return published.status();
    if (absl::Status status = ReadPublished(*published, &devices_of_nodes_[node], &world_[node]); !status.ok()) return status;
    wire_->Name(world_[node].uid, absl::StrCat(node));
    absl::MutexLock lock(&mu_);
    uid_of_[node] = world_[node].uid;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> Network::Get(absl::string_view key, int timeout_ms) const {
  PJRT_CallbackError make_error = MakeCallbackError;
  PJRT_KeyValueGetCallback_Args get{};
  get.struct_size = PJRT_KeyValueGetCallback_Args_STRUCT_SIZE;
  get.key = key.data();
  get.key_size = key.size();
  get.timeout_in_ms = timeout_ms;
  get.callback_error = &make_error;
  get.user_arg = get_arg_;
  if (absl::Status status = Take(get_(&get)); !status.ok()) return status;
  std::string value(get.value, get.value_size);
  if (get.value_deleter_callback != nullptr) get.value_deleter_callback(get.value);
  return value;
}

absl::StatusOr<ProcessAddress> Network::AddressOf(int process) {
  if (process >= 0 && process < static_cast<int>(world_.size())) return world_[process];
  const absl::StatusOr<std::string> text = Get(KeyOf(process), kGetTimeoutMs);
  if (!text.ok()) return text.status();
  absl::StatusOr<ProcessAddress> address = ProcessAddress::Parse(*text);
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
