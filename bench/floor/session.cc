#include "bench/floor/session.h"

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ifrt_proxy/serdes.pb.h"

namespace pw::bench {
namespace {

using namespace xla::ifrt::proxy;  // NOLINT(google-build-using-namespace)
using xla::ifrt::DTypeProto;

std::string RowMajorLayout(int rank) {
  std::string text = "{";
  for (int d = rank - 1; d >= 0; --d) absl::StrAppend(&text, d, d > 0 ? "," : "");
  return text + "}";
}

void SetUnimplemented(tensorflow::StatusProto* status, const std::string& what) {
  status->set_code(tensorflow::error::UNIMPLEMENTED);
  status->set_message(absl::StrCat("the floor server does not do ", what));
}

// Bytes of an element; elements smaller than a byte take one.
int64_t ElementSize(DTypeProto::Kind kind) {
  switch (kind) {
    case DTypeProto::KIND_S16:
    case DTypeProto::KIND_U16:
    case DTypeProto::KIND_F16:
    case DTypeProto::KIND_BF16:
      return 2;
    case DTypeProto::KIND_S32:
    case DTypeProto::KIND_U32:
    case DTypeProto::KIND_F32:
      return 4;
    case DTypeProto::KIND_S64:
    case DTypeProto::KIND_U64:
    case DTypeProto::KIND_F64:
    case DTypeProto::KIND_C64:
      return 8;
    case DTypeProto::KIND_C128:
      return 16;
    default:
      return 1;
  }
}

}  // namespace

void FloorSession::Handle(const IfrtRequest& request, Respond respond) {
  IfrtResponse response;
  response.mutable_response_metadata()->set_op_id(request.request_metadata().op_id());
  bool needed = true;
  switch (request.request_case()) {
    case IfrtRequest::kLoadedExecutableExecuteRequest:
      needed = Execute(request.loaded_executable_execute_request(), response.mutable_loaded_executable_execute_response());
      break;
    case IfrtRequest::kDestructArrayRequest:
      for (const uint64_t handle : request.destruct_array_request().array_handle()) arrays_.erase(handle);
      response.mutable_destruct_array_response();
      needed = false;
      break;
    case IfrtRequest::kInitRequest:
      Init(response.mutable_init_response());
      break;
    case IfrtRequest::kCheckFutureRequest:
      response.mutable_check_future_response();
      break;
    case IfrtRequest::kCheckValueReadyRequest:
      response.mutable_check_value_ready_response();
      return WhenUploaded(request.check_value_ready_request(), [respond = std::move(respond), response] { respond(response); });
    case IfrtRequest::kMakeArrayFromHostBufferRequest:
      Put(request.make_array_from_host_buffer_request());
      response.mutable_make_array_from_host_buffer_response()->set_array_handle(
          request.make_array_from_host_buffer_request().array_handle());
      break;
    case IfrtRequest::kMakeArraysFromHostBufferShardsRequest:
      PutShards(request.make_arrays_from_host_buffer_shards_request());
      *response.mutable_make_arrays_from_host_buffer_shards_response()->mutable_array_handles() =
          request.make_arrays_from_host_buffer_shards_request().array_handles();
      break;
    case IfrtRequest::kFullyReplicatedShardRequest: {
      const auto& shard = request.fully_replicated_shard_request();
      arrays_[shard.result_handle()] = arrays_[shard.array_handle()];
      response.mutable_fully_replicated_shard_response()->set_array_handle(shard.result_handle());
      break;
    }
    case IfrtRequest::kCopyToHostBufferRequest:
      CopyToHost(request.copy_to_host_buffer_request());
      response.mutable_copy_to_host_buffer_response();
      break;
    case IfrtRequest::kCompileRequest:
      Compile(request.compile_request(), response.mutable_compile_response());
      break;
    case IfrtRequest::kLoadedExecutableMetadataRequest:
      Metadata(response.mutable_loaded_executable_metadata_response());
      break;
    case IfrtRequest::kLoadedExecutableDestructRequest:
      response.mutable_loaded_executable_destruct_response();
      break;
    case IfrtRequest::kGetDefaultLayoutRequest:
      response.mutable_get_default_layout_response()->set_serialized_pjrt_layout(
          RowMajorLayout(request.get_default_layout_request().dims_size()));
      break;
    default:
      SetUnimplemented(response.mutable_response_metadata()->mutable_status(), absl::StrCat("request ", request.request_case()));
  }
  if (needed || answer_all_) respond(std::move(response));
}

void FloorSession::Init(InitResponse* response) const {
  response->set_session_id(id_);
  response->set_platform_name("cpu");
  response->set_platform_version("floor");
  response->set_runtime_type("floor");
  for (int id = 0; id < devices_; ++id) {
    auto* device = response->add_all_devices();
    device->set_id(id);
    device->set_local_device_id(id);
    device->set_platform_name("cpu");
    device->set_device_kind("cpu");
    device->set_default_memory_id(id);
    device->add_memory_ids(id);
    device->set_to_string(absl::StrCat("FloorDevice(id=", id, ")"));
    device->set_debug_string(device->to_string());
    response->add_primary_device_ids(id);
    response->add_addressable_device_ids(id);
    auto* memory = response->add_memories();
    memory->set_id(id);
    memory->set_memory_space_kind("device");
    memory->add_device_ids(id);
    memory->set_to_string(absl::StrCat("FloorMemory(id=", id, ")"));
    memory->set_debug_string(memory->to_string());
  }
  auto& attributes = *response->mutable_client_attributes()->mutable_attributes();
  attributes["serialize_with_sdy"].set_bool_value(true);
  attributes["supports_executable_serialization"].set_bool_value(false);
}

void FloorSession::Compile(const CompileRequest& request, CompileResponse* response) {
  xla::ifrt::XlaCompileOptionsProto options;
  options.ParseFromString(request.compile_options().data());
  const auto& build = options.compile_options().executable_build_options();
  for (const auto& computation : build.device_assignment().computation_devices()) {
    for (const int64_t id : computation.replica_device_ids()) response->add_device_ids(static_cast<int32_t>(id));
  }
  if (response->device_ids().empty()) response->add_device_ids(0);
  *response->mutable_addressable_device_ids() = response->device_ids();
  response->set_num_devices(response->device_ids_size());
  response->set_loaded_executable_handle(next_handle_++);
  response->set_ready_future_handle(next_handle_++);
  response->set_name("floor");
  response->set_fingerprint_value(absl::StrCat("floor", response->loaded_executable_handle()));
}

void FloorSession::Metadata(LoadedExecutableMetadataResponse* response) const {
  SetUnimplemented(response->mutable_parameter_layouts_error(), "layouts");
  SetUnimplemented(response->mutable_output_layouts_error(), "layouts");
  response->mutable_donated_input_indices();
}

bool FloorSession::Execute(const LoadedExecutableExecuteRequest& request, LoadedExecutableExecuteResponse* response) {
  Output output = arrays_[request.args_handles(0)];
  if (request.result_array_handle_size() > 0) {
    for (const uint64_t handle : request.result_array_handle()) arrays_[handle] = output;
    return false;
  }
  output.set_array_handle(next_handle_++);
  arrays_[output.array_handle()] = output;
  *response->add_outputs() = std::move(output);
  return true;
}

void FloorSession::Put(const MakeArrayFromHostBufferRequest& request) {
  Output& output = arrays_[request.array_handle()];
  *output.mutable_dtype() = request.dtype();
  *output.mutable_shape() = request.shape();
  *output.mutable_sharding() = request.sharding();
  uploads_[request.array_handle()].push_back(request.host_buffer_handle());
}

void FloorSession::PutShards(const MakeArraysFromHostBufferShardsRequest& request) {
  for (int i = 0; i < request.specs_size(); ++i) {
    Output& output = arrays_[request.array_handles(i)];
    *output.mutable_dtype() = request.specs(i).array_spec().dtype();
    *output.mutable_shape() = request.specs(i).array_spec().shape();
    *output.mutable_sharding() = request.specs(i).array_spec().sharding();
    for (const auto& buffer : request.specs(i).host_buffers()) {
      uploads_[request.array_handles(i)].push_back(buffer.host_buffer_handle());
    }
  }
}

void FloorSession::WhenUploaded(const CheckValueReadyRequest& request, std::function<void()> then) {
  std::vector<uint64_t> missing;
  for (const uint64_t array : request.value_handles()) {
    const auto it = uploads_.find(array);
    if (it == uploads_.end()) continue;
    missing.insert(missing.end(), it->second.begin(), it->second.end());
    uploads_.erase(it);
  }
  if (missing.empty()) return then();
  auto left = std::make_shared<std::atomic<size_t>>(missing.size());
  for (const uint64_t buffer : missing) {
    buffers_->WhenArrived({id_, buffer}, [left, then] {
      if (--*left == 0) then();
    });
  }
}

void FloorSession::CopyToHost(const CopyToHostBufferRequest& request) {
  const Output& array = arrays_[request.array_handle()];
  int64_t size = ElementSize(array.dtype().kind());
  for (const int64_t dim : array.shape().dims()) size *= dim;
  buffers_->SetSize({id_, request.host_buffer_handle()}, size);
}

}  // namespace pw::bench
